//! Unix time for people and for machines.

use crate::protocol::ChainTime;

/// Year, month, day, hour and minute in UTC.
fn civil(time: ChainTime) -> (i64, i64, i64, u64, u64) {
    let (days, seconds) = (time.unix() / 86_400, time.unix() % 86_400);
    // Days since 0000-03-01, in eras of 400 years (the algorithm of Hinnant's `civil_from_days`).
    let days = i64::try_from(days).unwrap_or(0).min(i64::from(u32::MAX)) + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day, seconds / 3_600, seconds % 3_600 / 60)
}

/// `2026-11-22 18:40 UTC`
pub(super) fn shown(time: ChainTime) -> String {
    let (year, month, day, hour, minute) = civil(time);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// `2026-11-22T18:40Z`
pub(super) fn machine(time: ChainTime) -> String {
    let (year, month, day, hour, minute) = civil(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (unix, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_795_280_400, "2026-11-21 17:00 UTC"),
            (4_102_444_799, "2099-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(shown(ChainTime::from_unix(unix)), text);
        }
        assert_eq!(machine(ChainTime::from_unix(1_795_280_400)), "2026-11-21T17:00Z");
        let _ = shown(ChainTime::from_unix(u64::MAX));
    }
}
