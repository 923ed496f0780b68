//! The JSON rows for statements: one row for each question.

use std::time::Duration;

use serde::Serialize;
use sqlx::{Sqlite, query::Query, sqlite::SqliteArguments};

use super::super::{
    super::{
        Claim, Lease, Settling,
        sql::{chain, micros, seconds},
    },
    statements::Text,
};
use crate::{
    ledger::stored::transaction,
    protocol::{IntentKey, Payment, PurchaseKey},
};

/// A statement with its rows as JSON.
pub(super) fn on(text: &Text, rows: String) -> Query<'static, Sqlite, SqliteArguments> {
    sqlx::query(text.sql()).bind(rows)
}

/// A span in SQLite's unit, milliseconds.
pub(super) fn millis(span: Duration) -> i64 {
    micros(span).saturating_add(999) / 1000
}

pub(super) fn json(rows: &[impl Serialize]) -> sqlx::Result<String> {
    serde_json::to_string(rows).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// Intent, payment and fence; and one further value.
pub(super) type Held = (String, String, i64, i64);

pub(super) fn held(lease: &Lease, more: i64) -> Held {
    let (intent, payment) = pair(lease.intent(), lease.payment());
    (intent, payment, lease.fencing_token().cast_signed(), more)
}

fn pair(intent: IntentKey, paid: &Payment) -> (String, String) {
    (const_hex::encode(intent.as_bytes()), paid.id().to_string())
}

/// Intent, payment and fence; transaction and position, the block's number and time, and until when the sale is kept.
pub(super) type Settled = (String, String, i64, String, u32, i64, i64, i64);

/// The row of a lease whose payment was settled since the grant.
pub(super) fn settled(lease: &Lease) -> Option<Settled> {
    let paid = lease.settled_since()?;
    let (intent, payment) = pair(lease.intent(), paid);
    Some((
        intent,
        payment,
        lease.fencing_token().cast_signed(),
        const_hex::encode(transaction(paid).as_bytes()),
        paid.position().unwrap_or_default(),
        paid.block_number().unwrap_or_default().cast_signed(),
        seconds(paid.time()),
        seconds(lease.keep_until()),
    ))
}

/// Intent, payment and fence; the charge.
pub(super) type Charged = (String, String, i64, String);

/// The row of a lease that charges a part of the payer's maximum.
pub(super) fn charged(lease: &Lease) -> Option<Charged> {
    let paid = lease.payment();
    let (intent, payment) = pair(lease.intent(), paid);
    lease.maximum().map(|_| (intent, payment, lease.fencing_token().cast_signed(), paid.amount().to_string()))
}

/// Intent, payment and chain; the request's digest, the head, the transaction, and until when the record is kept.
pub(super) type Begun = (String, String, i64, String, i64, Option<String>, i64);

/// The row of a settlement that is begun under this lease.
pub(super) fn begun(lease: &Lease, settling: &Settling) -> Begun {
    let (intent, payment) = pair(lease.intent(), lease.payment());
    let transaction = settling.transaction.map(|transaction| const_hex::encode(transaction.as_bytes()));
    let (request, head) = (const_hex::encode(settling.request), seconds(settling.head));
    let chain = chain(lease.payment().network());
    (intent, payment, chain, request, head, transaction, seconds(lease.keep_until()))
}

/// Intent and payment; the claim's place in the batch, the payment's chain, and the claim's purchase. A claim without
/// candidates has one row without a payment.
pub(super) type Wish = (String, Option<String>, usize, Option<i64>, Option<String>);

fn purchase(purchase: Option<PurchaseKey>) -> Option<String> {
    purchase.map(|purchase| const_hex::encode(purchase.as_bytes()))
}

pub(super) fn wishes(place: usize, claim: &Claim) -> Vec<Wish> {
    let wish = |paid: &Payment| {
        let (intent, payment) = pair(claim.intent(), paid);
        (intent, Some(payment), place, Some(chain(paid.network())), purchase(claim.purchase()))
    };
    let mut wishes: Vec<_> = claim.payments().iter().map(wish).collect();
    if wishes.is_empty() {
        wishes.push((const_hex::encode(claim.intent().as_bytes()), None, place, None, None));
    }
    wishes
}

/// Intent and payment; transaction, position, chain; resource, payer, recipient, token, amount; the block's number and
/// time; until when the sale is kept, the length of the lease, and the purchase.
pub(super) type Grant<'c> =
    (String, String, String, u32, i64, &'c str, String, String, String, String, i64, i64, i64, i64, Option<String>);

pub(super) fn grant<'c>(claim: &'c Claim, paid: &Payment, for_purchase: Option<PurchaseKey>) -> Grant<'c> {
    let (intent, payment) = pair(claim.intent(), paid);
    (
        intent,
        payment,
        const_hex::encode(transaction(paid).as_bytes()),
        paid.position().unwrap_or_default(),
        chain(paid.network()),
        claim.resource(),
        const_hex::encode(paid.payer().as_bytes()),
        const_hex::encode(paid.recipient().as_bytes()),
        const_hex::encode(paid.token().as_bytes()),
        paid.amount().to_string(),
        paid.block_number().unwrap_or_default().cast_signed(),
        seconds(paid.time()),
        seconds(claim.keep_until(paid)),
        millis(claim.lease()),
        purchase(for_purchase),
    )
}

/// The payment; the block's time and number, and until when the sale is kept.
pub(super) type Later = (String, i64, i64, i64);

pub(super) fn later_of(claim: &Claim, paid: &Payment) -> Later {
    let block = paid.block_number().unwrap_or_default().cast_signed();
    let payment = paid.id().to_string();
    (payment, seconds(paid.time()), block, seconds(claim.keep_until(paid)))
}
