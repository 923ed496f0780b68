//! `Charge`: what an answer costs according to its handler, and how much of that the payment is charged.

use http::{HeaderMap, HeaderName, Response};
use serde::Deserialize;

use crate::{
    paywall::{
        refusal::ChargeFault,
        seller::{pricing::Cost, route::Route},
    },
    protocol::Amount,
};

/// The header in which a service states its charge, on routes that read it.
pub(crate) const SETTLEMENT_OVERRIDES: HeaderName = HeaderName::from_static("settlement-overrides");

/// The cost of this answer in base units. A handler sets it in the extensions of its response, on a route that charges [up
/// to](crate::Merchant::charge_up_to) an amount.
///
/// | The handler says | Then |
/// |---|---|
/// | nothing | the maximum is charged |
/// | up to the maximum, zero included | that is charged |
/// | more than the maximum | 500, nothing is sold or taken, and an error is logged |
/// | anything but the price, on a route with a fixed price | the same |
///
/// The maximum is what the payer allowed: [`Receipt::maximum`](crate::Receipt::maximum). A payment of the whole price
/// ([`or_fixed`](crate::X402Layer::or_fixed)) is taken in full, whatever the charge; so is a payment that was settled for this answer
/// before a crash. An answer that is not sold costs nothing. A pass of an amount pays the charge, and a pass of calls pays one call.
///
/// The charge reaches the layer only if every layer in between keeps the response's extensions. If one drops them, the answer costs the
/// maximum.
///
/// ```
/// use http::Response;
/// use tower_x402::{Charge, protocol::Amount};
///
/// let words = ["three", "short", "words"];
/// let mut answer = Response::new(words.join(" "));
/// // A tenth of a cent for each; USDC has 6 decimals.
/// answer.extensions_mut().insert(Charge(Amount::from_base_units(1_000 * words.len() as u128)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge(pub Amount);

/// The charge that the handler stated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Nothing,
    Amount(Amount),
    /// A share of the maximum, in hundredths of a per cent.
    Share(u64),
    /// A header that cannot be read.
    Unreadable,
}

/// Takes the handler's charge out of its answer. The extension takes precedence over the header.
pub(crate) fn said<B>(response: &mut Response<B>, route: &Route) -> Said {
    match response.extensions_mut().remove::<Charge>() {
        Some(Charge(amount)) => Said::Amount(amount),
        None if route.charge_header => in_headers(response.headers(), route.merchant.decimals()),
        None => Said::Nothing,
    }
}

/// Reads the charge from the header, in a currency with this number of decimals.
fn in_headers(headers: &HeaderMap, decimals: u8) -> Said {
    let mut values = headers.get_all(SETTLEMENT_OVERRIDES).iter();
    match (values.next(), values.next()) {
        (None, _) => Said::Nothing,
        (Some(value), None) => read(value.as_bytes(), decimals).unwrap_or(Said::Unreadable),
        (Some(_), Some(_)) => Said::Unreadable,
    }
}

fn read(json: &[u8], decimals: u8) -> Option<Said> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Overrides {
        amount: String,
    }
    // serde would read a list as the struct too.
    json.trim_ascii_start().starts_with(b"{").then_some(())?;
    let Overrides { amount } = serde_json::from_slice(json).ok()?;
    Some(match (amount.strip_prefix('$'), amount.strip_suffix('%')) {
        (Some(decimal), _) => Said::Amount(Amount::parse_decimal(decimal, decimals).ok()?),
        (None, Some(share)) => Said::Share(hundredths(share)?),
        (None, None) => Said::Amount(amount.parse().ok()?),
    })
}

