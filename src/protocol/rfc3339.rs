//! Times of the calendar, as RFC 3339 writes them.

use std::time::{Duration, UNIX_EPOCH};

/// The last second of the year 9999, behind which the format has no years.
const LAST: u64 = 253_402_300_799;

/// `2026-11-22T18:40:05Z`, for seconds of Unix time.
pub(crate) fn rfc3339(unix: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(unix.min(LAST))).to_string()
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
}
