//! The weight of a choice in `Accept` and `Accept-Language` (RFC 9110, section 12.4.2).

/// Returns the quality in thousandths, by default 1000; `None` if it is malformed.
pub(crate) fn quality<'a>(parameters: impl Iterator<Item = &'a str>) -> Option<u16> {
    for parameter in parameters {
        let Some((name, value)) = parameter.split_once('=') else { continue };
        if name.trim().eq_ignore_ascii_case("q") {
            let (whole, fraction) = value.trim().split_once('.').unwrap_or((value.trim(), ""));
            let digits = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
            let fraction = format!("{fraction:0<3}").parse::<u16>().ok().filter(|_| digits)?;
            return match whole {
                "0" => Some(fraction),
                "1" if fraction == 0 => Some(1000),
                _ => None,
            };
        }
    }
    Some(1000)
}
