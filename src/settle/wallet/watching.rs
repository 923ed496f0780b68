//! Watches the transactions of one nonce until one of them is mined. It resends them, replaces a stuck one, and fills
//! the nonce if the payment has become impossible, so that no later transaction waits forever.

use std::time::Duration;

use alloy::consensus::TxEip1559;
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::{
    checks,
    core::{BLOCK_TIME, Core, Held},
    flights::Flight,
    gaps,
    order::Order,
    patience::Patience,
    trial,
};
use crate::{
    evm::{
        receipt::Inclusion,
        wallet::{
            account::Signed,
            fees::Fees,
            node::{Failure, Node, hex},
        },
    },
    protocol::{TxHash, v2::Reason},
    settle::{Settlement, TransactionRecorder},
};

/// A transaction that was sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    transaction: TxEip1559,
    signed: Signed,
    /// Whether it settles the payment; otherwise it only fills the nonce.
    settles: bool,
    at: Instant,
}

impl Sent {
    pub(super) fn new(transaction: TxEip1559, signed: Signed, settles: bool) -> Self {
        Self { transaction, signed, settles, at: Instant::now() }
    }

    fn fees(&self) -> Fees {
        Fees { most: self.transaction.max_fee_per_gas, tip: self.transaction.max_priority_fee_per_gas }
    }
}

/// What the nodes know about a nonce.
enum Look {
    /// This transaction settled the payment.
    Settled(TxHash),
    /// Something else used the nonce.
    Spent,
    /// A transaction for the payment used the nonce, and failed.
    Reverted,
    /// No majority of the nodes that answered reports the nonce as used. `open` is the account's lowest open nonce, if the nodes
    /// agree on one. `is_disputed` says whether exactly half of them report this nonce as used.
    Waiting { open: Option<u64>, is_disputed: bool },
}

pub(super) async fn watch(
    core: &Core,
    order: &Order,
    flight: &Flight,
    recorder: &TransactionRecorder,
    sent: &mut Vec<Sent>,
    held: &Held<'_>,
) -> Settlement {
    let start = Instant::now();
    // How long the nonce has been used by something else, or disputed.
    let mut spent: Option<Patience> = None;
    loop {
        sleep(pause(start.elapsed())).await;
        match look(core, sent, held.nonce).await {
            Look::Settled(transaction) => return Settlement::Settled(transaction),
            look @ (Look::Spent | Look::Reverted) => {
                if let Some(outcome) = outcome(core, order, sent, held.nonce).await {
                    return outcome;
                }
                // Nodes that disagree occupy its place only for a while. Later the payment's own nonce shows the
                // outcome.
                if is_over(core, &mut spent).await {
                    if matches!(look, Look::Reverted) && !may_be_paid(core, order).await {
                        remember(core, order).await;
                    }
                    return Settlement::Unknown(newest(sent));
                }
            }
            Look::Waiting { open, is_disputed } => {
                match is_disputed {
                    true if is_over(core, &mut spent).await => return Settlement::Unknown(newest(sent)),
                    true => {}
                    false => spent = None,
                }
                core.account.used(held.nonce);
                if let Some(next) = hurried(core, order, recorder, sent, open).await {
                    flight.sent(next.signed.hash);
                    sent.push(next);
                } else if let Some(newest) = sent.last_mut().filter(|newest| is_stuck(core, newest)) {
                    // Resend it instead.
                    newest.at = Instant::now();
                    let _ = core.account.send(held.nonce, &newest.signed).await;
                }
            }
        }
    }
}

/// Returns whether the wait, which begins with the first call, has been long enough.
async fn is_over(core: &Core, since: &mut Option<Patience>) -> bool {
    let patience = match since {
        Some(patience) => patience,
        none => none.insert(Patience::begin(core).await),
    };
    patience.is_over(core).await
}

