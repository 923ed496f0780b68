//! `SoldHook`: the seller's hook, which runs once a sale is recorded.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::ledger::{BookedSale, ErasedLedger};

type Announce = dyn Fn(BookedSale) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// A hook of all routes of one name.
#[derive(Clone)]
pub(crate) struct SoldHook(Arc<Announce>);

/// Holds the hook that the routes of one name share, once it is set.
pub(crate) type SoldHookCell = Arc<OnceLock<SoldHook>>;

impl SoldHook {
    pub(crate) fn new<F, Fut>(hook: F) -> Self
    where
        F: Fn(BookedSale) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move |sale| Box::pin(hook(sale))))
    }

    /// Runs the hook in a separate task, so that a panic ends no other work, and then removes the ledger's mark of the
    /// sale. A failure leaves the mark for the next start.
    pub(crate) async fn announce(self, runtime: &Handle, ledger: &Arc<dyn ErasedLedger>, sale: BookedSale) {
        let payment = sale.payment;
        let hook = runtime.spawn(async move { (self.0)(sale).await }.in_current_span());
        if hook.await.is_err() {
            tracing::error!(%payment, "the hook of `on_sold` did not end; `Merchant::replay_sales` runs it again");
            return;
        }
        let Some(waiting) = ledger.announcements() else { return };
        if waiting.announced(payment).await.is_err() {
            tracing::warn!(%payment, "the ledger did not note that a sale was announced; `Merchant::replay_sales` announces it again");
        }
    }
}

impl fmt::Debug for SoldHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SoldHook").finish_non_exhaustive()
    }
}
