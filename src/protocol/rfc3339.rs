//! Calendar times in the form of RFC 3339.

use std::time::{Duration, UNIX_EPOCH};

/// The last second of the year 9999, the format's last year.
const LAST: u64 = 253_402_300_799;

/// Formats Unix seconds as `2026-11-22T18:40:05Z`.
pub(crate) fn rfc3339(unix: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(unix.min(LAST))).to_string()
}

/// Parses a text with any offset to Unix seconds. Fractions of a second are cut off.
#[cfg(feature = "client")]
pub(crate) fn parse_rfc3339(text: &str) -> Option<u64> {
    let text = text.to_ascii_uppercase();
    let (local, ahead) = match text.strip_suffix('Z') {
        Some(local) => (local, 0),
        None => {
            let (local, offset) = text.split_at_checked(text.len().checked_sub("+00:00".len())?)?;
            (local, seconds(offset)?)
        }
    };
    let local = humantime::parse_rfc3339(&format!("{local}Z")).ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(i64::try_from(local.as_secs()).ok()? - ahead).ok()
}

/// Parses an offset such as `+01:30` to seconds.
#[cfg(feature = "client")]
fn seconds(offset: &str) -> Option<i64> {
    let sign = match offset.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let number = |text: &str, most: i64| {
        let is_plain = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|number| is_plain && *number <= most)
    };
    Some(sign * (3_600 * number(hours, 23)? + 60 * number(minutes, 59)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (unix, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_893_456_000, "2030-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (u64::MAX, "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(rfc3339(unix), text);
        }
    }

    #[cfg(feature = "client")]
    #[test]
    fn times_of_every_offset_are_read() {
        for (text, unix) in [
            ("2030-01-01T00:00:00Z", Some(1_893_456_000)),
            ("2030-01-01t00:00:00.999z", Some(1_893_456_000)),
            ("2030-01-01T01:30:00+01:30", Some(1_893_456_000)),
            ("2029-12-31T16:00:00.5-08:00", Some(1_893_456_000)),
            ("1970-01-01T00:00:00+00:01", None),
            ("2030-01-01T00:00:00", None),
            ("2030-01-01T00:00:00+0130", None),
            ("2030-01-01T00:00:00+24:00", None),
            ("2030-01-01T00:00:00 00:00", None),
            ("2030-01-01T00:00:00++1:00", None),
            ("2030-13-01T00:00:00Z", None),
            ("€", None),
            ("", None),
        ] {
            assert_eq!(parse_rfc3339(text), unix, "{text}");
        }
    }
}
