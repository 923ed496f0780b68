//! Permits: the checks before a trial.

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

/// How long a signature must still be valid, so that it can be settled in time.
pub(super) const SPARE: Duration = Duration::from_secs(6);

/// Returns the terms that a quote states for permits; `None` if the contracts do not exist. For `upto`, this account is
/// the facilitator.
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

/// Returns why a payment does not match its offer, this network or this account. Needs no I/O.
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

/// Checks whether a payment could be settled now, at its full amount, in the standard's order of checks.
pub(super) async fn verify(core: &Core, payment: &PermitPayment) -> Result<Validity, SettleError> {
    if let Some(reason) = misdirected(core, payment) {
        return Ok(Validity::Refused(reason));
    }
    let order = Order::of_permit(payment, payment.permit.permit.amount);
    // A payment in progress is valid, however little time is left.
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

/// Returns whether it is too early or too late, by the time of the newest block.
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

/// Returns the time of the newest block, cached for a block time, because every permit that is shown needs it, even a
/// forged one.
pub(super) async fn head(core: &Core) -> Result<ChainTime, Failure> {
    if let Some(known) = core.head.get(&()) {
        return Ok(known);
    }
    let time = core.account.nodes.first(Node::head).await?.time;
    core.head.set((), time);
    Ok(time)
}
