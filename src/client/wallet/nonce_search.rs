//! Searches one endpoint for the transaction that used a nonce, and verifies its signature.

use super::relation::Proven;
use crate::{
    evm::wallet::node::{Failure, Node, Transaction},
    protocol::Address,
};

/// One endpoint's view of a nonce.
pub(super) enum Search {
    /// It is unused, or not used deep enough, or the endpoint does not say.
    Unused,
    /// It is used, but the endpoint cannot show by which transaction.
    Unseen,
    /// This transaction used it. All endpoints must be asked for its block, and whether that exists.
    Taken(Proven),
}

/// Searches for the use of the account's nonce in a deep enough block.
pub(super) async fn search(
    node: &Node,
    account: Address,
    chain_id: u64,
    nonce: u64,
    final_after: u64,
) -> Result<Search, Failure> {
    let head = node.head().await?.number;
    let Some(deep) = head.checked_sub(final_after) else { return Ok(Search::Unused) };
    if node.count_at(account, deep).await? <= nonce {
        return Ok(Search::Unused);
    }
    // The nonce is known to be used from here on: a node that refuses older state, or lacks the block, cannot show by
    // which transaction.
    let Ok(Some(number)) = block_of(node, account, nonce, deep).await else { return Ok(Search::Unseen) };
    let Ok(Some(block)) = node.full_block(number).await else { return Ok(Search::Unseen) };
    let is_it = |told: &Transaction| told.from == account && told.nonce.0 == u128::from(nonce);
    let mut candidates =
        block.transactions.iter().filter(|json| serde_json::from_str(json.get()).is_ok_and(|told| is_it(&told)));
    let taker = candidates.find_map(|json| Proven::read(json.get(), account, chain_id, nonce));
    Ok(taker.map_or(Search::Unseen, Search::Taken))
}

/// Returns the block in which the account's nonce was used, at or below `deep`. It searches backwards in growing steps
/// first, because nodes have recent state, and then by bisection.
async fn block_of(node: &Node, account: Address, nonce: u64, deep: u64) -> Result<Option<u64>, Failure> {
    // Used at block `used`, not yet at block `before`.
    let (mut used, mut step) = (deep, 1);
    let mut before = loop {
        let Some(earlier) = used.checked_sub(step) else { break None };
        if node.count_at(account, earlier).await? <= nonce {
            break Some(earlier);
        }
        (used, step) = (earlier, step * 2);
    };
    if before.is_none() && used > 0 && node.count_at(account, 0).await? <= nonce {
        before = Some(0);
    }
    let Some(mut before) = before else { return Ok(None) };
    while used - before > 1 {
        let middle = before + (used - before) / 2;
        if node.count_at(account, middle).await? > nonce {
            used = middle;
        } else {
            before = middle;
        }
    }
    Ok(Some(used))
}
