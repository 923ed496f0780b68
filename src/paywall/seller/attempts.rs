//! `Attempts`: counts the runs of a handler that sold nothing for a payment, and pauses further ones.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use foldhash::HashMap;
use tokio::time::Instant;

use crate::{
    ledger::Lease,
    protocol::{CompactPaymentId, IntentKey, PaymentId},
};

/// How many handlers may be started for one key before it has to cool down.
const FREE: u32 = 16;
/// The same, for all clients without proof of the payer together. No single one of them can use this up.
const FREE_TO_ANYONE: u32 = 64;
/// The first cool-down; each further attempt doubles it.
const FIRST: Duration = Duration::from_secs(60);
/// The longest cool-down.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How long clients without proof stand back after a payer with proof found its payment held.
const STAND_BACK: Duration = Duration::from_secs(30);
/// How long a key is remembered after its last attempt.
const KEPT: Duration = Duration::from_secs(60 * 60);
const _: () = assert!(KEPT.as_secs() > LONGEST.as_secs() && KEPT.as_secs() > STAND_BACK.as_secs());
/// How many keys are remembered. Intents cost nothing, so anyone can make any number of keys.
const MOST: usize = 1 << 16;
/// How many keys one attempt checks in order to forget them: more than it can add.
const BATCH: usize = 4;

/// The attempts of a merchant in this process. A restart forgets them, and replicas count separately.
#[derive(Default)]
pub(crate) struct Attempts(Mutex<Log>);

/// Who claimed what a lease was granted for. Strangers can make attempts without proof, and must not use up those of the payer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claimed {
    /// The payer, as its proof shows.
    ByPayer,
    /// Anyone who knows the transaction.
    ByAnyone,
}

/// What attempts are counted under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The payer's attempts, with any intent.
    Payer(CompactPaymentId),
    /// The attempts of anyone who has this intent.
    Pair(CompactPaymentId, IntentKey),
    /// The attempts of all clients without proof.
    Anyone(CompactPaymentId),
}

#[derive(Default)]
struct Log {
    keys: HashMap<Key, Tried>,
    /// Every key once, in the order in which they may be due to be forgotten.
    due: VecDeque<(Instant, Key)>,
    /// When a payer with a proof last found its payment held by another request.
    awaited: HashMap<CompactPaymentId, Instant>,
}

struct Tried {
    times: u32,
    /// The end of the last attempt.
    ended: Instant,
}

impl Attempts {
    /// Returns how long the pair that this lease holds still has to cool down.
    pub(crate) fn cooling(&self, lease: &Lease, claimed: Claimed) -> Option<Duration> {
        let log = self.log();
        // Computing a key costs more than all of this, and mostly there is none.
        if log.keys.is_empty() {
            return None;
        }
        keys(lease, claimed)
            .filter_map(|key| log.keys.get(&key).map(|tried| tried.cooling(key)))
            .max()
            .filter(|rest| !rest.is_zero())
    }

    /// Counts an attempt that ends now without a sale.
    pub(crate) fn failed(&self, lease: &Lease, claimed: Claimed) {
        let mut log = self.log();
        keys(lease, claimed).for_each(|key| log.failed(key, Instant::now()));
    }

    /// Forgets the attempts of a sold payment, which will not be tried again.
    pub(crate) fn sold(&self, lease: &Lease) {
        let mut log = self.log();
        if !log.keys.is_empty() {
            for key in keys(lease, Claimed::ByPayer).chain(keys(lease, Claimed::ByAnyone)) {
                log.keys.remove(&key);
            }
        }
    }

    /// Notes that the payer of these payments showed a proof, and has to wait, because another request holds the payments or the intent
    /// that they are shown for.
    pub(crate) fn payer_waits(&self, payments: impl IntoIterator<Item = PaymentId>) {
        let mut payments = payments.into_iter().map(|payment| payment.compact()).peekable();
        if payments.peek().is_none() {
            return;
        }
        let (awaited, now) = (&mut self.log().awaited, Instant::now());
        // Each of these payments was really made, so there are few transactions, but one of them may have hundreds.
        awaited.retain(|_, since| now.duration_since(*since) < STAND_BACK);
        awaited.extend(payments.map(|payment| (payment, now)));
    }

