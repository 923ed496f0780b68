//! How often a handler may be started in vain for one intent and one payment: every ledger's rule, as values.

use std::time::Duration;

/// So many handlers may be started for one intent and one payment before it has to cool down.
const FREE_ATTEMPTS: u32 = 16;
/// The first cool-down; each further attempt doubles it.
const FIRST: Duration = Duration::from_secs(60);
/// The longest cool-down.
pub(super) const LONGEST: Duration = Duration::from_secs(15 * 60);

/// Returns how long an intent and a transfer have to cool down together after so many attempts, from the end of the last one: nothing
/// up to 15, a minute after 16, then twice as long after each further one, up to 15 minutes.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::ledger::rules::cool_down;
/// assert_eq!(cool_down(15), Duration::ZERO);
/// assert_eq!(cool_down(16), Duration::from_secs(60));
/// assert_eq!(cool_down(17), Duration::from_secs(120));
/// assert_eq!(cool_down(1_000), Duration::from_secs(15 * 60));
/// ```
#[must_use]
pub fn cool_down(started: u32) -> Duration {
    match started.checked_sub(FREE_ATTEMPTS) {
        None => Duration::ZERO,
        Some(beyond) => FIRST.saturating_mul(1 << beyond.min(4)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_from_a_minute_to_a_quarter_of_an_hour() {
        let seconds = |started| cool_down(started).as_secs();
        assert_eq!([0, 1, 15].map(seconds), [0, 0, 0]);
        assert_eq!([16, 17, 18, 19, 20, 21, u32::MAX].map(seconds), [60, 120, 240, 480, 900, 900, 900]);
    }
}
