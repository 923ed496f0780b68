//! `NonceManager`: the next nonce, from the counts of nodes that may lag or err and from the transactions that this
//! process sent.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::median::lower_median;

/// How long sent transactions count more than the node's number. After that the node counts: otherwise all transactions
/// behind a dropped one would wait for ever.
const BELIEVED_FOR: Duration = Duration::from_secs(60);

/// How many transactions of the account may wait beside those that were sent from here. A node that counts more is not
/// believed: behind such a gap a payment would wait until the gap is filled.
pub(crate) const GAP_MAX: u64 = 64;

/// What a node counts of an account's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Those that are in a block.
    pub(crate) latest: u64,
    /// Those that wait, too.
    pub(crate) pending: u64,
}

/// The nonces that nodes accepted from here, and when. Each is remembered by itself: one that was far off does not
/// move those that come after it.
#[derive(Debug, Default)]
pub(crate) struct NonceManager {
    sent: Mutex<BTreeMap<u64, Instant>>,
}

impl NonceManager {
    /// The nonce to use, where nodes count so; `None` where they cannot be right.
    ///
    /// The lower of two answers counts: a transaction with a used nonce is never mined, which is detected, but one
    /// behind a gap waits until the gap is filled.
    pub(crate) fn next(&self, counted: &[Counted]) -> Option<u64> {
        let latest = lower_median(counted.iter().map(|counted| counted.latest))?;
        let furthest = counted.iter().map(|counted| counted.latest.abs_diff(latest)).max()?;
        let sent = self.believed();
        let free = |from: u64| (from..u64::MAX).find(|nonce| !sent.contains_key(nonce));
        let plausible = latest..=free(latest)?.saturating_add(GAP_MAX);
        let pending = counted.iter().map(|counted| counted.pending.max(latest)).filter(|one| plausible.contains(one));
        let pending = lower_median(pending)?;
        if furthest > GAP_MAX { None } else { free(pending) }
    }

    /// A node accepted a transaction with that nonce.
    pub(crate) fn used(&self, nonce: u64) {
        self.believed().insert(nonce, Instant::now());
    }

    fn believed(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.retain(|_, at| at.elapsed() < BELIEVED_FOR);
        sent
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    impl NonceManager {
        fn after(&self, latest: u64, pending: u64) -> Option<u64> {
            self.next(&[Counted { latest, pending }])
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_sent_counts_for_a_minute() {
        let nonces = NonceManager::default();
        assert_eq!(nonces.after(3, 3), Some(3));
        (3..8).for_each(|nonce| nonces.used(nonce));
        assert_eq!(nonces.after(3, 3), Some(8), "a node that lags");
        assert_eq!(nonces.after(2, 9), Some(9), "somebody else sends, too");
        assert_eq!(nonces.after(5, 4), Some(8), "what waits lags behind what is mined");
        advance(Duration::from_secs(59)).await;
        assert_eq!(nonces.after(3, 3), Some(8));
        nonces.used(5);
        advance(Duration::from_secs(1)).await;
        assert_eq!(nonces.after(3, 3), Some(3), "dropped: no gap for ever");
        assert_eq!(nonces.after(5, 5), Some(6), "sent again a second ago");
        assert!(nonces.believed().len() == 1, "what no longer counts is forgotten");
    }

    #[tokio::test(start_paused = true)]
    async fn an_implausible_count_is_refused_and_a_wrong_one_does_not_stick() {
        let nonces = NonceManager::default();
        for pending in [3 + GAP_MAX + 1, 0x7fff_ffff, u64::MAX] {
            assert_eq!(nonces.after(3, pending), None);
        }
        // Far off, and sent: what comes after it is as if it had not been.
        assert_eq!(nonces.after(3, 3 + GAP_MAX), Some(67));
        nonces.used(67);
        assert_eq!(nonces.after(3, 3), Some(3));
        assert_eq!(nonces.after(3, 67), Some(68));
        // However many wait that were sent from here, so many more may.
        (3..200).for_each(|nonce| nonces.used(nonce));
        assert_eq!(nonces.after(3, 200 + GAP_MAX), Some(200 + GAP_MAX));
        assert_eq!(nonces.after(3, 201 + GAP_MAX), None);
    }

    #[test]
    fn of_several_nodes_an_absurd_one_is_left_out_and_two_heights_apart_are_refused() {
        let (nonces, counted) = (NonceManager::default(), |latest, pending| Counted { latest, pending });
        assert_eq!(nonces.next(&[]), None);
        assert_eq!(nonces.next(&[counted(3, 0x7fff_ffff), counted(3, 5)]), Some(5));
        assert_eq!(nonces.next(&[counted(3, 3), counted(3, 3 + GAP_MAX)]), Some(3), "no gap by one node's word");
        assert_eq!(nonces.next(&[counted(3, 3), counted(5, 6), counted(5, 5)]), Some(5), "one lags");
        (3..6).for_each(|nonce| nonces.used(nonce));
        assert_eq!(nonces.next(&[counted(3, 3), counted(6, 6)]), Some(6), "one of two lags: what was sent is known");
        assert_eq!(nonces.next(&[counted(3, 3), counted(0x7fff_ffff, 0x7fff_ffff)]), None);
    }
}