/// Watches the settling transaction until its block is believed to stay. If a reorganisation removes it, it is sent
/// again, because the answer was delivered for it. Returns `false` if the nodes do not show in time whether it stays or
/// is lost.
pub(super) async fn keep(core: &Core, sent: &[Sent], held: &Held<'_>) -> bool {
    Patience::begin(core).await.within(core, until_deep(core, sent, held)).await.is_some()
}

async fn until_deep(core: &Core, sent: &[Sent], held: &Held<'_>) {
    let blocks = u32::try_from(core.policy.final_after).unwrap_or(u32::MAX).saturating_add(1);
    loop {
        sleep(BLOCK_TIME.saturating_mul(blocks)).await;
        let (mined, heard) = witnesses(core, sent).await;
        let is_deep = async |node| Ok(deep(core, node, held.nonce).await?.is_some());
        if core.account.nodes.all_say(is_deep).await {
            if mined == 0 {
                warn!(
                    nonce = held.nonce,
                    "a settlement was removed by a reorganisation, and its nonce is used by something else"
                );
            }
            return;
        }
        if let Some(newest) = sent.iter().rev().find(|one| one.settles).filter(|_| mined * 2 <= heard) {
            warn!(transaction = %newest.signed.hash, "a settlement is in no block of most nodes; it is sent again");
            let _ = core.account.send(held.nonce, &newest.signed).await;
        }
    }
}

/// Returns the pause before the next look. Base has a block every two seconds.
fn pause(waited: Duration) -> Duration {
    Duration::from_millis(match waited.as_secs() {
        0..10 => 500,
        10..60 => 1_000,
        _ => 5_000,
    })
}

fn is_stuck(core: &Core, newest: &Sent) -> bool {
    newest.at.elapsed() >= core.policy.replace_after
}

async fn look(core: &Core, sent: &[Sent], nonce: u64) -> Look {
    if let Some(look) = receipts(core, sent).await {
        return look;
    }
    let counts = core.account.nodes.each(|node| node.counted(core.account.address)).await;
    let counts: Vec<_> = counts.into_iter().flatten().collect();
    // One node that counts too high must not stop a transaction from being sent again.
    let using = core.account.using(&counts, nonce);
    match using * 2 > counts.len() {
        true => Look::Spent,
        false => {
            Look::Waiting { open: core.account.open(&counts), is_disputed: using > 0 && using * 2 == counts.len() }
        }
    }
}

/// Returns how many nodes have a receipt of success for a settling transaction, and how many answered. Of several transactions
/// it takes the one with the most receipts.
async fn witnesses(core: &Core, sent: &[Sent]) -> (usize, usize) {
    let mut most = (0, 0);
    for one in sent.iter().rev().filter(|one| one.settles) {
        let told = core.account.nodes.each(|node| node.receipt(one.signed.hash)).await;
        let heard: Vec<_> = told.into_iter().flatten().collect();
        let settled = |receipt: &&Inclusion| receipt.mined_in.is_some() && receipt.success == Some(true);
        most = most.max((heard.iter().flatten().filter(settled).count(), heard.len()));
    }
    most
}

/// Returns what receipts show; `None` if there is none.
async fn receipts(core: &Core, sent: &[Sent]) -> Option<Look> {
    let mut found = None;
    for one in sent.iter().rev() {
        let told = core.account.nodes.each(|node| node.receipt(one.signed.hash)).await;
        for receipt in told.into_iter().flatten().flatten().filter(|receipt| receipt.mined_in.is_some()) {
            core.account.mined(one.transaction.nonce);
            match receipt.success {
                Some(true) if one.settles => return Some(Look::Settled(one.signed.hash)),
                Some(false) if one.settles => found = Some(Look::Reverted),
                _ => _ = found.get_or_insert(Look::Spent),
            }
        }
    }
    found
}

