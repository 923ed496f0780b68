//! Refunds: what is checked of one before it is signed.
//!
//! The signature of a refund stands in the transaction that claims and gives back, where anyone can read it, and use it without the claim.
//! So it is never over more than what is left once everything that was sold is claimed.

use super::{claims, orders, state};
use crate::{
    protocol::{Amount, v2::Reason},
    settle::{
        ChannelOnChain, ChannelRefund, Settlement,
        wallet::{core::Core, order::Order},
    },
};

/// The order of a refund.
///
/// # Errors
/// What becomes of it, where there is nothing to be sent.
pub(super) async fn ordered(core: &Core, refund: &ChannelRefund) -> Result<Order, Settlement> {
    if let Some(reason) = misfit(core, refund) {
        return Err(Settlement::Refused(reason));
    }
    let unknown = Settlement::Unknown(None);
    let state = state::read(core, &refund.config).await.map_err(|_| unknown.clone())?;
    if state.refund_nonce > refund.nonce {
        return Err(unknown);
    }
    if Amount::from_base_units(refund.amount) > left(&state, refund) {
        return Err(Settlement::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_AMOUNT_INVALID));
    }
    orders::refund(core, refund).await.ok_or(unknown)
}

/// What became of a refund that may have been sent. Its signature is known then, so that it can always be made later.
pub(super) fn outcome(outcome: Settlement) -> Settlement {
    match outcome {
        Settlement::Refused(reason) if reason == Reason::INVALID_TRANSACTION_STATE => Settlement::Unknown(None),
        outcome => outcome,
    }
}

/// What is in the channel beyond what is claimed and what is to be claimed.
fn left(state: &ChannelOnChain, refund: &ChannelRefund) -> Amount {
    let to_claim = refund.claim.as_ref().map_or(0, |claim| claim.total_claimed);
    let sold = state.claimed_at_most.max(Amount::from_base_units(to_claim));
    state.balance.checked_sub(sold).unwrap_or(Amount::ZERO)
}

/// Why it is none, as far as can be told without asking anybody.
fn misfit(core: &Core, refund: &ChannelRefund) -> Option<Reason> {
    let config = &refund.config;
    match &refund.claim {
        _ if config.receiver_authorizer != core.authorizer() => {
            Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_RECEIVER_AUTHORIZER_MISMATCH)
        }
        _ if refund.amount == 0 => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_REFUND_AMOUNT_INVALID),
        Some(claim) if claim.config != *config => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_ID_MISMATCH),
        Some(claim) => claims::misfit(core, claim),
        None => None,
    }
}
