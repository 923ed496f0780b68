//! `PassOrder`: what a `PassLayer` asks of the layer inside, and what that tells it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::client::{PurchaseId, flow::PurchaseRegistry};

/// A request extension. Clones are one order.
#[derive(Clone)]
pub(crate) struct PassOrder {
    wish: Wish,
    told: Arc<Mutex<Told>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// Finish what this request has paid for, and pay nothing new: a bill is returned as it is.
    NothingNew,
    /// Buy a pass, and leave its purchase open until it is kept.
    Pass,
}

#[derive(Default)]
struct Told {
    has_resumed: bool,
    approving: Duration,
    is_billed: bool,
    sale: Option<PassSale>,
}

impl PassOrder {
    pub(super) fn nothing_new() -> Self {
        Self { wish: Wish::NothingNew, told: Arc::default() }
    }

    pub(super) fn pass() -> Self {
        Self { wish: Wish::Pass, told: Arc::default() }
    }

    pub(crate) fn pays_nothing_new(&self) -> bool {
        self.wish == Wish::NothingNew
    }

    pub(crate) fn buys_a_pass(&self) -> bool {
        self.wish == Wish::Pass
    }

    /// Tells whether an earlier purchase of the request goes on, or ended, and the request begins anew.
    pub(crate) fn resumes(&self, resumes: bool) {
        self.told().has_resumed = resumes;
    }

    /// Tells how long the approval took, which counts against no deadline.
    pub(crate) fn approved_after(&self, time: Duration) {
        self.told().approving += time;
    }

    /// Tells that the seller asked for a payment.
    pub(crate) fn bills(&self) {
        self.told().is_billed = true;
    }

    /// Tells that the pass was sold.
    pub(crate) fn is_sold(&self, sale: PassSale) {
        self.told().sale = Some(sale);
    }

    pub(super) fn has_resumed(&self) -> bool {
        self.told().has_resumed
    }

    pub(super) fn approving(&self) -> Duration {
        self.told().approving
    }

    pub(super) fn is_billed(&self) -> bool {
        self.told().is_billed
    }

    pub(super) fn sale(&self) -> Option<PassSale> {
        self.told().sale.clone()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The open purchase of a pass that was sold.
#[derive(Clone)]
pub(crate) struct PassSale {
    pub(crate) registry: PurchaseRegistry,
    pub(crate) id: PurchaseId,
    /// The caller closes purchases.
    pub(crate) is_callers: bool,
}

impl PassSale {
    /// Closes the purchase, durably.
    pub(super) async fn close(&self) {
        if let Err(error) = self.registry.acknowledge(self.id).await {
            tracing::warn!(%error, purchase = %self.id, "the journal did not record that a pass is here");
        }
    }
}
