//! Unix time for people and for machines.

use crate::protocol::{ChainTime, rfc3339};

/// Formats a time as `2026-11-22 18:40 UTC`.
pub(super) fn shown(time: ChainTime) -> String {
    format!("{} UTC", to_the_minute(time).replace('T', " "))
}

/// Formats a time as `2026-11-22T18:40Z`.
pub(super) fn machine(time: ChainTime) -> String {
    format!("{}Z", to_the_minute(time))
}

fn to_the_minute(time: ChainTime) -> String {
    let mut text = rfc3339(time.unix());
    text.truncate("2026-11-22T18:40".len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_left_out() {
        let time = ChainTime::from_unix(1_795_280_459);
        assert_eq!((shown(time), machine(time)), ("2026-11-21 17:00 UTC".into(), "2026-11-21T17:00Z".into()));
    }
}
