//! `Again`: the channels whose noted refund was sent again a moment ago.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::ledger::AccountId;

/// The shortest time between two repetitions of a refund.
const PAUSE: Duration = Duration::from_secs(60);
/// How many channels are remembered. While there are so many, no other refund is sent again.
const CHANNELS: usize = 100;

/// When the refund of each channel was sent again last, in monotonic time.
#[derive(Default)]
pub(super) struct Again(Mutex<HashMap<AccountId, Duration>>);

impl Again {
    /// Returns whether the refund may be sent again now, and if so, notes that it is.
    pub(super) fn begins(&self, account: AccountId, now: Duration) -> bool {
        let mut sent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sent.retain(|_, last| now < *last + PAUSE);
        let may_be = sent.len() < CHANNELS && !sent.contains_key(&account);
        if may_be {
            sent.insert(account, now);
        }
        may_be
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refund_is_sent_again_once_a_minute() {
        let (again, at) = (Again::default(), Duration::from_secs(100));
        let account = |number: u128| AccountId::new(number.to_be_bytes());
        assert!(again.begins(account(0), at) && !again.begins(account(0), at + PAUSE / 2));
        assert!(again.begins(account(0), at + PAUSE));
        let begun = (1..2_000).filter(|number| again.begins(account(*number), at + PAUSE)).count();
        assert_eq!(begun, CHANNELS - 1);
    }
}
