//! Values of flags: durations and depths.

use std::time::Duration;

use tower_x402::{PaymentIdentifier, verify::Finality};

/// Parses a number of blocks, `safe` or `finalized`.
pub(crate) fn finality(text: &str) -> Result<Finality, &'static str> {
    match (text, text.parse()) {
        ("safe", _) => Ok(Finality::Safe),
        ("finalized", _) => Ok(Finality::Finalized),
        (_, Ok(blocks)) if blocks > 0 => Ok(Finality::Confirmations(blocks)),
        _ => Err("it is a number of blocks from 1 on, `safe` or `finalized`"),
    }
}

/// Formats a finality for people.
pub(crate) fn shown(finality: Finality) -> String {
    match finality {
        Finality::Confirmations(1) => "1 block".to_owned(),
        Finality::Confirmations(blocks) => format!("{blocks} blocks"),
        Finality::Safe => "safe".to_owned(),
        Finality::Finalized => "finalized".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Parses a setting of payment identifiers.
pub(crate) fn payment_identifier(text: &str) -> Result<PaymentIdentifier, &'static str> {
    match text {
        "optional" => Ok(PaymentIdentifier::Optional),
        "required" => Ok(PaymentIdentifier::Required),
        _ => Err("it is optional or required"),
    }
}

/// Parses `90s`, `15m`, `24h`, `2d`, or several together: `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, &'static str> {
    const WRONG: &str = "a time is a number and s, m, h or d, such as 90s, 15m or 24h";
    let (mut total, mut digits) = (0_u64, String::new());
    for c in text.chars() {
        if c.is_ascii_digit() {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3_600,
            'd' => 86_400,
            _ => return Err(WRONG),
        };
        let number: u64 = digits.parse().map_err(|_| WRONG)?;
        let seconds = number.checked_mul(unit).and_then(|seconds| total.checked_add(seconds));
        total = seconds.ok_or("the time is too long")?;
        digits.clear();
    }
    if digits.is_empty() && !text.is_empty() { Ok(Duration::from_secs(total)) } else { Err(WRONG) }
}

/// Formats a time for people: whole seconds in the largest unit that divides them.
pub(crate) fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, 'd'), (3_600, 'h'), (60, 'm')];
    let fitting = units.into_iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit));
    let (unit, name) = fitting.unwrap_or((1, 's'));
    format!("{}{name}", seconds / unit)
}

/// Parses a time that is not zero.
pub(crate) fn some_time(text: &str) -> Result<Duration, &'static str> {
    duration(text).and_then(|time| if time.is_zero() { Err("it is at least 1s") } else { Ok(time) })
}

/// How far the time of the chain's head may be from the clock; `None` sets no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeadAge(pub(crate) Option<Duration>);

/// Parses a time, or `off`.
pub(crate) fn head_age(text: &str) -> Result<HeadAge, &'static str> {
    if text == "off" { Ok(HeadAge(None)) } else { some_time(text).map(|age| HeadAge(Some(age))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heads_age_is_a_time_or_off() {
        assert_eq!(head_age("3m"), Ok(HeadAge(Some(Duration::from_secs(180)))));
        assert_eq!(head_age("off"), Ok(HeadAge(None)));
        for wrong in ["", "on", "0s", "none"] {
            assert!(head_age(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(duration("2d"), Ok(Duration::from_secs(172_800)));
        for wrong in ["", "15", "m", "1h30", "-1m", "1.5h", "99999999999999999999d", "9999999999999999999d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        for text in ["0s", "5s", "90s", "15m", "24h", "2d"] {
            let same = duration(text).unwrap();
            assert_eq!(duration(&time(same)), Ok(same));
        }
        assert_eq!(
            [time(Duration::ZERO), time(Duration::from_secs(900)), time(Duration::from_secs(90))],
            ["0s", "15m", "90s"]
        );
        assert_eq!((some_time("1s"), some_time("0s").is_err()), (Ok(Duration::from_secs(1)), true));
    }
}
