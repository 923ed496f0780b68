//! `Progress`: reports a purchase's progress to the caller and the log.

use std::sync::Arc;

use crate::client::{PurchaseEvent, PurchaseId, PurchaseProgress};

pub(crate) type OnProgress = dyn Fn(&PurchaseProgress) + Send + Sync;

/// Reports the steps of one purchase.
#[derive(Clone)]
pub(crate) struct Progress {
    purchase: PurchaseId,
    host: Arc<str>,
    request: Arc<str>,
    on_progress: Option<Arc<OnProgress>>,
}

impl Progress {
    pub(crate) fn new(purchase: PurchaseId, host: &str, request: &str, on_progress: Option<Arc<OnProgress>>) -> Self {
        Self { purchase, host: host.into(), request: request.into(), on_progress }
    }

    /// Returns the current purchase.
    pub(crate) const fn purchase(&self) -> PurchaseId {
        self.purchase
    }

    /// Reports on another purchase from now on.
    pub(crate) const fn turn_to(&mut self, purchase: PurchaseId) {
        self.purchase = purchase;
    }

    pub(crate) fn report(&self, event: PurchaseEvent) {
        let purchase = self.purchase;
        tracing::debug!(%purchase, event = event.name(), "purchase");
        if let Some(on_progress) = &self.on_progress {
            on_progress(&PurchaseProgress {
                purchase,
                host: self.host.to_string(),
                request: self.request.to_string(),
                event,
            });
        }
    }
}
