//! `Delivery`: closes a purchase once the caller has its answer. `Closing`: writes the purchase's final state.

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
};

use tokio::runtime::Handle;

use super::inner::{PATIENCE, RegistryInner};
use crate::client::{JournalEntry, JournalError, PurchaseId};

/// Writes the final state of a purchase. Until this is dropped, nothing else is recorded of the purchase, so the final
/// state is the journal's last record.
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

    /// Closes the purchase in the registry, after the journal: a caller that leaves during the write has not seen the
    /// end.
    pub(super) fn close(self) {
        self.registry.close(&self.last);
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.registry.tables().open.closed_by(self.last.id, |closings| closings.saturating_sub(1));
    }
}

/// Accompanies the body of a sold answer. The purchase stays open until the body was read to its end, so that the same
/// request asks for the same answer, also after a crash.
pub(crate) struct Delivery {
    registry: Arc<RegistryInner>,
    purchase: PurchaseId,
    /// The purchase's final state.
    answered: Option<Box<JournalEntry>>,
    /// In a mutex, so that a body can be `Sync`: only `poll_close` and `drop` use it.
    closing: Option<Mutex<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    /// Whether nothing is left to read.
    is_whole: bool,
    /// Captured here, because a body may be dropped outside the runtime.
    runtime: Option<Handle>,
}

impl Delivery {
    pub(super) fn new(registry: &Arc<RegistryInner>, answered: JournalEntry) -> Self {
        let purchase = answered.id;
        registry.tables().open.read_by(purchase, |readers| readers.saturating_add(1));
        let (registry, answered) = (Arc::clone(registry), Some(Box::new(answered)));
        Self { registry, purchase, answered, closing: None, is_whole: false, runtime: Handle::try_current().ok() }
    }

    /// Notes whether everything was read: a body is often dropped at its last byte, without a further poll.
    pub(crate) const fn set_whole(&mut self, is_whole: bool) {
        self.is_whole = is_whole;
    }

    /// Returns whether the end of the body was reached.
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

/// Only warns: the caller has the answer, and at worst it is requested once more.
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
