//! Refunds: what is checked of one before it is signed.
//!
//! The signature of a refund stands in the transaction that claims and gives back, where anyone can read it, and use it without the claim.
//! So it is never over more than what is left once everything that was sold is claimed.

use super::orders;
use crate::{
    protocol::{Amount, v2::Reason},
    settle::{
        ChannelRefund, Settlement, on_chain,
        wallet::{core::Core, order::Order},
    },
};

/// The order of a refund.
///
/// # Errors
/// What becomes of it, where there is nothing to be sent.
pub(super) async fn ordered(core: &Core, refund: &ChannelRefund) -> Result<Order, Settlement> {
    let network = core.account.network;
    if let Some(reason) = on_chain::misfit_of(network, core.authorizer(), refund) {
        return Err(Settlement::Refused(reason));
    }
    let unknown = Settlement::Unknown(None);
    let state = on_chain::state(&core.account.nodes, (network, core.depths()), &refund.config)
        .await
        .map_err(|_| unknown.clone())?;
    if !on_chain::is_next(&state, refund) {
        return Err(unknown);
    }
    if Amount::from_base_units(refund.amount) > on_chain::left(&state, refund) {
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
