//! Reservations of payments that turn out to be worthless cost the ledger nothing that lasts.

use futures_util::future::join_all;
use tower_x402::ledger::{Ledger as _, Maintenance as _, RenewOutcome, ReserveOutcome, Settling};

use super::{LEASE, MARK, claim_unsettled, hold, time};
use crate::kinds::{Kind, Place, on_each_kind};

on_each_kind! {
    forged_signatures_leave_nothing_behind
    a_settlement_that_was_begun_outlives_a_restart
}

/// 100 at once, each refused after it was reserved, as a signature is that does not hold.
async fn forged_signatures_leave_nothing_behind(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let before = if kind == Kind::Redis { place.redis_keys().await.len() } else { 0 };
    let forged = (1..=100).map(|name| {
        let ledger = &ledger;
        async move {
            let lease = hold(ledger, &claim_unsettled(name, name, LEASE)).await;
            ledger.release(&lease).await.unwrap();
        }
    });
    join_all(forged).await;
    assert_eq!(ledger.size().await.unwrap().held, 0);
    match kind {
        Kind::Redis => assert_eq!(place.redis_keys().await.len(), before, "no key is left"),
        _ => {
            for table in ["sales", "settling"] {
                assert_eq!(place.count(&format!("SELECT count(*) FROM ledger_{table}")).await, 0, "{table}");
            }
        }
    }
    place.remove().await;
}

async fn a_settlement_that_was_begun_outlives_a_restart(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let claim = claim_unsettled(1, 1, LEASE);
    let lease = hold(&ledger, &claim).await;
    let begun = Settling::new([7; 16], time(MARK + 150));
    assert_eq!(ledger.settling(&lease, &begun).await, Ok(RenewOutcome::Held));
    ledger.release(&lease).await.unwrap();
    ledger.close().await;
    let again = place.ledger().await;
    let foreign = claim_unsettled(2, 1, LEASE);
    assert_eq!(again.reserve(&foreign).await, Ok(ReserveOutcome::Busy { retry_after: LEASE }));
    assert_eq!(hold(&again, &claim).await.settling(), Some(&begun));
    place.remove().await;
}
