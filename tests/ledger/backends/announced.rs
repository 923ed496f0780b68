//! Sales that wait for their announcement, on each ledger over a database.

use tower_x402::{
    ledger::{Announcements as _, CommitOutcome, Ledger as _, conformance},
    protocol::TxHash,
};

use super::{book::Books, claim, hold, paid, sell};
use crate::kinds::{AnyLedger, Kind, Place, on_each_kind};

on_each_kind! {
    it_announces_as_it_should
    a_sale_without_a_hook_writes_nothing_more
    what_waits_is_shown_with_its_refund
}

async fn it_announces_as_it_should(kind: Kind) {
    let Some(books) = Books::new(kind).await else { return };
    let report = conformance::run_announcements(&books).await.unwrap();
    assert!(!report.passed.is_empty() && report.left_out.is_empty());
    books.remove().await;
}

async fn marks(place: &Place) -> u64 {
    if place.kind != Kind::Redis {
        return place.count("SELECT count(*) FROM ledger_unannounced").await;
    }
    let keys = place.redis_keys().await;
    keys.iter().filter(|key| key.contains("unannounced")).count() as u64
}

async fn a_sale_without_a_hook_writes_nothing_more(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    sell(&ledger, &claim(1, 1)).await;
    assert_eq!(marks(&place).await, 0);
    let lease = hold(&ledger, &claim(2, 2)).await.announcing();
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    assert_ne!(marks(&place).await, 0);
    ledger.announced(paid(2).payment_id()).await.unwrap();
    assert_eq!(marks(&place).await, 0, "nothing is left of it");
    place.remove().await;
}

async fn what_waits_is_shown_with_its_refund(kind: Kind) {
    use tower_x402::ledger::SalesBook as _;
    let Some(place) = Place::new(kind).await else { return };
    let ledger: AnyLedger = place.begun().await;
    let lease = hold(&ledger, &claim(1, 1)).await.announcing();
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    assert_eq!(ledger.unannounced(None, 9).await.unwrap()[0].refund, None);
    let _ = ledger.note_refund(paid(1).payment_id(), TxHash::new([7; 32])).await.unwrap();
    let refund = ledger.unannounced(None, 9).await.unwrap()[0].refund.unwrap();
    assert_eq!(refund.transaction, TxHash::new([7; 32]));
    place.remove().await;
}