    /// Returns whether the payer waits for this payment, so that no other client may reserve it.
    pub(crate) fn is_awaited(&self, payment: PaymentId) -> bool {
        let log = self.log();
        let since = if log.awaited.is_empty() { None } else { log.awaited.get(&payment.compact()) };
        since.is_some_and(|since| since.elapsed() < STAND_BACK)
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the keys that an attempt is counted under.
fn keys(lease: &Lease, claimed: Claimed) -> impl Iterator<Item = Key> {
    let payment = lease.payment().id().compact();
    let [first, second] = match claimed {
        Claimed::ByPayer => [Some(Key::Payer(payment)), None],
        Claimed::ByAnyone => [Some(Key::Pair(payment, lease.intent())), Some(Key::Anyone(payment))],
    };
    first.into_iter().chain(second)
}

impl Key {
    /// Returns how many attempts the key has before a pause.
    const fn free(self) -> u32 {
        match self {
            Self::Payer(_) | Self::Pair(..) => FREE,
            Self::Anyone(_) => FREE_TO_ANYONE,
        }
    }
}

impl Tried {
    /// Returns what is left of the pause.
    fn cooling(&self, key: Key) -> Duration {
        cool_down(self.times, key.free()).saturating_sub(self.ended.elapsed())
    }
}

impl Log {
    fn failed(&mut self, key: Key, now: Instant) {
        for _ in 0..BATCH {
            self.forget_one(now);
        }
        let tried = self.keys.entry(key).or_insert_with(|| {
            self.due.push_back((now + KEPT, key));
            Tried { times: 0, ended: now }
        });
        *tried = Tried { times: tried.times.saturating_add(1), ended: now };
    }

    /// Forgets the next key that is due, if it was not tried since and there is room.
    fn forget_one(&mut self, now: Instant) {
        let is_full = self.due.len() >= MOST;
        let Some((_, key)) = self.due.pop_front_if(|(due, _)| *due <= now || is_full) else { return };
        match self.keys.get(&key).map(|tried| tried.ended + KEPT) {
            Some(end) if end > now && !is_full => self.due.push_back((end, key)),
            _ => drop(self.keys.remove(&key)),
        }
    }
}

/// Returns how long a key has to cool down after this many attempts, from the end of the last one: nothing while fewer than `free`, then a
/// minute, then twice as long after each further one, up to 15 minutes.
fn cool_down(times: u32, free: u32) -> Duration {
    match times.checked_sub(free) {
        None => Duration::ZERO,
        Some(beyond) => FIRST.saturating_mul(1 << beyond.min(4)).min(LONGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::{Claimed::*, *};
    use crate::{
        ledger::Claim,
        protocol::{Network, Transfer, TxHash},
    };

    fn lease(intent: u64, position: u32) -> Lease {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&intent.to_be_bytes());
        Lease::new(&Claim::builder("r", IntentKey::new(key)).build(), &paid(position).into(), 1)
    }

    fn paid(position: u32) -> Transfer {
        Transfer::new(Network::BASE, TxHash::new([7; 32]), position)
    }

    #[test]
    fn the_pause_doubles_from_a_minute_to_a_quarter_of_an_hour() {
        let seconds = |started| cool_down(started, FREE).as_secs();
        assert_eq!([0, 1, 15].map(seconds), [0, 0, 0]);
        assert_eq!([16, 17, 18, 19, 20, 21, u32::MAX].map(seconds), [60, 120, 240, 480, 900, 900, 900]);
    }

    #[tokio::test(start_paused = true)]
    async fn sixteen_attempts_on_one_pair_and_then_a_pause() {
        let attempts = Attempts::default();
        (0..15).for_each(|_| attempts.failed(&lease(1, 0), ByAnyone));
        assert_eq!(attempts.cooling(&lease(1, 0), ByAnyone), None);
        attempts.failed(&lease(1, 0), ByAnyone);
        assert_eq!(attempts.cooling(&lease(1, 0), ByAnyone), Some(FIRST));
        assert_eq!(attempts.cooling(&lease(2, 0), ByAnyone), None, "another intent");
        assert_eq!(attempts.cooling(&lease(1, 1), ByAnyone), None, "another payment");
        tokio::time::advance(FIRST).await;
        assert_eq!(attempts.cooling(&lease(1, 0), ByAnyone), None);
        attempts.failed(&lease(1, 0), ByAnyone);
        assert_eq!(attempts.cooling(&lease(1, 0), ByAnyone), Some(2 * FIRST));
        attempts.sold(&lease(1, 0));
        assert_eq!(attempts.cooling(&lease(1, 0), ByAnyone), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pair_is_remembered_for_an_hour_after_its_last_attempt() {
        let attempts = Attempts::default();
        (0..16).for_each(|_| attempts.failed(&lease(1, 0), ByAnyone));
        tokio::time::advance(KEPT - FIRST).await;
        attempts.failed(&lease(1, 0), ByAnyone);
        tokio::time::advance(KEPT - FIRST).await;
        attempts.failed(&lease(2, 0), ByAnyone);
        attempts.failed(&lease(1, 0), ByAnyone);
        assert_eq!(
            attempts.cooling(&lease(1, 0), ByAnyone),
            Some(4 * FIRST),
            "its last attempt was later than its first"
        );
        tokio::time::advance(2 * KEPT).await;
        attempts.failed(&lease(3, 0), ByAnyone);
        assert_eq!(attempts.log().keys.len(), 2, "a fresh start: the pair, and anyone");
    }

    /// The owner of one payment can make any number of intents, and let a handler fail for each.
    #[tokio::test(start_paused = true)]
    async fn the_log_is_bounded() {
        let attempts = Attempts::default();
        for intent in 0..200_000 {
            attempts.failed(&lease(intent, 0), ByAnyone);
        }
        let log = attempts.log();
        assert!(log.keys.len() <= MOST && log.due.len() <= MOST, "{} keys, {} due", log.keys.len(), log.due.len());
    }

    /// The payer of one payment can have it redeemed with any number of intents.
    #[tokio::test(start_paused = true)]
    async fn the_payers_attempts_count_for_the_payment_whatever_the_intent() {
        let attempts = Attempts::default();
        (0..16).for_each(|intent| attempts.failed(&lease(intent, 0), ByPayer));
        assert_eq!(attempts.cooling(&lease(99, 0), ByPayer), Some(FIRST));
        assert_eq!(attempts.cooling(&lease(99, 1), ByPayer), None, "another payment");
        assert_eq!(attempts.cooling(&lease(99, 0), ByAnyone), None, "counted apart");
        attempts.sold(&lease(99, 0));
        assert_eq!(attempts.cooling(&lease(99, 0), ByPayer), None);
    }

    #[tokio::test(start_paused = true)]
    async fn all_without_proof_have_64_attempts_together_and_take_none_from_the_payer() {
        let attempts = Attempts::default();
        (0..63).for_each(|intent| attempts.failed(&lease(intent, 0), ByAnyone));
        assert_eq!(attempts.cooling(&lease(99, 0), ByAnyone), None);
        attempts.failed(&lease(63, 0), ByAnyone);
        assert_eq!(attempts.cooling(&lease(99, 0), ByAnyone), Some(FIRST));
        assert_eq!(attempts.cooling(&lease(99, 1), ByAnyone), None, "another payment");
        assert_eq!(attempts.cooling(&lease(99, 0), ByPayer), None);
        attempts.sold(&lease(99, 0));
        assert_eq!(attempts.cooling(&lease(99, 0), ByAnyone), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_payer_that_waits_comes_first_for_half_a_minute() {
        let (attempts, payment, other) = (Attempts::default(), paid(0).payment_id(), paid(1).payment_id());
        attempts.payer_waits([payment]);
        tokio::time::advance(STAND_BACK - Duration::from_millis(1)).await;
        assert!(attempts.is_awaited(payment) && !attempts.is_awaited(other));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(!attempts.is_awaited(payment));
        attempts.payer_waits([]);
        attempts.payer_waits([other]);
        assert_eq!(attempts.log().awaited.len(), 1, "the other's time is over");
        attempts.payer_waits([payment, other]);
        assert!(attempts.is_awaited(payment) && attempts.is_awaited(other), "all of a transaction");
    }
}
