//! What became of a payment, by a node that may lag, forget, or be several that disagree.
//!
//! Two answers allow a second payment, and are given only on something seen: `Reverted` on the receipt of one of ours,
//! `Impossible` on the transaction of somebody else that used the nonce; each in a block that is still there, and deep.
//! That something is *not* found proves nothing: nodes lag, and forget old receipts.

use super::{
    Fate, WalletPayer,
    node::{Failure, Node, TxReceipt},
    transaction::Sent,
};
use crate::{
    client::PayerError,
    protocol::{Address, TxHash},
};

pub(super) async fn fate(wallet: &WalletPayer, sent: &[Sent]) -> Result<Fate, PayerError> {
    let node = &wallet.shared.node;
    // The head before the receipts: what is mined in between looks shallower than it is, never deeper.
    let head = node.head().await?.number.small()?;
    let used_at = used_at(wallet, sent, head).await?;
    for ours in sent.iter().rev() {
        if let Some(receipt) = node.receipt(ours.hash).await? {
            let fate = judged(wallet, head, ours.hash, &receipt).await?;
            if matches!(fate, Fate::Reverted { .. }) {
                same_chain(wallet).await?;
            }
            return Ok(fate);
        }
    }
    if let Some(deep) = used_at {
        let taker = taker(wallet, sent, deep).await?;
        same_chain(wallet).await?;
        let Some(same) = taker else { return Ok(Fate::Impossible) };
        let receipt = node.receipt(same).await?;
        let receipt =
            receipt.ok_or(PayerError::Unavailable("the node has no receipt of what took the payment's nonce"))?;
        return judged(wallet, head, same, &receipt).await;
    }
    for ours in sent.iter().rev() {
        if node.transaction(ours.hash).await?.is_some_and(|known| known.hash == ours.hash) {
            return Ok(Fate::Pending);
        }
    }
    Ok(Fate::Unknown)
}

/// The deepest block that counts, if the nonce was used by then.
async fn used_at(wallet: &WalletPayer, sent: &[Sent], head: u64) -> Result<Option<u64>, PayerError> {
    let (Some(deep), Some(nonce)) = (head.checked_sub(wallet.final_after), nonce(sent)) else { return Ok(None) };
    match wallet.shared.node.count_at(wallet.shared.address, deep).await {
        Ok(count) if count > nonce => Ok(Some(deep)),
        // A node that has no state of that height can still know the receipts.
        Ok(_) | Err(Failure::Refusal(_)) => Ok(None),
        Err(failure) => Err(failure.into()),
    }
}

/// What a receipt says, given the head that was read before it.
async fn judged(wallet: &WalletPayer, head: u64, hash: TxHash, receipt: &TxReceipt) -> Result<Fate, PayerError> {
    if receipt.transaction_hash != hash {
        return Err(PayerError::Unavailable("the node gave the receipt of another transaction"));
    }
    // Without a block: announced, not mined.
    let (Some(number), Some(in_block)) = (receipt.block_number, receipt.block_hash) else { return Ok(Fate::Pending) };
    let number = number.small()?;
    let Some(depth) = head.checked_sub(number) else { return Ok(Fate::Pending) };
    let block = wallet.shared.node.block(number).await?;
    if !block.is_some_and(|block| block.hash == in_block && block.number.0 == u128::from(number)) {
        return Ok(Fate::Pending);
    }
    match receipt.status.map(|status| status.0) {
        Some(1) => Ok(Fate::Mined { transaction: hash, confirmations: depth.saturating_add(1) }),
        Some(0) if depth >= wallet.final_after => Ok(Fate::Reverted { transaction: hash }),
        Some(0) => Ok(Fate::Pending),
        _ => Err(PayerError::Unavailable("the node's receipt does not say whether the payment succeeded")),
    }
}

/// What used the nonce, by block `deep`: `None` if it is another transaction altogether, its hash if it makes the same
/// transfer (hurried by hand, or by a journal that was lost).
async fn taker(wallet: &WalletPayer, sent: &[Sent], deep: u64) -> Result<Option<TxHash>, PayerError> {
    let unseen = PayerError::Unavailable(
        "the payment's nonce is used, but the node cannot show by what: ask one that keeps old state",
    );
    let Some(nonce) = nonce(sent) else { return Err(unseen) };
    let (node, account) = (&wallet.shared.node, wallet.shared.address);
    let number = match block_of(node, account, nonce, deep).await {
        Ok(Some(number)) => number,
        Ok(None) | Err(Failure::Refusal(_) | Failure::Nonsense) => return Err(unseen),
        Err(failure) => return Err(failure.into()),
    };
    let block = match node.full_block(number).await {
        Ok(block) => block.filter(|block| block.number.0 == u128::from(number)),
        Err(failure) => return Err(failure.into()),
    };
    let transactions = block.map(|block| block.transactions).unwrap_or_default();
    let taker = transactions.iter().find(|other| other.from == account && other.nonce.0 == u128::from(nonce));
    match taker {
        Some(other) if sent.iter().any(|ours| ours.hash == other.hash) => {
            Err(PayerError::Unavailable("the payment is in a block, but the node has no receipt of it"))
        }
        Some(other) if sent.iter().any(|ours| ours.says_what(other)) => Ok(Some(other.hash)),
        Some(_) => Ok(None),
        None => Err(unseen),
    }
}

/// The block in which the account's nonce was used, at or below `deep`: looked for near by first, where nodes still
/// have the state, then by halves.
async fn block_of(node: &Node, account: Address, nonce: u64, deep: u64) -> Result<Option<u64>, Failure> {
    // Used by `used`, not yet by `before`.
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

/// Behind the same address there must still be the same chain, or its nonces are of no meaning here.
async fn same_chain(wallet: &WalletPayer) -> Result<(), PayerError> {
    if wallet.shared.node.chain_id().await? == wallet.shared.network.chain_id() {
        return Ok(());
    }
    Err(PayerError::Unavailable("the node now serves another chain"))
}

fn nonce(sent: &[Sent]) -> Option<u64> {
    sent.first().map(|sent| sent.transaction.nonce)
}
