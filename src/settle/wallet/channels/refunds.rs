//! Refunds: the checks before one is signed.
//!
//! The signature of a refund is public in the transaction that claims and refunds, and anyone can use it without the
//! claim. So a refund is never over more than what is left once everything sold is claimed.

use super::orders;
use crate::{
    protocol::{Amount, v2::Reason},
    settle::{
        ChannelRefund, Settlement, on_chain,
        wallet::{core::Core, order::Order},
    },
};

/// Returns the order of a refund.
///
/// # Errors
/// The outcome, if nothing is to be sent.
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

/// Returns the outcome of a refund that may have been sent. Its signature is public then, so the refund can always be
/// made later.
pub(super) fn outcome(outcome: Settlement) -> Settlement {
    match outcome {
        Settlement::Refused(reason) if reason == Reason::INVALID_TRANSACTION_STATE => Settlement::Unknown(None),
        outcome => outcome,
    }
}
