//! Recording a sale: the commit, and the hook that follows it.

use std::{
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::{
    ledger::{BookedSale, KeptAnswer},
    paywall::{
        sale::reservation::{Committed, LeaseGuard},
        seller::route::Route,
    },
};

/// Records the sale, and runs the route's hook, if it has one.
///
/// With a hook the commit marks the sale until the hook has run, and it has a task of its own: a client that leaves while the sale is
/// recorded must not leave it unannounced until the next start.
pub(crate) async fn commit(
    mut guard: LeaseGuard,
    kept: Option<KeptAnswer>,
    route: &Route,
) -> Option<(Committed, LeaseGuard)> {
    let hook = route.listing.on_sold.get().cloned();
    if hook.is_some() {
        guard.announce_later();
    }
    let Some((hook, runtime)) = hook.zip(Handle::try_current().ok()) else {
        let committed = guard.commit(kept.as_ref()).await;
        return Some((committed, guard));
    };
    let (resource, merchant) = (Arc::clone(&route.resource), Arc::clone(&route.merchant));
    let announcer = runtime.clone();
    let task = async move {
        let committed = guard.commit(kept.as_ref()).await;
        if let Committed::Done = committed {
            let paid = guard.payment();
            let sold_at = UNIX_EPOCH + Duration::from_secs(merchant.clock.unix());
            let sale = BookedSale::new(&*resource, paid, sold_at).with_maximum(guard.maximum());
            let spawner = announcer.clone();
            let announcement = async move { hook.announce(&announcer, &merchant.ledger, sale).await };
            drop(spawner.spawn(announcement.in_current_span()));
        }
        (committed, guard)
    };
    // A task that did not end has panicked: whether it had recorded the sale is not known.
    runtime.spawn(task.in_current_span()).await.ok()
}
