//! Permits: what is checked of one before it is tried, and what the chain says of one that may have been settled.

use std::time::Duration;

use super::{
    checks,
    core::Core,
    order::{GAS_MAX, Order},
};
use crate::{
    evm::{
        permit2,
        transaction::SignedTransaction,
        wallet::node::{Call, Failure, Node},
    },
    protocol::{
        Address, ChainTime, Network, TxHash,
        permit2::{PERMIT2, PermitScheme},
        v2::Reason,
    },
    settle::{PermitPayment, PermitState, PermitTerms, SettleError, SettleErrorKind, Validity},
};

/// How long a permit must be valid still, to be settled in time.
const SPARE: Duration = Duration::from_secs(6);

/// What a quote says of permits: where the contracts are, this account settles.
pub(super) async fn terms(
    core: &Core,
    network: Network,
    token: Address,
    scheme: PermitScheme,
) -> Result<Option<PermitTerms>, SettleError> {
    if network != core.account.network {
        return Err(SettleError::new(SettleErrorKind::WrongChain { network }));
    }
    for contract in [PERMIT2, scheme.proxy(), token] {
        if !core.account.nodes.first(|node| node.has_code(contract)).await? {
            return Ok(None);
        }
    }
    let facilitator = (scheme == PermitScheme::UpTo).then_some(core.account.address);
    Ok(Some(PermitTerms::new(facilitator)))
}

/// What can be told without asking anybody.
pub(super) fn misfit(core: &Core, payment: &PermitPayment) -> Option<Reason> {
    misdirected(core, payment).or_else(|| payment.paying_wrongly())
}

fn misdirected(core: &Core, payment: &PermitPayment) -> Option<Reason> {
    if payment.requirements.network() != core.account.network {
        return Some(Reason::INVALID_NETWORK);
    }
    payment.addressed_wrongly().or_else(|| {
        let facilitator = payment.permit.permit.facilitator;
        let is_another = facilitator.is_some_and(|facilitator| facilitator != core.account.address);
        is_another.then_some(Reason::UPTO_FACILITATOR_MISMATCH)
    })
}

/// Returns whether a payment could be settled now, to its whole amount: in the order of the standard.
pub(super) async fn verify(core: &Core, payment: &PermitPayment) -> Result<Validity, SettleError> {
    if let Some(reason) = misdirected(core, payment) {
        return Ok(Validity::Refused(reason));
    }
    let order = Order::of_permit(payment, payment.permit.permit.amount);
    // One that is on its way is valid, however little time is left.
    if core.flights.are_by(&order).is_none()
        && let Some(reason) = mistimed(core, payment).await?
    {
        return Ok(Validity::Refused(reason));
    }
    match payment.paying_wrongly() {
        Some(reason) => Ok(Validity::Refused(reason)),
        None => checks::verified(core, &order, payment.promised).await,
    }
}

/// Whether it is too early or too late, by the newest block.
async fn mistimed(core: &Core, payment: &PermitPayment) -> Result<Option<Reason>, Failure> {
    let now = head(core).await?;
    let permit = &payment.permit.permit;
    Ok(match &payment.allowance {
        _ if permit.deadline < now.after(SPARE) => Some(Reason::PERMIT2_DEADLINE_EXPIRED),
        _ if permit.valid_after > now => Some(Reason::PERMIT2_NOT_YET_VALID),
        Some(allowance) if allowance.deadline < now.after(SPARE) => Some(Reason::EIP2612_DEADLINE_EXPIRED),
        _ => None,
    })
}

/// The time of the newest block, asked for once in a while, because every permit that is shown, forged or not, asks.
async fn head(core: &Core) -> Result<ChainTime, Failure> {
    if let Some(known) = core.head.get(&()) {
        return Ok(known);
    }
    let time = core.account.nodes.first(Node::head).await?.time;
    core.head.set((), time);
    Ok(time)
}

/// What the chain says of a payment that may have been settled: first by the transaction that was recorded for it.
pub(super) async fn state(
    core: &Core,
    payment: &PermitPayment,
    recorded: Option<TxHash>,
) -> Result<PermitState, SettleError> {
    if payment.requirements.network() != core.account.network {
        return Err(SettleError::new(SettleErrorKind::WrongChain { network: payment.requirements.network() }));
    }
    let sent = match recorded {
        Some(hash) => look_up(core, payment, hash).await?,
        None => Found::Nothing,
    };
    if let Found::Settled(state) = sent {
        return Ok(state);
    }
    let order = Order::of_permit(payment, payment.permit.permit.amount);
    let (state, nodes) = (order.state(), &core.account.nodes);
    let call = Call { from: order.payer, to: order.keeper(), data: &state, gas: GAS_MAX, fees: None };
    let used = async |node: &Node| {
        let returned = node.run(&call, "latest").await?;
        returned.ok().and_then(|returned| order.read_state(&returned)).ok_or(Failure::Nonsense)
    };
    let told: Vec<bool> = nodes.each(used).await.into_iter().flatten().collect();
    Ok(match (told.is_empty(), told.contains(&true), sent, recorded) {
        (true, ..) => return Err(SettleError::unavailable()),
        (_, true, ..) => PermitState::Used,
        (_, false, Found::Waiting, Some(hash)) => PermitState::Pending(hash),
        _ if nodes.all_say(async |node| Ok(!used(node).await?)).await => PermitState::Unused,
        _ => PermitState::Unknown,
    })
}

/// What became of the recorded transaction.
enum Found {
    /// It settled the payment.
    Settled(PermitState),
    /// It is known, and in no block.
    Waiting,
    /// No node knows it, or it is mined and did not settle the payment.
    Nothing,
}

/// Looks a transaction up. What it charged is proven by its hash; that it succeeded, the receipt says.
async fn look_up(core: &Core, payment: &PermitPayment, hash: TxHash) -> Result<Found, Failure> {
    let receipts = core.account.nodes.each(|node| node.receipt(hash)).await;
    let mined = receipts.iter().flatten().flatten().find(|receipt| receipt.mined_in.is_some());
    if mined.is_some_and(|receipt| receipt.success != Some(true)) {
        return Ok(Found::Nothing);
    }
    if receipts.iter().all(Result::is_err) {
        return Err(Failure::Silence);
    }
    let told = core.account.nodes.each(|node| node.signed_transaction(hash)).await;
    let Some(transaction) = told.into_iter().flatten().flatten().next() else { return Ok(Found::Nothing) };
    if mined.is_none() {
        return Ok(Found::Waiting);
    }
    Ok(match charge(payment, &transaction) {
        Some(charge) => Found::Settled(PermitState::Settled { transaction: hash, charge }),
        None => Found::Nothing,
    })
}

fn charge(payment: &PermitPayment, transaction: &SignedTransaction) -> Option<crate::protocol::Amount> {
    permit2::charged(&payment.permit.permit, transaction.to()?, transaction.input())
}
