//! Determines the status of an authorization from nodes that may lag, forget, lie, or disagree.
//!
//! `Void` allows a second payment. It needs positive evidence in a deep block, from every endpoint that answers. Either
//! that block is past the authorization's end, and the nonce was unused there; or a cancellation used up the nonce
//! there. The block's time counts, not this machine's clock.

use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::time::timeout;

use super::{account::Account, authorization::ours, trace};
use crate::{
    client::{AuthorizationStatus, PayerError, PreparedAuthorization},
    evm::{
        block::MinedIn,
        eip3009::{Nonce, Trace},
        wallet::{
            node::{Failure, Node},
            nodes::Nodes,
        },
    },
    protocol::ChainTime,
};

/// The time limit for searching one endpoint for the use of a nonce.
const SEARCH_LIMIT: Duration = Duration::from_secs(20);

const UNHEARD: PayerError = PayerError::Unavailable("no node says whether the authorization was used");
const CANCELED: PayerError = PayerError::Unavailable(
    "the authorization was cancelled, by some node and not for long enough, or not by all: ask again later",
);

pub(super) async fn status(
    account: &Account,
    final_after: u64,
    prepared: &PreparedAuthorization,
    since: ChainTime,
) -> Result<AuthorizationStatus, PayerError> {
    let (signed, domain) = ours(account, prepared).await?;
    let signed = &signed.authorization;
    let nonce = &Nonce { token: domain.token, payer: signed.from, nonce: signed.nonce };
    of_nonce(account, final_after, nonce, signed.valid_before, since).await
}

/// Returns the status of a signature with that nonce that can be used before `end`.
pub(super) async fn of_nonce(
    account: &Account,
    final_after: u64,
    nonce: &Nonce,
    end: ChainTime,
    since: ChainTime,
) -> Result<AuthorizationStatus, PayerError> {
    let nodes = &account.key.nodes;
    let heard: Vec<bool> = nodes.each(|node| is_used(node, nonce)).await.into_iter().flatten().collect();
    if heard.is_empty() {
        return Err(UNHEARD);
    }
    // If one endpoint reports it as used, no other endpoint's answer allows another payment.
    if heard.contains(&true) {
        return used(nodes, final_after, nonce, since).await;
    }
    let is_void = nodes.all_say(|node| has_ended(node, final_after, nonce, end)).await;
    Ok(if is_void { AuthorizationStatus::Void } else { AuthorizationStatus::Unused })
}

async fn is_used(node: &Node, nonce: &Nonce) -> Result<bool, Failure> {
    Ok(Nonce::read_state(&node.answer(&nonce.state_now()).await?)?)
}

/// Returns whether it had ended unused at a deep enough block. An endpoint without the state of that block fails, and
/// so does not vote.
async fn has_ended(node: &Node, final_after: u64, nonce: &Nonce, end: ChainTime) -> Result<bool, Failure> {
    let Some(deep) = node.head().await?.number.checked_sub(final_after) else { return Ok(false) };
    let block = node.block(deep).await?;
    if !block.is_some_and(|block| block.number == deep && block.time >= end) {
        return Ok(false);
    }
    let was_used = Nonce::read_state(&node.answer(&nonce.state_at(deep)).await?)?;
    Ok(!was_used && !is_used(node, nonce).await?)
}

/// Returns the status of a nonce that some endpoint reports as used, from the logs of any endpoint.
async fn used(
    nodes: &Nodes,
    final_after: u64,
    nonce: &Nonce,
    since: ChainTime,
) -> Result<AuthorizationStatus, PayerError> {
    let search = async |node| timeout(SEARCH_LIMIT, trace::search(node, nonce, since)).await.unwrap_or(Ok(None));
    let mut traces = nodes.as_they_answer(&search);
    let mut canceled: Vec<MinedIn> = Vec::new();
    while let Some(trace) = traces.next().await {
        match trace {
            Ok(Some(Trace::Used(transaction))) => {
                return Ok(AuthorizationStatus::Used { transaction: Some(transaction) });
            }
            Ok(Some(Trace::Canceled(_, at))) if !canceled.contains(&at) => canceled.push(at),
            // Refused logs, or logs that do not reach far enough back, say nothing about the payment.
            Ok(_) | Err(_) => {}
        }
    }
    for at in &canceled {
        if nodes.all_say(|node| was_canceled(node, final_after, nonce, at)).await {
            return Ok(AuthorizationStatus::Void);
        }
    }
    if canceled.is_empty() { Ok(AuthorizationStatus::Used { transaction: None }) } else { Err(CANCELED) }
}

/// Returns whether it was cancelled in that block, and the block still exists and is deep enough.
async fn was_canceled(node: &Node, final_after: u64, nonce: &Nonce, at: &MinedIn) -> Result<bool, Failure> {
    // Read the head before the block: a block mined in between makes it look shallower, never deeper.
    let is_deep = node.head().await?.number.checked_sub(at.number).is_some_and(|depth| depth >= final_after);
    if !is_deep || !node.block(at.number).await?.is_some_and(|block| at.is(&block)) {
        return Ok(false);
    }
    let trace = trace::in_block(node, nonce, at.number).await?;
    Ok(matches!(trace, Some(Trace::Canceled(_, found)) if found == *at))
}