/// Returns the payment's outcome once something else used its nonce in a block that stays; `None` while that is
/// uncertain.
async fn outcome(core: &Core, order: &Order, sent: &[Sent], nonce: u64) -> Option<Settlement> {
    let nodes = &core.account.nodes;
    let spent = async |node| Ok(deep(core, node, nonce).await?.is_some());
    if !nodes.all_say(spent).await {
        return None;
    }
    // It may have been mined since the last look at the receipts.
    let reverted = match receipts(core, sent).await {
        Some(Look::Settled(transaction)) => return Some(Settlement::Settled(transaction)),
        Some(Look::Reverted) => true,
        _ => false,
    };
    // If in one state the account's nonce is used and the payment's is not, no transaction for it can be mined any
    // more.
    let unused = async |node| {
        let Some(at) = deep(core, node, nonce).await? else { return Ok(false) };
        Ok(trial::is_used(order, node, &at).await? == Some(false))
    };
    Some(if nodes.all_say(unused).await {
        if reverted {
            remember(core, order).await;
        }
        Settlement::Refused(Reason::INVALID_TRANSACTION_STATE)
    } else {
        Settlement::Unknown(newest(sent))
    })
}

/// Returns the last transaction that was sent for the payment.
fn newest(sent: &[Sent]) -> Option<TxHash> {
    sent.iter().rev().find(|one| one.settles).map(|one| one.signed.hash)
}

/// Returns whether a node reports the payment's nonce as used, or none reports it as unused. Another sender's identical
/// call may have been first: then ours failed, and the payer has paid.
async fn may_be_paid(core: &Core, order: &Order) -> bool {
    let told = core.account.nodes.each(|node| trial::is_used(order, node, "latest")).await;
    let mut told = told.into_iter().flatten().flatten().peekable();
    told.peek().is_none() || told.any(|is_used| is_used)
}

/// Remembers a payer with code that let the trial succeed and the transaction fail.
async fn remember(core: &Core, order: &Order) {
    let payer = order.payer;
    if order.method.is_payers() && checks::has_code(core, payer).await.unwrap_or(!order.is_by_key) {
        warn!(%payer, "the payment of an account with code reverted; it is refused for six hours");
        core.reverted.set(payer, ());
    }
}

/// Returns the height that is believed to stay, if the nonce is used there.
async fn deep(core: &Core, node: &Node, nonce: u64) -> Result<Option<String>, Failure> {
    let Some(height) = node.head().await?.number.checked_sub(core.policy.final_after) else { return Ok(None) };
    Ok((node.count_at(core.account.address, height).await? > nonce).then(|| hex(height)))
}

/// Replaces a stuck transaction with the same call at a higher fee, or with an empty one if the payment can no longer
/// settle. Returns `None` if there is nothing to replace, or if it would cost too much.
async fn hurried(
    core: &Core,
    order: &Order,
    recorder: &TransactionRecorder,
    sent: &[Sent],
    open: Option<u64>,
) -> Option<Sent> {
    let newest = sent.last().filter(|newest| is_stuck(core, newest))?;
    let nonce = newest.transaction.nonce;
    if let Some(open) = open {
        gaps::fill(core, open, nonce).await;
    }
    let now = core.account.fees().await.ok()?;
    let settles = newest.settles && !trial::is_dead(core, order).await;
    let last = newest.fees();
    // Its fees suffice, so it waits for something else.
    if settles == newest.settles && now.most <= last.most && now.tip <= last.tip {
        return None;
    }
    let fees = now.or_higher(last.raised());
    if fees.most > core.policy.max_fee_per_gas {
        return None;
    }
    let mut transaction = if settles { newest.transaction.clone() } else { core.filler(nonce, fees) };
    (transaction.max_fee_per_gas, transaction.max_priority_fee_per_gas) = (fees.most, fees.tip);
    let signed = core.account.sign(transaction.clone()).await?;
    // If this record cannot be written, the first one stays; its lease may have run out by now.
    let _ = settles && recorder.record(signed.hash).await;
    let _ = core.account.send(nonce, &signed).await;
    Some(Sent::new(transaction, signed, settles))
}

#[cfg(test)]
mod tests;
