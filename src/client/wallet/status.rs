//! Determines the status of a payment from nodes that may lag, forget, lie, or disagree.
//!
//! Two results allow a second payment: `Reverted`, on the receipt of one of our transactions, and `Impossible`, on the
//! transaction of this account that used the nonce. Both need positive evidence in a deep block that still exists, from
//! every endpoint that answers. Absence proves nothing: nodes lag, and forget old receipts.

use std::time::Duration;

use tokio::time::timeout;

use super::{
    account::Account,
    nonce_search::{Search, search},
    relation::{Relation, relation},
    transaction::Sent,
};
use crate::{
    client::{PayerError, TransferStatus},
    evm::{
        receipt::Inclusion,
        wallet::node::{Failure, Node},
    },
    protocol::TxHash,
};

/// The time limit for searching one endpoint for what took a nonce.
const SEARCH_LIMIT: Duration = Duration::from_secs(60);

const DISAGREE: PayerError =
    PayerError::Unavailable("too few nodes answer, or they do not agree on what became of the payment");
const UNSEEN: PayerError =
    PayerError::Unavailable("the payment's nonce is used, but no node can show by what: ask one that keeps old state");

pub(super) async fn status(account: &Account, final_after: u64, sent: &[Sent]) -> Result<TransferStatus, PayerError> {
    let ours: Vec<TxHash> = sent.iter().rev().map(|sent| sent.hash).collect();
    // Receipts first: nothing else matters to a mined payment.
    if let Some(status) = by_receipt(account, final_after, &ours).await? {
        return Ok(status);
    }
    if let Some(status) = by_nonce(account, final_after, sent, &ours).await? {
        return Ok(status);
    }
    by_pool(account, &ours).await
}

/// One endpoint's view of mutually exclusive transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Absent,
    /// Not mined yet, or in a block that may vanish.
    Shallow,
    /// In an existing block with this many others on top.
    InBlock {
        transaction: TxHash,
        succeeded: bool,
        depth: u64,
    },
}

/// Returns the status by receipts; `None` if no endpoint that answers has one.
async fn by_receipt(
    account: &Account,
    final_after: u64,
    hashes: &[TxHash],
) -> Result<Option<TransferStatus>, PayerError> {
    let looks = account.key.nodes.each(|node| look(node, hashes)).await;
    let mut seen = None;
    let mut best = 0;
    for answer in looks.iter().flatten() {
        match *answer {
            // If one endpoint reports success, no other endpoint's answer allows another payment.
            Seen::InBlock { transaction, succeeded: true, depth } if depth >= best => {
                best = depth;
                seen = Some(TransferStatus::Mined { transaction, confirmations: depth.saturating_add(1) });
            }
            Seen::InBlock { transaction, succeeded: false, depth } if depth >= final_after => {
                seen = seen
                    .filter(|status| matches!(status, TransferStatus::Mined { .. }))
                    .or(Some(TransferStatus::Reverted { transaction }));
            }
            Seen::Absent => {}
            _ => seen = seen.or(Some(TransferStatus::Pending)),
        }
    }
    let Some(TransferStatus::Reverted { transaction }) = seen else {
        let heard = looks.iter().any(Result::is_ok);
        return match looks.into_iter().find_map(Result::err) {
            Some(failure) if !heard => Err(failure.into()),
            _ => Ok(seen),
        };
    };
    let hash = [transaction];
    let reverted = async |node| {
        let look = look(node, &hash).await?;
        Ok(matches!(look, Seen::InBlock { succeeded: false, depth, .. } if depth >= final_after))
    };
    if account.key.nodes.all_say(reverted).await { Ok(seen) } else { Err(DISAGREE) }
}