/// Parses a percentage with at most two decimals, in hundredths of a per cent.
fn hundredths(share: &str) -> Option<u64> {
    let (whole, decimals) = share.split_once('.').unwrap_or((share, "00"));
    let digits = |text: &str| (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let one_text = whole == "0" || !whole.starts_with('0');
    let plain = digits(whole) && one_text && digits(decimals) && decimals.len() <= 2;
    let decimals = if decimals.len() == 1 { format!("{decimals}0") } else { decimals.to_owned() };
    plain.then(|| format!("{whole}{decimals}").parse().ok()).flatten()
}

/// Returns the charge, out of the `maximum` that the payer allowed.
///
/// # Errors
/// If the handler's charge exceeds the maximum, or cannot be read.
pub(crate) fn of_maximum(said: Said, maximum: Amount) -> Result<Amount, ChargeFault> {
    let charge = match said {
        Said::Nothing => maximum,
        Said::Amount(charge) => charge,
        Said::Share(share) if share > WHOLE => return Err(above(share_of(share, maximum), maximum)),
        Said::Share(share) => share_of(share, maximum),
        Said::Unreadable => return Err(ChargeFault::Unreadable),
    };
    if charge > maximum { Err(above(charge, maximum)) } else { Ok(charge) }
}

/// Checks that the handler's charge agrees with a payment of a fixed amount.
///
/// # Errors
/// If the charge exceeds the price, differs from it where the price is fixed, or cannot be read.
pub(crate) fn of_fixed(said: Said, cost: Cost, paid: Amount) -> Result<(), ChargeFault> {
    let price = cost.amount;
    if cost.tariff.is_metered() {
        return of_maximum(said, price.max(paid)).map(drop);
    }
    match said {
        Said::Nothing | Said::Share(WHOLE) => Ok(()),
        // The price may have been another when it was quoted.
        Said::Amount(charge) if charge == price || charge == paid => Ok(()),
        Said::Amount(charge) => Err(ChargeFault::NotThePrice { charge, price }),
        Said::Share(share) => Err(ChargeFault::NotThePrice { charge: share_of(share, price), price }),
        Said::Unreadable => Err(ChargeFault::Unreadable),
    }
}

/// 100%, in hundredths of a per cent.
const WHOLE: u64 = 10_000;

const fn above(charge: Amount, maximum: Amount) -> ChargeFault {
    ChargeFault::AboveMaximum { charge, maximum }
}

/// Rounded down.
fn share_of(share: u64, maximum: Amount) -> Amount {
    maximum.share(share, WHOLE)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;
    use crate::paywall::seller::pricing::Tariff;

    fn units(units: u128) -> Amount {
        Amount::from_base_units(units)
    }

    fn maximum() -> Amount {
        units(100_001)
    }

    fn header(values: &[&str]) -> Said {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(SETTLEMENT_OVERRIDES, HeaderValue::from_str(value).unwrap());
        }
        in_headers(&headers, 6)
    }

    #[test]
    fn a_header_says_units_shares_and_dollars() {
        for (text, charge) in [
            ("1858", Ok(units(1_858))),
            ("0", Ok(Amount::ZERO)),
            ("100001", Ok(maximum())),
            // Rounded down.
            ("50%", Ok(units(50_000))),
            ("33.33%", Ok(units(33_330))),
            ("33.3%", Ok(units(33_300))),
            ("0.01%", Ok(units(10))),
            ("0%", Ok(Amount::ZERO)),
            ("100%", Ok(maximum())),
            ("$0.05", Ok(units(50_000))),
            ("$0", Ok(Amount::ZERO)),
            ("100002", Err(above(units(100_002), maximum()))),
            ("$1", Err(above(units(1_000_000), maximum()))),
            ("100.01%", Err(above(units(100_011), maximum()))),
        ] {
            let said = header(&[&format!(r#"{{"amount":"{text}"}}"#)]);
            assert_eq!(of_maximum(said, maximum()), charge, "{text}");
        }
        assert_eq!(header(&[]), Said::Nothing);
    }

    #[test]
    fn no_other_spelling_is_taken() {
        for amount in [
            "",
            " 1",
            "1 ",
            "+1",
            "-1",
            "01",
            "1.5",
            "1e3",
            "0x10",
            "%",
            "five%",
            "-5%",
            "50 %",
            "050%",
            "1000.5%",
            "5%%",
            "33.333%",
            ".5%",
            "5.%",
            "+5%",
            "$",
            "$-1",
            "$ 1",
            "$0.0000001",
            "$1%",
            "1$",
        ] {
            assert_eq!(header(&[&format!(r#"{{"amount":"{amount}"}}"#)]), Said::Unreadable, "{amount}");
        }
        for json in [
            "",
            "1858",
            r#"{"amount":1858}"#,
            r#"{"amount":null}"#,
            "{}",
            r#"["1"]"#,
            r#"{"amount":"1"} x"#,
            r#"{"amount":"1","a":2}"#,
        ] {
            assert_eq!(header(&[json]), Said::Unreadable, "{json}");
        }
        let once = r#"{"amount":"1"}"#;
        assert_eq!(header(&[once, once]), Said::Unreadable);
        assert_eq!(of_maximum(Said::Unreadable, maximum()), Err(ChargeFault::Unreadable));
    }

    #[test]
    fn a_payment_of_the_whole_price_agrees_with_the_handler_or_buys_nothing() {
        let (price, paid) = (units(50), units(60));
        for (said, at_fixed, at_most) in [
            (Said::Nothing, true, true),
            (Said::Amount(price), true, true),
            (Said::Amount(paid), true, true),
            (Said::Amount(units(49)), false, true),
            (Said::Amount(Amount::ZERO), false, true),
            (Said::Amount(units(61)), false, false),
            (Said::Share(WHOLE), true, true),
            (Said::Share(WHOLE + 1), false, false),
            (Said::Share(2 * WHOLE), false, false),
            (Said::Share(5_000), false, true),
            (Said::Unreadable, false, false),
        ] {
            for (tariff, agrees) in [(Tariff::Fixed, at_fixed), (Tariff::UpTo, at_most), (Tariff::UpToOrFixed, at_most)]
            {
                let cost = Cost { amount: price, tariff };
                assert_eq!(of_fixed(said, cost, paid).is_ok(), agrees, "{said:?} {tariff:?}");
            }
        }
    }
}
