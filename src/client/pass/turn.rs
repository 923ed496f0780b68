//! `Turns`: one request at a time buys or fetches a pass, and others wait for it for a while.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard},
    time::{Instant, timeout_at},
};

/// For how long others wait for one that buys.
pub(super) const FOR_A_PURCHASE: Duration = Duration::from_secs(30);
/// For how long others wait for one that fetches what was paid for: it may have stalled before.
pub(super) const FOR_AN_ANSWER: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Turns {
    lock: AsyncMutex<()>,
    /// When others no longer wait for the one whose turn it is. `None` where it has only just begun, and where nobody has the turn.
    awaited_until: Mutex<Option<Instant>>,
}

/// The turn, until it is dropped.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    _lock: AsyncMutexGuard<'a, ()>,
}

impl Turns {
    /// Waits for the turn until the other one is no longer waited for, and for so long at most. After that others wait so long for this one.
    pub(super) async fn take(&self, awaited_for: Duration, most: Duration) -> Option<Turn<'_>> {
        let lock = match self.lock.try_lock() {
            Ok(lock) => lock,
            Err(_) => timeout_at(self.gives_up_at(most), self.lock.lock()).await.ok()?,
        };
        let turn = Turn { turns: self, _lock: lock };
        turn.is_awaited_for(awaited_for);
        Some(turn)
    }

    fn gives_up_at(&self, most: Duration) -> Instant {
        let own = Instant::now() + most;
        self.awaited_until().map_or(own, |until| until.min(own))
    }

    fn awaited_until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.awaited_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Has those who ask from now on wait for so long at most: the turn begins with something else.
    pub(super) fn is_awaited_for(&self, time: Duration) {
        *self.turns.awaited_until() = Instant::now().checked_add(time);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.turns.awaited_until() = None;
    }
}
