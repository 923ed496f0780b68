//! Sends signed transactions, and tells apart why nodes do not take them.

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use serde_json::json;

use super::{
    node::{Failure, Node},
    nodes::Nodes,
};
use crate::protocol::TxHash;

/// Why no node took a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendFault {
    /// No answer came, or not in time: it may have been taken.
    Silence,
    /// The answer has another shape than it should: it may have been taken.
    Nonsense,
    /// The node named another transaction.
    OtherName,
    /// The nonce is used.
    NonceUsed,
    /// The account has too little ether for the fee.
    Funds,
    /// The fee is too low by now, or too high for this node.
    Fee,
    /// Refused, for another reason.
    Refused,
}

impl SendFault {
    /// Whether the node said that it did not take it.
    pub(crate) const fn is_refusal(self) -> bool {
        matches!(self, Self::NonceUsed | Self::Funds | Self::Fee | Self::Refused)
    }
}

/// Sends to every endpoint at once. That it is known already is as good as taken.
pub(super) async fn send(nodes: &Nodes, raw: &str, hash: TxHash) -> Result<(), SendFault> {
    let mut sendings: FuturesUnordered<_> = nodes.in_order().map(|node| send_to(node, raw, hash)).collect();
    let mut failed: Option<SendFault> = None;
    while let Some(outcome) = sendings.next().await {
        match outcome {
            Ok(()) => return Ok(()),
            // A refusal says more than a silence.
            Err(fault) if fault.is_refusal() => failed = Some(fault),
            Err(fault) => failed = failed.or(Some(fault)),
        }
    }
    Err(failed.unwrap_or(SendFault::Silence))
}

async fn send_to(node: &Node, raw: &str, hash: TxHash) -> Result<(), SendFault> {
    let refused = match node.ask::<TxHash>("eth_sendRawTransaction", json!([raw])).await {
        Ok(sent) if sent == hash => return Ok(()),
        Ok(_) => return Err(SendFault::OtherName),
        Err(Failure::Refusal(refused)) => refused,
        Err(Failure::Silence) => return Err(SendFault::Silence),
        Err(Failure::Nonsense) => return Err(SendFault::Nonsense),
    };
    if refused.says(&["already known", "alreadyknown", "already imported", "already in mempool", "known transaction"]) {
        return Ok(());
    }
    Err(if refused.says(&["nonce too low", "oldnonce"]) {
        SendFault::NonceUsed
    } else if refused.says(&["insufficient funds"]) {
        SendFault::Funds
    } else if refused.says(&["underpriced", "fee too low", "fee cap"]) {
        SendFault::Fee
    } else {
        SendFault::Refused
    })
}
