//! What is told of a deposit without asking anybody: whether it is for its channel.

use crate::protocol::{
    Network,
    channel::{ChannelConfig, ChannelDeposit, DepositAuthorization, PERMIT2_COLLECTOR},
    v2::Reason,
};

/// Why it deposits nothing into this channel, or something else than it says. Of an authorization, its signature says the rest.
pub(super) fn misfit(network: Network, config: &ChannelConfig, deposit: &ChannelDeposit) -> Option<Reason> {
    if deposit.amount == 0 {
        return Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_SIMULATION_FAILED);
    }
    let DepositAuthorization::Permit2(permit) = &deposit.authorization else { return None };
    match () {
        () if permit.from != config.payer => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_INVALID_SIGNATURE),
        () if permit.spender != PERMIT2_COLLECTOR => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_INVALID_SPENDER),
        () if permit.amount != deposit.amount => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_PERMIT2_AMOUNT_MISMATCH),
        () if permit.token != config.token => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_TOKEN_MISMATCH),
        () if permit.channel != config.id(network) => Some(Reason::INVALID_BATCH_SETTLEMENT_EVM_CHANNEL_ID_MISMATCH),
        () => None,
    }
}
