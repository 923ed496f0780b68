//! Sends signed transactions, and distinguishes why nodes refuse them.

use std::{future::ready, sync::Arc};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use serde_json::json;

use super::{
    node::{Failure, Node},
    nodes::Nodes,
};
use crate::protocol::TxHash;

/// Why no node accepted a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendFault {
    /// No answer came in time: the transaction may have been accepted.
    Silence,
    /// The answer has an unexpected shape: the transaction may have been accepted.
    Nonsense,
    /// The node returned the hash of another transaction.
    OtherName,
    /// The nonce is used.
    NonceUsed,
    /// The account has too little ether for the fee.
    Funds,
    /// The fee has become too low, or is too high for this node.
    Fee,
    /// Another refusal.
    Refused,
}

impl SendFault {
    /// Whether the node said that it did not accept the transaction.
    pub(crate) const fn is_refusal(self) -> bool {
        matches!(self, Self::NonceUsed | Self::Funds | Self::Fee | Self::Refused)
    }
}

/// Sends to every endpoint at once. An endpoint that already knows the transaction counts as having accepted it.
pub(super) async fn send(nodes: &Nodes, raw: &str, hash: TxHash) -> Result<(), SendFault> {
    let raw: Arc<str> = raw.into();
    let send = |node: &Arc<Node>| send_to(Arc::clone(node), Arc::clone(&raw), hash);
    let mut sendings: FuturesUnordered<_> = nodes.in_order().map(send).collect();
    let mut failed: Option<SendFault> = None;
    while let Some(outcome) = sendings.next().await {
        match outcome {
            Ok(()) => {
                // The node may lie, and not forward the transaction. So the other nodes get it as well.
                if !sendings.is_empty() {
                    tokio::spawn(sendings.for_each(|_| ready(())));
                }
                return Ok(());
            }
            // A refusal is more informative than a silence.
            Err(fault) if fault.is_refusal() => failed = Some(fault),
            Err(fault) => failed = failed.or(Some(fault)),
        }
    }
    Err(failed.unwrap_or(SendFault::Silence))
}

async fn send_to(node: Arc<Node>, raw: Arc<str>, hash: TxHash) -> Result<(), SendFault> {
    let refused = match node.ask::<TxHash>("eth_sendRawTransaction", json!([&*raw])).await {
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
