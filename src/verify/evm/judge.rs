//! `judge`: transaction, receipt, block, head, terms and policy in, verdict out. No I/O, no clock, no cache, no panic.

use std::{collections::HashSet, sync::Arc, time::Duration};

use super::view::{Block, Log, Transaction, TxReceipt, TxRecord};
use crate::{
    evm::{
        eip3009::AUTHORIZATION_USED_TOPIC,
        erc20::TRANSFER_TOPIC,
        proxy::UsedPermit,
        settled::{SETTLED_TOPICS, is_proxy},
    },
    protocol::{Address, Amount, Binding, ByPermit, Terms, Transfer, TxHash, channel::BATCH_SETTLEMENT},
    verify::Verdict,
};

/// The chain's current head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tip {
    /// The latest sealed block.
    pub(super) head: Block,
    /// The highest block that is deep enough; `None` while none is.
    pub(super) confirmed: Option<u64>,
}

/// The operator's rules beyond the terms.
#[derive(Clone, Debug, Default)]
pub(super) struct Policy {
    /// Senders of transfers that are never payments: a treasury, a bridge, a faucet.
    pub(super) deny: HashSet<Address>,
    /// When a client that is too early should ask again.
    pub(super) retry_after: Duration,
}

/// Returns the verdict of the chain on `transaction`.
///
/// `canonical` is the sealed block at the height that the receipt names, if there is one. Until it is the receipt's own
/// and deep enough, nothing else in the receipt counts: a preconfirmed or orphaned receipt of a failure may yet be
/// mined as a payment.
pub(super) fn judge(
    transaction: TxHash,
    record: &TxRecord,
    canonical: Option<&Block>,
    tip: &Tip,
    terms: &Terms,
    policy: &Policy,
) -> Verdict {
    let receipt = &record.receipt;
    let Some(block) = settled(transaction, receipt, canonical, tip) else {
        return Verdict::NotConfirmed { retry_after: policy.retry_after };
    };
    if block.time.after(terms.max_payment_age()) < tip.head.time {
        return Verdict::TooOld;
    }
    if receipt.success != Some(true) {
        return Verdict::NoTransfer;
    }
    let (paid, short): (Vec<_>, Vec<_>) = transfers(record, transaction, block, terms, policy)
        .partition(|transfer| transfer.amount >= terms.amount() && !transfer.amount.is_zero());
    match short.iter().map(|transfer| transfer.amount).max() {
        _ if !paid.is_empty() => Verdict::Paid { transfers: paid, head: tip.head.time },
        Some(paid) => Verdict::Insufficient { paid },
        None => Verdict::NoTransfer,
    }
}

/// Returns the receipt's block, if the receipt is of this transaction, consistent, and deep enough in the canonical
/// chain.
fn settled<'a>(transaction: TxHash, receipt: &TxReceipt, canonical: Option<&'a Block>, tip: &Tip) -> Option<&'a Block> {
    let block = canonical.filter(|block| receipt.is_of(block))?;
    let deep_enough = tip.confirmed.is_some_and(|highest| block.number <= highest);
    (receipt.transaction == transaction && deep_enough).then_some(block)
}

/// Returns all transfers of accepted tokens to the recipient from another account, each with its binding.
fn transfers<'a>(
    record: &'a TxRecord,
    transaction: TxHash,
    block: &'a Block,
    terms: &'a Terms,
    policy: &'a Policy,
) -> impl Iterator<Item = Transfer> + 'a {
    let TxRecord { receipt, transaction: Transaction { sender, call_data, permit } } = record;
    // The call data is searched once, however many transfers there are.
    let call_data = call_data.as_ref().map_or(Binding::none(), |data| Binding::none().with_call_data(Arc::clone(data)));
    let before = std::iter::once(None).chain(receipt.logs.iter().map(Some));
    before.zip(&receipt.logs).enumerate().filter_map(move |(at, (before, log))| {
        let transfer = payment(log, transaction, block, terms, policy)?;
        // A tag in another account's transaction, such as a relay's or a bundler's, was not put there by the payer.
        let signed = if transfer.payer == *sender { call_data.clone() } else { Binding::none() };
        let nonce = before.and_then(|before| authorization(before, log, transfer.payer));
        let behind = receipt.logs.get(at + 1..).unwrap_or_default();
        // A transfer from an authorization has that authorization's id, whatever else its payer does.
        let permit = nonce.is_none().then(|| permit_of(log, behind, transfer.payer, *permit)).flatten();
        let binding = nonce.into_iter().fold(signed, Binding::with_nonce);
        Some(transfer.with_binding(permit.into_iter().fold(binding, Binding::with_permit)))
    })
}

