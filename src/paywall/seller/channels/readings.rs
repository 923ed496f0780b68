//! `Readings`: limits how many channels are read for requests at once. A request with an invented channel costs its sender nothing, while a
//! reading asks every node.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::{OnceCell, Semaphore, SemaphorePermit},
    time::timeout,
};

use super::mirror::{Mirrored, SHORTEST, Unread};
use crate::{ledger::AccountId, settle::ChannelOnChain};

/// How many channels that the seller knows are read at once, and how many others.
const KNOWN: usize = 32;
const OTHERS: usize = 4;
/// How many readings of each kind may run or wait.
const KNOWN_MAX: usize = 1_024;
const OTHERS_MAX: usize = 32;
/// How long a question waits for its turn at most. A lease may be held meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many channels are remembered as empty.
const EMPTY_MAX: usize = 10_000;

/// A reading that several requests wait for. If the request that reads leaves, another one takes over.
pub(super) type Reading = OnceCell<Result<Mirrored, Unread>>;

pub(super) struct Readings {
    known: Line,
    others: Line,
    signatures: Line,
    under_way: Mutex<HashMap<AccountId, Weak<Reading>>>,
    /// When a channel was read and found empty, in monotonic time.
    empty: Mutex<HashMap<AccountId, (Duration, ChannelOnChain)>>,
}

/// Readings of one kind.
struct Line {
    room: Semaphore,
    places: Semaphore,
}

/// A place for one question to the chain. Dropping it makes room.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    _room: SemaphorePermit<'a>,
    _place: SemaphorePermit<'a>,
}

impl Default for Readings {
    fn default() -> Self {
        let (known, others) = (Line::new(KNOWN, KNOWN_MAX), Line::new(OTHERS, OTHERS_MAX));
        let signatures = Line::new(KNOWN, KNOWN_MAX);
        Self { known, others, signatures, under_way: Mutex::default(), empty: Mutex::default() }
    }
}

impl Readings {
    /// Waits until a payer's account may be asked about a signature; `None` if too many wait already. Anyone can show a forged signature
    /// for any channel, so these questions take no places from readings.
    pub(super) async fn check(&self) -> Option<Place<'_>> {
        self.signatures.enter().await
    }

    /// Waits until the chain may be asked about a channel; `None` if too many wait already. Invented channels take no places from those
    /// that the seller knows.
    pub(super) async fn enter(&self, is_known: bool) -> Option<Place<'_>> {
        if is_known { self.known.enter().await } else { self.others.enter().await }
    }

    /// Returns the reading of a channel that is under way, or a new one.
    pub(super) fn join(&self, account: AccountId) -> Arc<Reading> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = under_way.get(&account).and_then(unfinished) {
            return reading;
        }
        if under_way.len() >= KNOWN_MAX + OTHERS_MAX {
            under_way.retain(|_, reading| unfinished(reading).is_some());
        }
        let reading = Arc::new(Reading::new());
        under_way.insert(account, Arc::downgrade(&reading));
        reading
    }

    /// Returns the state of a channel that was found empty a moment ago.
    pub(super) fn was_empty(&self, account: AccountId, now: Duration) -> Option<ChannelOnChain> {
        let (read, state) = *self.empty.lock().unwrap_or_else(PoisonError::into_inner).get(&account)?;
        (now < read + SHORTEST).then_some(state)
    }

    /// Remembers whether a channel is empty.
    pub(super) fn remember(&self, account: AccountId, read: Duration, empty: Option<ChannelOnChain>) {
        let mut known = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(state) = empty else {
            known.remove(&account);
            return;
        };
        if known.len() >= EMPTY_MAX {
            known.retain(|_, (before, _)| read < *before + SHORTEST);
        }
        if known.len() < EMPTY_MAX {
            known.insert(account, (read, state));
        }
    }
}

fn unfinished(reading: &Weak<Reading>) -> Option<Arc<Reading>> {
    reading.upgrade().filter(|reading| !reading.initialized())
}

impl Line {
    fn new(places: usize, most: usize) -> Self {
        Self { room: Semaphore::new(most), places: Semaphore::new(places) }
    }

    async fn enter(&self) -> Option<Place<'_>> {
        let room = self.room.try_acquire().ok()?;
        let place = timeout(PATIENCE, self.places.acquire()).await.ok()?.ok()?;
        Some(Place { _room: room, _place: place })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn invented_channels_wait_in_a_short_line_of_their_own() {
        let readings = Readings::default();
        let mut asked: Vec<_> = (0..OTHERS_MAX).map(|_| Box::pin(readings.enter(false))).collect();
        let served: Vec<_> = asked.iter_mut().filter_map(|asked| asked.now_or_never()).collect();
        assert_eq!(served.len(), OTHERS);
        assert!(readings.enter(false).await.is_none(), "the line is full");
        assert!(readings.enter(true).now_or_never().flatten().is_some());
        drop((asked, served));
        assert!(readings.enter(false).await.is_some());
    }

    #[tokio::test]
    async fn who_asks_while_a_channel_is_read_waits_for_the_same_reading() {
        let (readings, account) = (Readings::default(), AccountId::new([1; 16]));
        let [first, second] = [(); 2].map(|()| readings.join(account));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &readings.join(AccountId::new([2; 16]))));
        let _ = first.get_or_init(async || Err(Unread::Chain)).await;
        // A later question is about a later state.
        assert!(!readings.join(account).initialized());
        drop((first, second));
        assert!(!readings.join(account).initialized());
    }

    #[test]
    fn that_there_is_nothing_counts_for_a_moment() {
        let (readings, account) = (Readings::default(), AccountId::new([1; 16]));
        let at = Duration::from_secs(100);
        readings.remember(account, at, Some(ChannelOnChain::default()));
        assert!(readings.was_empty(account, at + SHORTEST - Duration::from_millis(1)).is_some());
        assert!(readings.was_empty(account, at + SHORTEST).is_none());
        readings.remember(account, at, None);
        assert!(readings.was_empty(account, at).is_none());
        // However many there are.
        for number in 0..EMPTY_MAX as u128 + 5 {
            readings.remember(AccountId::new(number.to_be_bytes()), at, Some(ChannelOnChain::default()));
        }
        assert_eq!(readings.empty.lock().unwrap().len(), EMPTY_MAX);
    }
}
