//! The handling of an answer between its head and the caller: read ahead, and recorded.

use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http_body::Body;
use tokio::time::timeout;

use crate::{
    client::{JournalEntry, PermitCharge, PurchaseState, ResponseBody, flow::PurchaseGuard, http::Peek},
    protocol::TxHash,
};

/// How long an answer is read ahead; a slower one is handed to the caller.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads a sold answer to its end, if it is at most `limit` bytes and fast enough; returns `None` if it breaks off.
pub(super) async fn read_ahead<R>(
    guard: &mut PurchaseGuard,
    state: PurchaseState,
    body: ResponseBody<R>,
    limit: usize,
) -> Option<ResponseBody<R>>
where
    R: Body<Data = Bytes>,
{
    let is_too_large = body.size_hint().lower() > limit as u64;
    if state != PurchaseState::Answered {
        return Some(body);
    }
    keep_open(guard).await;
    if limit == 0 || is_too_large || body.is_end_stream() {
        return Some(body);
    }
    let mut peek = Peek::of_rest(body);
    match timeout(PATIENCE, peek.read(limit)).await {
        Ok(Err(_)) => None,
        Ok(Ok(())) | Err(_) => Some(peek.into_body()),
    }
}

/// Records that the payment is spent: if the answer is lost, only this proof is shown again, under no other quote.
async fn keep_open(guard: &mut PurchaseGuard) {
    let entry = guard.entry();
    let open = match entry.state {
        PurchaseState::Unspent if entry.is_shown() => PurchaseState::Paying,
        state if entry.is_shown() => state,
        _ => PurchaseState::Redeeming,
    };
    if open != entry.state {
        guard.note(|entry| entry.state = open).await;
    }
    if guard.entry().is_shown() && guard.entry().settled.is_none() {
        // From now on it counts for a day, however late the caller reads its answer.
        let now = guard.now();
        guard.note(|entry| entry.settled = Some(now)).await;
    }
}

/// Records the state of a purchase that has an answer. A sold one stays open until the caller has read the answer.
pub(super) async fn close(
    guard: &mut PurchaseGuard,
    transaction: Option<TxHash>,
    state: PurchaseState,
    charged: Option<PermitCharge>,
    parts: &Parts,
) {
    let delivered = state == PurchaseState::Unspent && parts.status.is_success();
    let close = |entry: &mut JournalEntry| {
        (entry.state, entry.transaction, entry.delivered) = (state, transaction, delivered);
        entry.charged = charged.or(entry.charged);
    };
    if state == PurchaseState::Answered {
        guard.sell(close);
    } else {
        guard.note(close).await;
    }
}
