//! The order in which due rows are claimed, and which of them together. Plain functions of values.

use crate::{paywall::seller::channels::due::Owed, settle::CLAIMS_MAX};

/// Returns the rows in the order in which they are claimed, in chunks, each with whether it is urgent. Claims that failed the last time
/// come last, so that they do not take the time of all others again and again. If their payer withdraws, the money can be lost: then they
/// come before what is merely due, for a while.
pub(super) fn in_order(due: Vec<Owed>, is_failed: impl Fn(&Owed) -> bool) -> Vec<(Vec<Owed>, bool)> {
    let (again, due): (Vec<Owed>, Vec<Owed>) = due.into_iter().partition(is_failed);
    let (urgent, again): (Vec<Owed>, Vec<Owed>) = again.into_iter().partition(|row| row.is_withdrawn_from);
    // In one transaction with the others, unless urgent rows come in between.
    let is_first = |row: &Owed| !urgent.is_empty() && row.is_withdrawn_from;
    let (first, rest): (Vec<Owed>, Vec<Owed>) = due.into_iter().partition(is_first);
    let parts = [(first, false), (urgent, true), (rest, false), (again, false)];
    parts
        .into_iter()
        .flat_map(|(rows, is_urgent)| in_chunks(rows).into_iter().map(move |rows| (rows, is_urgent)))
        .collect()
}

/// Splits rows into chunks that are each claimed together. Chunks with rows of withdrawing payers come first. Each row of a contract
/// account is a chunk of its own.
fn in_chunks(rows: Vec<Owed>) -> Vec<Vec<Owed>> {
    // A contract account may recognise its voucher now, but not when the claim is mined. So it can fail alone.
    let (by_key, by_account): (Vec<Owed>, Vec<Owed>) =
        rows.into_iter().partition(|row| row.channel.config.voucher_key().is_some());
    let chunks = by_key.chunks(CLAIMS_MAX).chain(by_account.chunks(1));
    let mut chunks: Vec<Vec<Owed>> = chunks.map(<[Owed]>::to_vec).collect();
    chunks.sort_by_key(|rows| !rows.iter().any(|row| row.is_withdrawn_from));
    chunks
}
