//! `Delivery`: closes a purchase once its answer is with the caller; and `Closing`, which writes its last state.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::runtime::Handle;

use super::inner::{PATIENCE, RegistryInner};
use crate::client::{JournalEntry, JournalError, PurchaseId};

/// Writes the last state of a purchase. Until it is dropped, nothing else is recorded of that purchase: the last word of the journal is
/// this one.
pub(super) struct Closing {
    registry: Arc<RegistryInner>,
    last: JournalEntry,
}

impl Closing {
    pub(super) fn new(registry: &Arc<RegistryInner>, last: JournalEntry) -> Self {
        registry.tables().open.closed_by(last.id, |closings| closings.saturating_add(1));
        Self { registry: Arc::clone(registry), last }
    }

    pub(super) async fn write(&self) -> Result<(), JournalError> {
        self.registry.write(&self.last, Some(PATIENCE)).await
    }

    /// In the registry last: a caller that leaves while the journal writes has not seen the end.
    pub(super) fn close(self) {
        self.registry.close(&self.last);
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.registry.tables().open.closed_by(self.last.id, |closings| closings.saturating_sub(1));
    }
}

/// Goes with the body of an answer that was sold. Until the body was read to its end the purchase stays open, so that the same
/// request asks for the same answer: after a crash, too.
pub(crate) struct Delivery {
    registry: Arc<RegistryInner>,
    purchase: PurchaseId,
    /// The purchase's last state.
    answered: Option<Box<JournalEntry>>,
    /// In a mutex, so that a body can be `Sync`: only `poll_close` and `drop` use it.
    closing: Option<Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// Nothing is left to read.
    is_whole: bool,
    /// Found here, because a body may be dropped outside the runtime.
    runtime: Option<Handle>,
}

impl Delivery {
    pub(super) fn new(registry: &Arc<RegistryInner>, answered: JournalEntry) -> Self {
        let purchase = answered.id;
        registry.tables().open.read_by(purchase, |readers| readers.saturating_add(1));
        let (registry, answered) = (Arc::clone(registry), Some(Box::new(answered)));
        Self { registry, purchase, answered, closing: None, is_whole: false, runtime: Handle::try_current().ok() }
    }

    /// Notes whether anything is left to read: a body is often dropped at its last byte, without a look behind it.
    pub(crate) const fn is_whole(&mut self, is_whole: bool) {
        self.is_whole = is_whole;
    }

    /// Whether the end of the body was reached.
    pub(crate) const fn is_closing(&self) -> bool {
        self.closing.is_some()
    }

    /// Closes the purchase, durably.
    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(answered) = self.answered.take() {
            let closing = Closing::new(&self.registry, *answered);
            self.closing = Some(Mutex::new(Box::pin(async move {
                warn_of(closing.write().await, closing.last.id);
                closing.close();
            })));
        }
        if let Some(closing) = &mut self.closing {
            ready!(closing.get_mut().unwrap_or_else(PoisonError::into_inner).as_mut().poll(cx));
            self.closing = None;
        }
        Poll::Ready(())
    }
}

/// The caller has the answer, even if the journal fails: at worst it is requested once more.
fn warn_of(written: Result<(), JournalError>, purchase: PurchaseId) {
    if let Err(error) = written {
        tracing::warn!(%error, %purchase, "the journal did not record that an answer was read");
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.registry.tables().open.read_by(self.purchase, |readers| readers.saturating_sub(1));
        let Some(answered) = self.answered.take().filter(|_| self.is_whole) else { return };
        self.registry.close(&answered);
        if let Some(runtime) = &self.runtime {
            let registry = Arc::clone(&self.registry);
            runtime.spawn(async move { warn_of(registry.write(&answered, Some(PATIENCE)).await, answered.id) });
        }
    }
}
