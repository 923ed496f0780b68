//! `AttemptLog`: how often each pair of intent and payment was tried, and when its last attempt ended. Bounded.

use std::{collections::VecDeque, time::Duration};

use foldhash::HashMap;

use super::super::attempts::{LONGEST, cool_down};
use crate::protocol::{CompactPaymentId, IntentKey};

/// How long a pair that is left alone is remembered.
pub(super) const KEPT: Duration = Duration::from_secs(60 * 60);
const _: () = assert!(KEPT.as_secs() > LONGEST.as_secs());

/// How many pairs are remembered: their number is up to the owner of one payment, since intents cost nothing.
const MOST: usize = 1 << 16;

/// An intent and a payment that were tried together.
pub(super) type Pair = (IntentKey, CompactPaymentId);

#[derive(Debug, Default)]
pub(super) struct AttemptLog {
    pairs: HashMap<Pair, Tried>,
    /// Every pair at least once, in the order in which they may be due to be forgotten.
    due: VecDeque<(Duration, Pair)>,
}

#[derive(Debug, Default)]
struct Tried {
    /// How often it was granted.
    times: u32,
    /// The end of the last of these grants.
    ended: Duration,
}

impl AttemptLog {
    /// How long this pair still has to cool down; `run_out` is when its last grant ended, if that was not noted yet.
    pub(super) fn cooling(&self, pair: &Pair, run_out: Option<Duration>, now: Duration) -> Option<Duration> {
        let tried = self.pairs.get(pair)?;
        let until = run_out.unwrap_or(tried.ended).saturating_add(cool_down(tried.times));
        until.checked_sub(now).filter(|rest| !rest.is_zero())
    }

    /// Counts a grant.
    pub(super) fn granted(&mut self, pair: Pair, now: Duration) {
        let tried = self.pairs.entry(pair).or_insert_with(|| {
            self.due.push_back((now.saturating_add(KEPT), pair));
            Tried::default()
        });
        tried.times = tried.times.saturating_add(1);
    }

    /// The last grant ended, in vain.
    pub(super) fn ended(&mut self, pair: &Pair, at: Duration) {
        if let Some(tried) = self.pairs.get_mut(pair) {
            tried.ended = at;
        }
    }

    /// The last grant did not start the handler. Of a pair for which it never was started, no count is left.
    pub(super) fn unused(&mut self, pair: &Pair) {
        let Some(tried) = self.pairs.get_mut(pair) else { return };
        tried.times = tried.times.saturating_sub(1);
        if tried.times == 0 {
            self.pairs.remove(pair);
        }
    }

    /// The pair was sold, and will not be tried again.
    pub(super) fn sold(&mut self, pair: &Pair) {
        self.pairs.remove(pair);
    }

    /// Takes out the next pair to look at, if it is time or there are too many.
    pub(super) fn next_due(&mut self, now: Duration) -> Option<Pair> {
        let (due, _) = self.due.front()?;
        if *due > now && self.due.len() <= MOST {
            return None;
        }
        self.due.pop_front().map(|(_, pair)| pair)
    }

    /// Looks at a pair from [`next_due`](Self::next_due) again later.
    pub(super) fn later(&mut self, pair: Pair, now: Duration) {
        self.due.push_back((now.saturating_add(KEPT), pair));
    }

    /// Forgets a pair from [`next_due`](Self::next_due), unless it was tried of late and there is room.
    pub(super) fn forget(&mut self, pair: Pair, now: Duration) {
        let fresh = self.pairs.get(&pair).is_some_and(|tried| tried.ended.saturating_add(KEPT) > now);
        if fresh && self.due.len() < MOST {
            self.later(pair, now);
        } else {
            self.pairs.remove(&pair);
        }
    }

    /// How many times a pair is to be looked at.
    pub(super) fn due(&self) -> usize {
        self.due.len()
    }

    /// How many pairs there are, and how many times one is to be looked at.
    #[cfg(test)]
    pub(super) fn sizes(&self) -> (usize, usize) {
        (self.pairs.len(), self.due.len())
    }

    #[cfg(test)]
    pub(super) fn bytes(&self, table: impl Fn(usize) -> usize) -> usize {
        const { assert!(size_of::<(Pair, Tried)>() == size_of::<(Pair, [u64; 3])>()) };
        table(self.pairs.capacity()) + self.due.capacity() * size_of::<(Duration, Pair)>()
    }
}