async fn look(node: &Node, hashes: &[TxHash]) -> Result<Seen, Failure> {
    // Read the head before the receipts: a block mined in between makes them look shallower, never deeper.
    let head = node.head().await?.number;
    let mut found = Seen::Absent;
    for hash in hashes {
        let Some(receipt) = node.receipt(*hash).await? else { continue };
        found = judged(node, head, *hash, receipt).await?;
        if matches!(found, Seen::InBlock { .. }) {
            break;
        }
    }
    Ok(found)
}

/// Evaluates a receipt, given the head that was read before it.
async fn judged(node: &Node, head: u64, transaction: TxHash, receipt: Inclusion) -> Result<Seen, Failure> {
    // Without a block it is announced, not mined.
    let Some(mined_in) = receipt.mined_in else { return Ok(Seen::Shallow) };
    let Some(depth) = head.checked_sub(mined_in.number) else { return Ok(Seen::Shallow) };
    let block = node.block(mined_in.number).await?;
    if !block.is_some_and(|block| mined_in.is(&block)) {
        return Ok(Seen::Shallow);
    }
    let succeeded = receipt.success.ok_or(Failure::Nonsense)?;
    Ok(Seen::InBlock { transaction, succeeded, depth })
}

/// Returns the status by the account's nonce, if that was used deep enough.
async fn by_nonce(
    account: &Account,
    final_after: u64,
    sent: &[Sent],
    ours: &[TxHash],
) -> Result<Option<TransferStatus>, PayerError> {
    let newest = sent.last().ok_or(PayerError::Foreign)?;
    let (address, chain_id) = (account.key.address, account.key.network.chain_id());
    let nonce = newest.transaction.nonce;
    let mut is_used = false;
    let mut taker = None;
    for node in account.key.nodes.in_order() {
        let look_for = |node| search(node, address, chain_id, nonce, final_after);
        match timeout(SEARCH_LIMIT, account.key.nodes.heard(node, &look_for)).await {
            Ok(Ok(Search::Taken(found))) => {
                taker = Some(found);
                break;
            }
            Ok(Ok(Search::Unseen)) => is_used = true,
            // Refused or slow old state says nothing about the payment.
            Ok(Ok(Search::Unused) | Err(_)) | Err(_) => {}
        }
    }
    let Some(taker) = taker else { return if is_used { Err(UNSEEN) } else { Ok(None) } };
    if ours.contains(&taker.hash) {
        return Err(PayerError::Unavailable("the payment is in a block, but no node has its receipt"));
    }
    let hash = [taker.hash];
    match relation(&newest.transaction, &taker) {
        Relation::Same => match by_receipt(account, final_after, &hash).await? {
            Some(status) => Ok(Some(status)),
            None => Err(PayerError::Unavailable("no node has a receipt of what took the payment's nonce")),
        },
        Relation::Unclear => Err(PayerError::Unavailable(
            "what took the payment's nonce may be this payment, or another: look at it by hand",
        )),
        Relation::Other => {
            let displaced = async |node| {
                let taken = look(node, &hash).await?;
                let is_deep = matches!(taken, Seen::InBlock { depth, .. } if depth >= final_after);
                Ok(is_deep && look(node, ours).await? == Seen::Absent)
            };
            if account.key.nodes.all_say(displaced).await {
                Ok(Some(TransferStatus::Impossible))
            } else {
                Err(DISAGREE)
            }
        }
    }
}

/// Returns the status by the pools: whether any endpoint knows the transaction.
async fn by_pool(account: &Account, ours: &[TxHash]) -> Result<TransferStatus, PayerError> {
    let known = async |node: &Node| {
        for hash in ours {
            if node.transaction(*hash).await?.is_some_and(|known| known.hash == *hash) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let answers: Vec<Result<bool, Failure>> = account.key.nodes.each(known).await;
    if answers.iter().flatten().any(|known| *known) {
        return Ok(TransferStatus::Pending);
    }
    let heard = answers.iter().any(Result::is_ok);
    match answers.into_iter().find_map(Result::err) {
        Some(failure) if !heard => Err(failure.into()),
        _ => Ok(TransferStatus::Unknown),
    }
}
