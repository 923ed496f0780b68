//! `NonceManager`: the next nonce, from the counts of nodes that may lag or err and from the transactions that this
//! process sent.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::median::lower_median;

/// How long sent transactions override a node's count. Afterwards the node's count applies: otherwise all transactions
/// behind a dropped one would wait for ever.
const BELIEVED_FOR: Duration = Duration::from_secs(60);

/// How many pending transactions the account may have beyond those that this process sent. A node that counts more is
/// not believed: a payment behind such a gap would wait until the gap is filled.
pub(crate) const GAP_MAX: u64 = 64;

/// A node's counts of an account's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// The transactions in blocks.
    pub(crate) latest: u64,
    /// These and the pending ones.
    pub(crate) pending: u64,
}

/// The nonces of accepted transactions that this process sent, with their times. Each is remembered by itself, so a
/// nonce far off does not move the later ones.
#[derive(Debug, Default)]
pub(crate) struct NonceManager {
    sent: Mutex<BTreeMap<u64, Instant>>,
    /// The number of nonces that are certainly used: up to the highest of our transactions with a receipt. It is never
    /// forgotten, so that a node that lags for long cannot give one of them out again.
    floor: AtomicU64,
}

impl NonceManager {
    /// Returns the next nonce by the counts of the nodes that answered, out of `nodes` nodes; `None` if the counts
    /// cannot be right.
    ///
    /// Of two answers the lower counts: a transaction with a used nonce is never mined, which is detected, but one
    /// behind a gap waits until the gap is filled.
    pub(crate) fn next(&self, counted: &[Counted], nodes: usize) -> Option<u64> {
        let counted = self.credible(counted, nodes)?;
        let latest = lower_median(counted.iter().map(|counted| counted.latest))?;
        let sent = self.believed();
        let free = |from: u64| (from..u64::MAX).find(|nonce| !sent.contains_key(nonce));
        let plausible = latest..=free(latest)?.saturating_add(GAP_MAX);
        let pending = counted.iter().map(|counted| counted.pending.max(latest)).filter(|one| plausible.contains(one));
        free(lower_median(pending)?)
    }

    /// Returns the lowest open nonce according to the counts of the nodes that answered, of `nodes` in all; `None` if the
    /// counts are not credible.
    ///
    /// The floor does not apply: a transaction with a receipt may leave its block again, and then its nonce blocks all
    /// later ones. Of two counts the higher applies, because a node that lags reports a used nonce as open.
    pub(crate) fn open(counted: &[Counted], nodes: usize) -> Option<u64> {
        let median = lower_median(counted.iter().map(|counted| counted.latest))?;
        let mut near: Vec<u64> = counted.iter().map(|counted| counted.latest).collect();
        near.retain(|latest| latest.abs_diff(median) <= GAP_MAX);
        near.sort_unstable();
        let is_credible = near.len() == counted.len() || near.len() * 2 > nodes;
        near.get(near.len() / 2).copied().filter(|_| is_credible)
    }

    /// Returns how many of these counts show the nonce as used. Below the floor, all of them do.
    pub(crate) fn using(&self, counted: &[Counted], nonce: u64) -> usize {
        let floor = self.floor.load(Ordering::Relaxed);
        counted.iter().filter(|counted| counted.latest.max(floor) > nonce).count()
    }

    /// Returns the counts near their median, raised to at least the floor. Leaves out a count that is far off, provided
    /// that more than half of all nodes agree; otherwise it is unclear which node errs.
    fn credible(&self, counted: &[Counted], nodes: usize) -> Option<Vec<Counted>> {
        let floor = self.floor.load(Ordering::Relaxed);
        let mut counted: Vec<Counted> = counted.to_vec();
        for each in &mut counted {
            each.latest = each.latest.max(floor);
        }
        let (heard, median) = (counted.len(), lower_median(counted.iter().map(|counted| counted.latest))?);
        counted.retain(|counted| counted.latest.abs_diff(median) <= GAP_MAX);
        (counted.len() == heard || counted.len() * 2 > nodes).then_some(counted)
    }

    /// Notes that a transaction of ours with that nonce has a receipt.
    pub(crate) fn mined(&self, nonce: u64) {
        self.floor.fetch_max(nonce.saturating_add(1), Ordering::Relaxed);
    }

