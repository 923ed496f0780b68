//! `Maintenance`: the same for every ledger.

use std::{sync::Arc, time::Duration};
use tower_x402::protocol::Network;

use tower_x402::ledger::{Ledger as _, Maintenance, MemoryLedger, ReserveOutcome};

use super::{HEAD, MARK, claim, claim_for, hold, paid, sell, time};
use crate::kinds::{Kind, Place, on_each_kind};

/// On a ledger that has not begun.
async fn is_maintained(ledger: &impl Maintenance) {
    // Nothing is moved before it began: it must begin in the present.
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(None));
    assert_eq!(ledger.raise_mark_to(Network::BASE, time(HEAD)).await, Ok(None));
    assert_eq!(ledger.lower_mark_to(Network::BASE, time(1)).await, Ok(None));
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(None));
    assert_eq!(ledger.begin(Network::BASE, time(MARK)).await, Ok(time(MARK)));

    assert_eq!(ledger.raise_mark_to(Network::BASE, time(MARK - 1)).await, Ok(Some(time(MARK))));
    assert_eq!(ledger.lower_mark_to(Network::BASE, time(MARK + 1)).await, Ok(Some(time(MARK))));
    assert_eq!(ledger.raise_mark_to(Network::BASE, paid(1).block_time).await, Ok(Some(paid(1).block_time)));
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(paid(1).block_time)));
    assert_eq!(ledger.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::BeforeMemory));
    assert_eq!(ledger.lower_mark_to(Network::BASE, time(MARK)).await, Ok(Some(time(MARK))));

    // More than any ledger forgets in one step of its own.
    for name in 1..=140 {
        sell(ledger, &claim(name, name)).await;
    }
    let held = hold(ledger, &claim(150, 150)).await;
    let freed = hold(ledger, &claim(151, 151)).await;
    ledger.release(&freed).await.unwrap();
    let size = ledger.size().await.unwrap();
    assert_eq!((size.held, size.remembered), (1, 140));

    let last = claim(1, 1).keep_until(&paid(1).into());
    assert_eq!(ledger.sweep(Network::BASE, last).await, Ok(0), "a sale is kept to the second");
    assert_eq!(ledger.sweep(Network::BASE, last.after(Duration::from_secs(1))).await, Ok(140));
    let size = ledger.size().await.unwrap();
    assert_eq!((size.held, size.remembered), (1, 0), "what is held may still be committed");
    assert_eq!(
        ledger.low_water_mark(Network::BASE).await,
        Ok(Some(paid(1).block_time)),
        "what was forgotten is refused"
    );
    ledger.release(&held).await.unwrap();
    assert_eq!(ledger.size().await.unwrap().held, 0);
}

/// On a ledger that has not begun.
async fn each_network_has_a_mark_of_its_own(ledger: &impl Maintenance) {
    let all = [Network::eip155(1), Network::BASE, Network::BASE_SEPOLIA];
    for network in all {
        assert_eq!(ledger.begin(network, time(MARK)).await, Ok(time(MARK)));
    }
    for (moved, network) in (1..).zip(all) {
        let marks = async || {
            let mut marks = Vec::new();
            for other in all.into_iter().filter(|other| *other != network) {
                marks.push(ledger.low_water_mark(other).await.unwrap());
            }
            marks
        };
        let before = marks().await;
        let [high, low] = [MARK + 1_000 * moved, MARK - 1_000 * moved].map(time);
        assert_eq!(ledger.raise_mark_to(network, high).await, Ok(Some(high)));
        assert_eq!(marks().await, before, "the marks of other networks, after one was raised");
        assert_eq!(ledger.lower_mark_to(network, low).await, Ok(Some(low)));
        assert_eq!(marks().await, before, "the marks of other networks, after one was lowered");
    }
}

async fn a_ledger_is_maintained(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.ledger().await;
    ledger.migrate().await.unwrap();
    is_maintained(&ledger).await;
    place.remove().await;
}

async fn a_mark_is_moved_on_its_own_network_alone(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.ledger().await;
    ledger.migrate().await.unwrap();
    each_network_has_a_mark_of_its_own(&ledger).await;
    place.remove().await;
}

/// A buyer does not wait while what is old is forgotten.
async fn a_reservation_forgets_nothing(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    sell(&ledger, &claim(1, 1)).await;
    let beyond = claim(1, 1).keep_until(&paid(1).into()).unix() + 1;
    let _held = hold(&ledger, &claim_for(99, 99, Duration::from_secs(60), beyond)).await;
    assert_eq!(ledger.size().await.unwrap().remembered, 1);
    assert_eq!(ledger.sweep(Network::BASE, time(beyond)).await, Ok(1));
    assert_eq!(ledger.size().await.unwrap().remembered, 0);
    place.remove().await;
}

on_each_kind! {
    a_ledger_is_maintained
    a_mark_is_moved_on_its_own_network_alone
    a_reservation_forgets_nothing
}

#[tokio::test]
async fn memory_is_maintained_through_a_shared_handle() {
    is_maintained(&Arc::new(MemoryLedger::new())).await;
    each_network_has_a_mark_of_its_own(&MemoryLedger::new()).await;
}