/// Returns the nonce of the payer's authorization, if the transfer was made from one: then the log directly before it,
/// of the same contract, reports its use.
fn authorization(before: &Log, transfer: &Log, payer: Address) -> Option<[u8; 32]> {
    let directly = before.position.checked_add(1) == Some(transfer.position) && before.emitter == transfer.emitter;
    let [signature, authorizer, nonce] = before.topics.as_slice() else { return None };
    let is_used = *signature == AUTHORIZATION_USED_TOPIC && before.data.is_empty();
    (directly && is_used && address(authorizer)? == payer).then_some(*nonce)
}

/// Returns the permit of the transfer, if a log of a proxy directly after it reports a settlement. Between the two
/// there may be further transfers of the same token by the same payer, such as a token's fee. Such a transfer pays by
/// the permit alone, and so does the payer's transfer before it.
fn permit_of(transfer: &Log, behind: &[Log], payer: Address, used: Option<UsedPermit>) -> Option<ByPermit> {
    let is_same =
        |log: &&Log| log.emitter == transfer.emitter && erc20_transfer(log).is_some_and(|(from, _, _)| from == payer);
    let next = behind.iter().find(|log| !is_same(log))?;
    let [topic] = next.topics.as_slice() else { return None };
    (is_proxy(next.emitter) && SETTLED_TOPICS.contains(topic)).then_some(())?;
    Some(match used.filter(|used| used.owner == payer) {
        Some(UsedPermit { nonce, .. }) => ByPermit::Nonce(nonce),
        None => ByPermit::Untold,
    })
}

/// Returns this log's transfer of an accepted token to the recipient from another account, of any amount.
fn payment(log: &Log, transaction: TxHash, block: &Block, terms: &Terms, policy: &Policy) -> Option<Transfer> {
    let network = terms.network();
    let accepted = terms.assets().iter().any(|asset| asset.contract() == log.emitter && asset.network() == network);
    let (payer, recipient, amount) = erc20_transfer(log).filter(|_| accepted)?;
    // Transfers from the channel contract pay out what was sold before.
    let foreign = ![Address::ZERO, recipient, BATCH_SETTLEMENT].contains(&payer) && !policy.deny.contains(&payer);
    (recipient == terms.recipient() && foreign).then_some(
        Transfer::new(network, transaction, log.position)
            .with_token(log.emitter)
            .with_payer(payer)
            .with_recipient(recipient)
            .with_amount(amount)
            .with_block(block.number, block.time),
    )
}

/// Exactly `Transfer(address indexed from, address indexed to, uint256 value)`: an NFT's has four topics.
fn erc20_transfer(log: &Log) -> Option<(Address, Address, Amount)> {
    let [signature, from, to] = log.topics.as_slice() else { return None };
    let value: [u8; 32] = log.data.as_slice().try_into().ok()?;
    (*signature == TRANSFER_TOPIC).then_some(())?;
    Some((address(from)?, address(to)?, Amount::from_be_bytes(value)))
}

/// Returns the address in a topic, if its twelve bytes of padding are zero.
fn address(topic: &[u8; 32]) -> Option<Address> {
    let (padding, address) = topic.split_first_chunk::<12>()?;
    (*padding == [0; 12]).then_some(Address::new(address.try_into().ok()?))
}

#[cfg(test)]
mod tests;
