//! `Turns`: one request at a time buys or fetches a pass, and others wait for it for a while.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard},
    time::{Instant, timeout_at},
};

/// How long others wait for a request that buys a pass.
pub(super) const FOR_A_PURCHASE: Duration = Duration::from_secs(30);
/// How long others wait for a request that fetches a paid pass. It is short, because the seller may have stalled before.
pub(super) const FOR_AN_ANSWER: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(super) struct Turns {
    lock: AsyncMutex<()>,
    /// When others stop waiting for the holder of the turn. `None` if there is no holder, or its turn has only just begun.
    awaited_until: Mutex<Option<Instant>>,
}

/// The turn, until it is dropped.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    _lock: AsyncMutexGuard<'a, ()>,
}

impl Turns {
    /// Waits for the turn, for `most` at most and no longer than others wait for its present holder. From then on, others wait
    /// `awaited_for` for this one. Returns `None` if the turn is not free in time.
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
    /// Sets how long requests that ask for the turn from now on wait for it at most, because its holder begins another task.
    pub(super) fn is_awaited_for(&self, time: Duration) {
        *self.turns.awaited_until() = Instant::now().checked_add(time);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.turns.awaited_until() = None;
    }
}
