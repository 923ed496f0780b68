//! Permits: what is checked of one before it is tried, and what the chain says of one that may have been settled.

use std::time::Duration;

use super::{checks, core::Core, order::Order};
use crate::{
    evm::wallet::node::{Failure, Node},
    protocol::{
        Address, ChainTime, Network,
        permit2::{PERMIT2, PermitScheme},
        v2::Reason,
    },
    settle::{PermitPayment, PermitTerms, SettleError, SettleErrorKind, Validity},
};

/// How long what is signed must still be valid, to be settled in time.
pub(super) const SPARE: Duration = Duration::from_secs(6);

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
    if !core.account.nodes.are_contracts(&[PERMIT2, scheme.proxy(), token]).await? {
        return Ok(None);
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
pub(super) async fn head(core: &Core) -> Result<ChainTime, Failure> {
    if let Some(known) = core.head.get(&()) {
        return Ok(known);
    }
    let time = core.account.nodes.first(Node::head).await?.time;
    core.head.set((), time);
    Ok(time)
}
