//! `UtcDay`: a day of the calendar, in UTC.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use crate::protocol::ParseError;

const SECONDS: u64 = 24 * 60 * 60;
/// 9999-12-31.
const LAST: u64 = 2_932_896;

/// A day of the Gregorian calendar in UTC, from 1970-01-01 to 9999-12-31. Its text is `2026-11-22`.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use tower_x402::ledger::UtcDay;
/// let day: UtcDay = "2026-11-22".parse()?;
/// assert_eq!(day.start(), UNIX_EPOCH + Duration::from_secs(1_795_305_600));
/// assert_eq!(UtcDay::of(day.start() + Duration::from_secs(86_399)), day);
/// assert_eq!(day.to_string(), "2026-11-22");
/// assert!("2026-11-31".parse::<UtcDay>().is_err());
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcDay(u64);

const INVALID: ParseError = ParseError::new("a day is written as 2026-11-22, from 1970-01-01 on");

impl UtcDay {
    /// Returns the day of that time. A time outside the calendar gives the first or the last day.
    #[must_use]
    pub fn of(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).map_or(0, |since| (since.as_secs() / SECONDS).min(LAST)))
    }

    /// Returns its first moment, 00:00:00 UTC.
    #[must_use]
    pub fn start(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.0 * SECONDS)
    }

    /// Returns the first moment of the next day.
    #[must_use]
    pub fn end(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs((self.0 + 1) * SECONDS)
    }

    /// Returns year, month and day of the month. The calendar repeats every 400 years, which have 146,097 days. Years
    /// are counted from March, so that the leap day is the last.
    const fn date(self) -> (u64, u64, u64) {
        let days = self.0 + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
        let year = 400 * era + year + if month <= 2 { 1 } else { 0 };
        (year, month, day)
    }

    /// The inverse, for a year of four digits. A day beyond the end of a month is one of the next month.
    const fn of_date(year: u64, month: u64, day: u64) -> Option<u64> {
        let year = if month <= 2 { year - 1 } else { year };
        let from_march = if month > 2 { month - 3 } else { month + 9 };
        let of_year = (153 * from_march + 2) / 5 + day - 1;
        let of_era = year % 400 * 365 + year % 400 / 4 - year % 400 / 100 + of_year;
        (year / 400 * 146_097 + of_era).checked_sub(719_468)
    }
}

impl fmt::Display for UtcDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}

impl fmt::Debug for UtcDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for UtcDay {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
        let day = || {
            let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
            let plausible = year >= 1970 && (1..=12).contains(&month) && (1..=31).contains(&day);
            plausible.then(|| Self::of_date(year, month, day)).flatten().map(Self)
        };
        // Each day has one text: other spellings, and days beyond the end of the month, are refused.
        day().filter(|day| day.to_string() == text).ok_or(INVALID)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_the_calendar_has_its_text() {
        let mut last = (0, 0, 0);
        for number in 0..=LAST {
            let day = UtcDay(number);
            let date = day.date();
            let next_month = date.2 == 1 && ((28..=31).contains(&last.2) || number == 0);
            assert!(next_month || (date.0, date.1, date.2 - 1) == last, "{day}");
            last = date;
            if number % 97 == 0 {
                assert_eq!(day.to_string().parse(), Ok(day));
            }
        }
        assert_eq!(last, (9999, 12, 31));
    }

    #[test]
    fn days_that_are_known() {
        for (day, seconds) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400),
            ("2000-03-01", 951_868_800),
            ("2024-02-29", 1_709_164_800),
            ("2026-11-22", 1_795_305_600),
            ("2100-03-01", 4_107_542_400),
        ] {
            let start = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(day.parse().map(UtcDay::start), Ok(start), "{day}");
            assert_eq!(UtcDay::of(start).to_string(), day);
            assert_eq!(UtcDay::of(start).end(), start + Duration::from_secs(SECONDS));
        }
        assert_eq!(UtcDay::of(UNIX_EPOCH - Duration::from_secs(1)).to_string(), "1970-01-01");
    }

    #[test]
    fn what_is_no_day() {
        for text in [
            "",
            "2026",
            "2026-11",
            "2026-11-31",
            "2026-02-29",
            "1900-02-29",
            "1969-12-31",
            "2026-13-01",
            "2026-00-10",
            "2026-1-1",
            "26-11-22",
            "2026/11/22",
            "2026-11-22 ",
            " 2026-11-22",
            "2026-11-22T00:00",
            "+026-11-22",
            "2026-+1-22",
            "12026-11-22",
            "2026-11-0é",
        ] {
            assert!(text.parse::<UtcDay>().is_err(), "{text}");
        }
    }
}
