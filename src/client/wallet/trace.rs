//! Searches the logs of one endpoint for what used an authorization's nonce.

use std::time::Duration;

use tokio::time::timeout;

use crate::{
    evm::{
        block_range::BlockRange,
        eip3009::{Nonce, Trace},
        wallet::node::{Failure, Node},
    },
    protocol::ChainTime,
};

/// The largest block range of one call. Many endpoints refuse more.
const RANGE_MAX: u64 = 2_000;
/// How many log calls one search makes: three days of Base, one range at a time.
const SEARCHES_MAX: usize = 64;
/// The time limit of one call: below the limit for other questions, so that slow logs do not mark the node as hanging.
const PATIENCE: Duration = Duration::from_secs(4);
/// How far before the signing the search goes, in seconds, because the clock that recorded the signing may be fast.
const MARGIN: u64 = 2 * 60 * 60;

/// Searches from the head backwards to the time of the signing; returns `None` if it found nothing, or made too many
/// calls.
pub(super) async fn search(node: &Node, nonce: &Nonce, since: ChainTime) -> Result<Option<Trace>, Failure> {
    let mut width = RANGE_MAX;
    let mut range = BlockRange::up_to_latest(node.head().await?.number, width);
    for _ in 0..SEARCHES_MAX {
        match within(node, nonce, &range).await {
            Ok(Some(trace)) => return Ok(Some(trace)),
            Ok(None) if is_early_enough(node, range.from(), since).await? => return Ok(None),
            Ok(None) => range = range.before(width),
            // The range may be too wide for this endpoint. Many report that with the status that others use for an
            // outage.
            Err(_) if width > 1 => {
                width /= 2;
                range = range.last_of(width);
            }
            Err(failure) => return Err(failure),
        }
    }
    tracing::debug!(payer = %nonce.payer, "what used an authorization was not found with as many calls as are made");
    Ok(None)
}

/// Searches one block.
pub(super) async fn in_block(node: &Node, nonce: &Nonce, height: u64) -> Result<Option<Trace>, Failure> {
    within(node, nonce, &BlockRange::only(height)).await
}

async fn within(node: &Node, nonce: &Nonce, range: &BlockRange) -> Result<Option<Trace>, Failure> {
    let question = nonce.logs(range);
    let logs = timeout(PATIENCE, node.answer(&question)).await.map_err(|_| Failure::Silence)??;
    Ok(nonce.read_logs(&logs, range)?)
}

/// Returns whether nothing below that height needs to be searched.
async fn is_early_enough(node: &Node, from: u64, since: ChainTime) -> Result<bool, Failure> {
    if from == 0 {
        return Ok(true);
    }
    let block = node.block(from).await?.ok_or(Failure::Nonsense)?;
    Ok(block.time.unix() < since.unix().saturating_sub(MARGIN))
}