    /// Notes that a node accepted a transaction with that nonce.
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
            self.next(&[Counted { latest, pending }], 1)
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
        // A nonce far off was sent: the next nonces ignore it.
        assert_eq!(nonces.after(3, 3 + GAP_MAX), Some(67));
        nonces.used(67);
        assert_eq!(nonces.after(3, 3), Some(3));
        assert_eq!(nonces.after(3, 67), Some(68));
        // However many sent transactions are pending, the same number of others is allowed.
        (3..200).for_each(|nonce| nonces.used(nonce));
        assert_eq!(nonces.after(3, 200 + GAP_MAX), Some(200 + GAP_MAX));
        assert_eq!(nonces.after(3, 201 + GAP_MAX), None);
    }

    const fn counted(latest: u64, pending: u64) -> Counted {
        Counted { latest, pending }
    }

    #[test]
    fn of_several_nodes_an_absurd_one_is_left_out_and_two_heights_apart_are_refused() {
        let nonces = NonceManager::default();
        let next = |counted: &[Counted]| nonces.next(counted, counted.len());
        assert_eq!(next(&[]), None);
        assert_eq!(next(&[counted(3, 0x7fff_ffff), counted(3, 5)]), Some(5));
        assert_eq!(next(&[counted(3, 3), counted(3, 3 + GAP_MAX)]), Some(3), "no gap by one node's word");
        assert_eq!(next(&[counted(3, 3), counted(5, 6), counted(5, 5)]), Some(5), "one lags");
        (3..6).for_each(|nonce| nonces.used(nonce));
        assert_eq!(next(&[counted(3, 3), counted(6, 6)]), Some(6), "one of two lags: what was sent is known");
        assert_eq!(next(&[counted(3, 3), counted(0x7fff_ffff, 0x7fff_ffff)]), None);
    }

    /// SECURITY row 50.
    #[test]
    fn one_node_that_is_far_off_does_not_stop_a_majority() {
        let nonces = NonceManager::default();
        let next = |latest: &[u64], nodes| {
            let counted: Vec<_> = latest.iter().map(|latest| counted(*latest, *latest)).collect();
            nonces.next(&counted, nodes)
        };
        assert_eq!(next(&[165, 165, 100], 3), Some(165));
        assert_eq!(next(&[70, 70, 0], 3), Some(70));
        assert_eq!(next(&[70, 70, 70, 70, 1_000_000], 5), Some(70));
        // Two of four are no majority, whether four or three answer.
        assert_eq!(next(&[70, 70, 0, 0], 4), None);
        assert_eq!(next(&[70, 70, 0], 4), None);
        assert_eq!(next(&[70, 0], 2), None);
        assert_eq!(next(&[70], 3), Some(70), "those that answer agree");
    }

    #[test]
    fn a_nonce_is_open_whatever_had_a_receipt_and_by_the_node_that_does_not_lag() {
        let open = |latest: &[u64], nodes| {
            let counted: Vec<_> = latest.iter().map(|latest| counted(*latest, *latest)).collect();
            NonceManager::open(&counted, nodes)
        };
        assert_eq!(open(&[], 1), None);
        assert_eq!(open(&[7], 1), Some(7));
        assert_eq!(open(&[5, 7], 2), Some(7), "one of two lags");
        assert_eq!(open(&[7, 7, 9], 3), Some(7), "one of three is ahead");
        assert_eq!(open(&[5, 7, 7], 3), Some(7));
        assert_eq!(open(&[7, 7, 7_000], 3), Some(7));
        assert_eq!(open(&[7, 7_000], 2), None);
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_a_receipt_counts_for_ever() {
        let nonces = NonceManager::default();
        nonces.used(69);
        nonces.mined(69);
        nonces.mined(3);
        advance(BELIEVED_FOR * 2).await;
        assert_eq!(nonces.next(&[counted(70, 70), counted(0, 0)], 2), Some(70), "one of two lags far behind");
        assert_eq!(nonces.next(&[counted(0, 0)], 2), Some(70));
        assert_eq!(nonces.next(&[counted(71, 72), counted(0, 0)], 2), Some(70), "the lower of two that differ");
        assert_eq!(nonces.next(&[counted(71, 72), counted(71, 72), counted(0, 0)], 3), Some(72));
    }
}
