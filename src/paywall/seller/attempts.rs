//! `Attempts`: how often a handler was started in vain for one intent and one payment, and the pause that follows.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use foldhash::HashMap;
use tokio::time::Instant;

use crate::{
    ledger::Lease,
    protocol::{CompactPaymentId, IntentKey},
};

/// So many handlers may be started for one intent and one payment before the pair has to cool down.
const FREE: u32 = 16;
/// The first cool-down; each further attempt doubles it.
const FIRST: Duration = Duration::from_secs(60);
/// The longest cool-down.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How long a pair is remembered after its last attempt.
const KEPT: Duration = Duration::from_secs(60 * 60);
const _: () = assert!(KEPT.as_secs() > LONGEST.as_secs());
/// How many pairs are remembered: intents cost nothing, so the owner of one payment can make any number of pairs.
const MOST: usize = 1 << 16;
/// How many pairs one attempt looks at to forget them: more than it can add.
const BATCH: usize = 4;

/// The attempts of a merchant in this process. A restart forgets them, and replicas count apart.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<Log>);

type Pair = (IntentKey, CompactPaymentId);

#[derive(Default)]
struct Log {
    pairs: HashMap<Pair, Tried>,
    /// Every pair once, in the order in which they may be due to be forgotten.
    due: VecDeque<(Instant, Pair)>,
}

struct Tried {
    times: u32,
    /// The end of the last attempt.
    ended: Instant,
}

impl Attempts {
    /// Returns how long what this lease holds still has to cool down.
    pub(crate) fn cooling(&self, lease: &Lease) -> Option<Duration> {
        let log = self.log();
        // To name a pair costs more than all of this, and mostly there is none.
        if log.pairs.is_empty() {
            return None;
        }
        let tried = log.pairs.get(&pair(lease))?;
        cool_down(tried.times).checked_sub(tried.ended.elapsed()).filter(|rest| !rest.is_zero())
    }

    /// Counts an attempt that ends now, in vain.
    pub(crate) fn failed(&self, lease: &Lease) {
        self.log().failed(pair(lease), Instant::now());
    }

    /// The pair is sold, and will not be tried again.
    pub(crate) fn sold(&self, lease: &Lease) {
        let mut log = self.log();
        if !log.pairs.is_empty() {
            log.pairs.remove(&pair(lease));
        }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pair(lease: &Lease) -> Pair {
    (lease.intent(), lease.payment().id().compact())
}

impl Log {
    fn failed(&mut self, pair: Pair, now: Instant) {
        for _ in 0..BATCH {
            self.forget_one(now);
        }
        let tried = self.pairs.entry(pair).or_insert_with(|| {
            self.due.push_back((now + KEPT, pair));
            Tried { times: 0, ended: now }
        });
        *tried = Tried { times: tried.times.saturating_add(1), ended: now };
    }

    /// Forgets the next pair that is due, if it was not tried since and there is room.
    fn forget_one(&mut self, now: Instant) {
        let is_full = self.due.len() >= MOST;
        let Some((_, pair)) = self.due.pop_front_if(|(due, _)| *due <= now || is_full) else { return };
        match self.pairs.get(&pair).map(|tried| tried.ended + KEPT) {
            Some(end) if end > now && !is_full => self.due.push_back((end, pair)),
            _ => drop(self.pairs.remove(&pair)),
        }
    }
}

/// How long a pair has to cool down after so many attempts, from the end of the last one: nothing up to 15, a minute after 16, then
/// twice as long after each further one, up to 15 minutes.
fn cool_down(times: u32) -> Duration {
    match times.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(beyond) => FIRST.saturating_mul(1 << beyond.min(4)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ledger::Claim,
        protocol::{Network, Transfer, TxHash},
    };

    fn lease(intent: u64, position: u32) -> Lease {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&intent.to_be_bytes());
        let paid = Transfer::new(Network::BASE, TxHash::new([7; 32]), position).into();
        Lease::new(&Claim::builder("r", IntentKey::new(key)).build(), &paid, 1)
    }

    #[test]
    fn the_pause_doubles_from_a_minute_to_a_quarter_of_an_hour() {
        let seconds = |started| cool_down(started).as_secs();
        assert_eq!([0, 1, 15].map(seconds), [0, 0, 0]);
        assert_eq!([16, 17, 18, 19, 20, 21, u32::MAX].map(seconds), [60, 120, 240, 480, 900, 900, 900]);
    }

    #[tokio::test(start_paused = true)]
    async fn sixteen_attempts_on_one_pair_and_then_a_pause() {
        let attempts = Attempts::default();
        (0..15).for_each(|_| attempts.failed(&lease(1, 0)));
        assert_eq!(attempts.cooling(&lease(1, 0)), None);
        attempts.failed(&lease(1, 0));
        assert_eq!(attempts.cooling(&lease(1, 0)), Some(FIRST));
        assert_eq!(attempts.cooling(&lease(2, 0)), None, "another intent");
        assert_eq!(attempts.cooling(&lease(1, 1)), None, "another payment");
        tokio::time::advance(FIRST).await;
        assert_eq!(attempts.cooling(&lease(1, 0)), None);
        attempts.failed(&lease(1, 0));
        assert_eq!(attempts.cooling(&lease(1, 0)), Some(2 * FIRST));
        attempts.sold(&lease(1, 0));
        assert_eq!(attempts.cooling(&lease(1, 0)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pair_is_remembered_for_an_hour_after_its_last_attempt() {
        let attempts = Attempts::default();
        (0..16).for_each(|_| attempts.failed(&lease(1, 0)));
        tokio::time::advance(KEPT - FIRST).await;
        attempts.failed(&lease(1, 0));
        tokio::time::advance(KEPT - FIRST).await;
        attempts.failed(&lease(2, 0));
        attempts.failed(&lease(1, 0));
        assert_eq!(attempts.cooling(&lease(1, 0)), Some(4 * FIRST), "its last attempt was later than its first");
        tokio::time::advance(2 * KEPT).await;
        attempts.failed(&lease(3, 0));
        assert_eq!(attempts.log().pairs.len(), 1, "a fresh start");
    }

    /// The owner of one payment can make any number of intents, and let a handler fail for each.
    #[tokio::test(start_paused = true)]
    async fn the_log_is_bounded() {
        let attempts = Attempts::default();
        for intent in 0..200_000 {
            attempts.failed(&lease(intent, 0));
        }
        let log = attempts.log();
        assert!(log.pairs.len() <= MOST && log.due.len() <= MOST, "{} pairs, {} due", log.pairs.len(), log.due.len());
    }
}
