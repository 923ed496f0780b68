//! What was confirmed outlives the handle that confirmed it.

use tower_x402::{
    ledger::{RefundOutcome, SalesBook as _, conformance},
    protocol::TxHash,
};

use super::{book::Books, claim, paid, sell};
use crate::kinds::{Kind, Place, on_each_kind};

on_each_kind! {
    it_is_durable
    answers_stay_within_their_space
    a_refund_is_there_after_a_restart
}

async fn it_is_durable(kind: Kind) {
    let Some(books) = Books::new(kind).await else { return };
    let report = conformance::run_durable(&books).await.unwrap();
    assert!(!report.passed.is_empty() && report.left_out.is_empty());
    books.remove().await;
}

async fn answers_stay_within_their_space(kind: Kind) {
    let Some(books) = Books::new(kind).await else { return };
    let report = conformance::run_space(&books).await.unwrap();
    assert!(!report.passed.is_empty() && report.left_out.is_empty());
    books.remove().await;
}

async fn a_refund_is_there_after_a_restart(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let (ledger, transaction) = (place.begun().await, TxHash::new([7; 32]));
    sell(&ledger, &claim(1, 1)).await;
    assert_eq!(ledger.note_refund(paid(1).payment_id(), transaction).await, Ok(RefundOutcome::Noted));
    ledger.close().await;
    let known = place.ledger().await.known(&[paid(1).payment_id()]).await.unwrap();
    assert_eq!(known[0].refund.map(|refund| refund.transaction), Some(transaction));
    place.remove().await;
}
