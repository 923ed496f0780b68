//! Records a sale: the commit, and the hook that follows it.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::{
    ledger::{BookedSale, KeptAnswer},
    paywall::{
        sale::reservation::{Committed, LeaseGuard},
        seller::{route::Route, sold_hook::SoldHook},
    },
};

/// Records the sale, and runs the route's hook, if it has one.
///
/// With a hook, the commit marks the sale until the hook has run. The commit then has a task of its own: if the client leaves while it
/// runs, the sale must not stay unannounced until the next start.
pub(crate) fn commit(
    mut guard: LeaseGuard,
    kept: Option<KeptAnswer>,
    route: &Route,
) -> impl Future<Output = Option<(Committed, LeaseGuard)>> {
    let hook = route.listing.on_sold.get().cloned();
    if hook.is_some() {
        guard.announce_later();
    }
    async move {
        match hook.zip(Handle::try_current().ok()) {
            None => {
                let committed = guard.commit(kept.as_ref()).await;
                Some((committed, guard))
            }
            Some((hook, runtime)) => commit_and_announce(guard, kept, route, hook, runtime).await,
        }
    }
}

/// Records the sale in a task of its own, then announces it. Returns `None` if the task panicked: then it is unknown whether the sale was
/// recorded.
fn commit_and_announce(
    mut guard: LeaseGuard,
    kept: Option<KeptAnswer>,
    route: &Route,
    hook: SoldHook,
    runtime: Handle,
) -> impl Future<Output = Option<(Committed, LeaseGuard)>> + use<> {
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
    let task = runtime.spawn(task.in_current_span());
    async move { task.await.ok() }
}
