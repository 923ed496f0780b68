//! `Accept-Payment`: the payments that a client can make.

use http::HeaderMap;

use crate::protocol::headers::ACCEPT_PAYMENT;

/// Returns whether a client can pay a charge on an EVM chain according to its headers. Without `Accept-Payment`, it
/// can.
///
/// The most specific range counts; a weight of zero excludes.
pub(crate) fn accepts_charge(headers: &HeaderMap) -> bool {
    let mut best = None::<(u8, bool)>;
    let mut said = false;
    let values = headers.get_all(ACCEPT_PAYMENT).iter().filter_map(|value| value.to_str().ok());
    for range in values.flat_map(|value| value.split(',')).map(str::trim).filter(|range| !range.is_empty()) {
        said = true;
        let mut parts = range.split(';').map(str::trim);
        let Some(specific) = parts.next().and_then(matches) else { continue };
        let mut weights =
            parts.filter_map(|part| part.split_once('=')).filter(|(name, _)| name.eq_ignore_ascii_case("q"));
        let wanted = weights.all(|(_, weight)| !is_zero(weight));
        if best.is_none_or(|(known, _)| specific > known) {
            best = Some((specific, wanted));
        }
    }
    best.map_or(!said, |(_, wanted)| wanted)
}

/// Returns how specifically a range names a charge on an EVM chain; `None` if it does not.
fn matches(range: &str) -> Option<u8> {
    let (method, intent) = range.split_once('/')?;
    let part = |part: &str, name: &str| match part {
        "*" => Some(0),
        named => named.eq_ignore_ascii_case(name).then_some(1),
    };
    Some(2 * part(method, "evm")? + part(intent, "charge")?)
}

fn is_zero(weight: &str) -> bool {
    weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_most_specific_range_counts() {
        for (said, accepted) in [
            ("", true),
            ("evm/charge", true),
            ("EVM/charge;q=0.5", true),
            ("evm/charge;q=0", false),
            ("evm/charge; q=0.000", false),
            ("evm/charge;Q=0", false),
            ("tempo/*", false),
            ("tempo/*;q=0.6, evm/charge", true),
            ("*/*", true),
            ("*/*;q=0", false),
            ("*/*;q=0, evm/*", true),
            ("*/*, evm/charge;q=0", false),
            ("evm/*;q=0, */charge", false),
            ("*/session;q=0", false),
            ("nonsense", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_PAYMENT, HeaderValue::from_static(said))]);
            assert_eq!(accepts_charge(&headers), accepted, "{said}");
        }
        assert!(accepts_charge(&HeaderMap::new()));
    }
}
