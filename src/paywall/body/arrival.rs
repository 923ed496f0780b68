//! `Arrival`: watches whether a body that is read while a payment is held keeps arriving.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::Frame;
use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, Sleep, sleep_until},
};

/// How long after its wake-up a reader may poll again and still count as waiting.
const AWAY: Duration = Duration::from_secs(1);

/// How fast a body must keep arriving while a payment is held for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The longest wait for the next byte.
    pub(crate) patience: Duration,
    /// How many received bytes allow one more second of waiting, from the first byte on.
    pub(crate) rate: u64,
}

/// Watches a body while a payment is held for it. Only the time for which the reader waited counts: the sender is not to blame for a
/// handler that reads slowly, or not at all.
#[derive(Debug)]
pub(crate) struct Arrival {
    pace: Pace,
    late: Arc<Notify>,
    /// The runtime of the timer: the body may be read outside of it.
    runtime: Handle,
    timer: Option<Pin<Box<Sleep>>>,
    /// The moment at which the reader began to wait for the next byte.
    since: Option<Instant>,
    /// The time for which it waited before that.
    waited: Duration,
    received: u64,
}

impl Arrival {
    /// `late` is notified when the body falls behind. `None` outside a runtime, where nothing could be timed.
    pub(crate) fn new(pace: Pace, late: Arc<Notify>) -> Option<Self> {
        let runtime = Handle::try_current().ok()?;
        Some(Self { pace, late, runtime, timer: None, since: None, waited: Duration::ZERO, received: 0 })
    }

    /// Notes what the reader got.
    pub(crate) fn observe<E>(&mut self, frame: &Poll<Option<Result<Frame<Bytes>, E>>>, cx: &mut Context<'_>) {
        match frame {
            // A frame without a byte is no progress.
            Poll::Ready(Some(Ok(frame))) => match frame.data_ref() {
                Some(data) if !data.is_empty() => self.progress(data.len()),
                Some(_) | None => {}
            },
            Poll::Ready(_) => {}
            Poll::Pending => self.wait(cx),
        }
    }

    fn progress(&mut self, bytes: usize) {
        let allowed = self.allowed();
        self.received = self.received.saturating_add(bytes as u64);
        // A reader that comes back long after the timer woke it was not waiting.
        if let Some(waited) = self.since.take().map(|since| since.elapsed())
            && waited <= allowed.saturating_add(AWAY)
        {
            self.waited += waited;
        }
    }

    fn wait(&mut self, cx: &mut Context<'_>) {
        let since = *self.since.get_or_insert_with(Instant::now);
        // An endless patience needs no timer.
        let Some(end) = since.checked_add(self.allowed()) else { return };
        let timer = self.timer.get_or_insert_with(|| {
            let _entered = self.runtime.enter();
            Box::pin(sleep_until(end))
        });
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        if timer.as_mut().poll(cx).is_ready() {
            self.late.notify_one();
        }
    }

    /// Returns how long the reader may wait now.
    fn allowed(&self) -> Duration {
        let earned = Duration::from_millis(self.received.saturating_mul(1000) / self.pace.rate.max(1));
        self.pace.patience.min(self.pace.patience.saturating_add(earned).saturating_sub(self.waited))
    }
}
