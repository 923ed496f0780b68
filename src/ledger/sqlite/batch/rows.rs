//! What statements get as JSON: one row for each question.

use std::time::Duration;

use serde::Serialize;
use sqlx::{Sqlite, query::Query, sqlite::SqliteArguments};

use super::super::{
    super::{
        Claim, Lease,
        sql::{micros, seconds},
    },
    statements::Text,
};
use crate::protocol::{IntentKey, Transfer};

/// A statement on rows that are handed over as JSON.
pub(super) fn on(text: &Text, rows: String) -> Query<'static, Sqlite, SqliteArguments> {
    sqlx::query(text.sql()).bind(rows)
}

/// SQLite's unit.
pub(super) fn millis(span: Duration) -> i64 {
    micros(span).saturating_add(999) / 1000
}

pub(super) fn json(rows: &[impl Serialize]) -> sqlx::Result<String> {
    serde_json::to_string(rows).map_err(|error| sqlx::Error::Encode(error.into()))
}

/// Intent, transaction, position, chain; fence, and what else belongs to it.
pub(super) type Held = (String, String, u32, i64, i64, i64);

pub(super) fn held(lease: &Lease, more: i64) -> Held {
    let (intent, hash, position, chain) = pair(lease.intent(), lease.transfer());
    (intent, hash, position, chain, lease.fencing_token().cast_signed(), more)
}

fn pair(intent: IntentKey, transfer: &Transfer) -> (String, String, u32, i64) {
    let hash = const_hex::encode(transfer.transaction.as_bytes());
    (const_hex::encode(intent.as_bytes()), hash, transfer.position, transfer.network.chain_id().cast_signed())
}

/// Intent, transaction, position, chain; the claim's place in the batch. There is one without a candidate for a claim that
/// has none.
pub(super) type Wish = (String, Option<String>, Option<u32>, Option<i64>, usize);

pub(super) fn wishes(place: usize, claim: &Claim) -> Vec<Wish> {
    let mut wishes: Vec<_> = claim
        .transfers()
        .iter()
        .map(|transfer| {
            let (intent, hash, position, chain) = pair(claim.intent(), transfer);
            (intent, Some(hash), Some(position), Some(chain), place)
        })
        .collect();
    if wishes.is_empty() {
        wishes.push((const_hex::encode(claim.intent().as_bytes()), None, None, None, place));
    }
    wishes
}

/// Intent, transaction, position, chain; resource, payer, recipient, token, amount; the block's number and time; until
/// when it is kept, and held for how long.
pub(super) type Grant<'c> = (String, String, u32, i64, &'c str, String, String, String, String, i64, i64, i64, i64);

pub(super) fn grant<'c>(claim: &'c Claim, transfer: &Transfer) -> Grant<'c> {
    let (intent, hash, position, chain) = pair(claim.intent(), transfer);
    (
        intent,
        hash,
        position,
        chain,
        claim.resource(),
        const_hex::encode(transfer.payer.as_bytes()),
        const_hex::encode(transfer.recipient.as_bytes()),
        const_hex::encode(transfer.token.as_bytes()),
        transfer.amount.to_string(),
        transfer.block_number.cast_signed(),
        seconds(transfer.block_time),
        seconds(claim.keep_until(transfer)),
        millis(claim.lease()),
    )
}

/// Transaction, position, chain; the block's time and number, and until when the sale is kept.
pub(super) type Later = (String, u32, i64, i64, i64, i64);

pub(super) fn later_of(claim: &Claim, transfer: &Transfer) -> Later {
    let (_, hash, position, chain) = pair(claim.intent(), transfer);
    let block = transfer.block_number.cast_signed();
    (hash, position, chain, seconds(transfer.block_time), block, seconds(claim.keep_until(transfer)))
}
