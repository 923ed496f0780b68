//! Checks a deposit without I/O.

use crate::protocol::{
    Network,
    channel::{ChannelConfig, ChannelDeposit, DepositAuthorization, PERMIT2_COLLECTOR},
    v2::Reason,
};

/// Returns why the deposit does not match this channel or its own statements. For an EIP-3009 authorization, only the
/// amount is checked here; its signature covers the rest.
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
