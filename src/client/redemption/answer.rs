//! The answer, between its head and the caller: read ahead, and recorded.

use std::time::Duration;

use bytes::Bytes;
use http::response::Parts;
use http_body::Body;
use tokio::time::timeout;

use crate::{
    client::{JournalEntry, PurchaseState, ResponseBody, beginning::Beginning, registry::PurchaseGuard},
    protocol::TxHash,
};

/// How long an answer is read ahead: one that comes slowly is not kept from the caller for longer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads an answer that was sold to its end, where it is not larger than `limit` and quick enough; `None` where it breaks off.
pub(in crate::client) async fn read_ahead<R>(
    guard: &mut PurchaseGuard,
    state: PurchaseState,
    body: ResponseBody<R>,
    limit: usize,
) -> Option<ResponseBody<R>>
where
    R: Body<Data = Bytes>,
{
    let is_too_large = body.size_hint().lower() > limit as u64;
    if state != PurchaseState::Answered || limit == 0 || is_too_large || body.is_end_stream() {
        return Some(body);
    }
    if guard.entry().state != PurchaseState::Redeeming && !guard.entry().is_shown() {
        // It is spent now: if the answer is lost, this very proof is shown again, and none under another quote.
        guard.note(|entry| entry.state = PurchaseState::Redeeming).await;
    }
    let mut beginning = Beginning::of_rest(body);
    match timeout(PATIENCE, beginning.read(limit)).await {
        Ok(Err(_)) => None,
        Ok(Ok(())) | Err(_) => Some(beginning.into_body()),
    }
}

/// Records the last state of a purchase that has an answer.
pub(in crate::client) async fn close(
    guard: &mut PurchaseGuard,
    transaction: Option<TxHash>,
    state: PurchaseState,
    parts: &Parts,
) {
    let delivered = state == PurchaseState::Unspent && parts.status.is_success();
    let close = |entry: &mut JournalEntry| {
        (entry.state, entry.transaction, entry.delivered) = (state, transaction, delivered);
    };
    guard.note(close).await;
}
