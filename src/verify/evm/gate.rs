//! `Gate`: so many look-ups at once, so many waiting, the rest turned away.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::verify::{VerifyError, VerifyErrorKind};

#[derive(Debug)]
pub(super) struct Gate {
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    queue: usize,
}

impl Gate {
    pub(super) fn new(concurrency: usize, queue: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(concurrency)), waiting: AtomicUsize::new(0), queue }
    }

    /// Waits for its turn; the permit is the turn.
    pub(super) async fn enter(&self) -> Result<OwnedSemaphorePermit, VerifyError> {
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let _place = Place::take(&self.waiting, self.queue)?;
        Arc::clone(&self.permits).acquire_owned().await.map_err(|_| VerifyError::unavailable())
    }
}

/// A place in the queue.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(waiting: &'a AtomicUsize, queue: usize) -> Result<Self, VerifyError> {
        if waiting.fetch_add(1, Ordering::Relaxed) >= queue {
            waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(VerifyError::new(VerifyErrorKind::Overloaded));
        }
        Ok(Self(waiting))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn turns_away_what_the_queue_cannot_hold() -> Result<(), VerifyError> {
        let gate = Arc::new(Gate::new(1, 1));
        let first = gate.enter().await?;
        let second = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.enter().await.map(drop) }
        });
        tokio::task::yield_now().await;
        let third = gate.enter().await.map(drop);
        assert_eq!(third, Err(VerifyError::new(VerifyErrorKind::Overloaded)));
        drop(first);
        assert_eq!(second.await.ok(), Some(Ok(())));
        gate.enter().await.map(drop)
    }
}
