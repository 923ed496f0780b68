//! The contract of payment channels: who signed, the calls that settle, what the contract tells.

mod batch;
mod calls;
mod events;
mod views;

use alloy::primitives::B256;

pub(crate) use batch::{changes_channels, claim_directly, read_results};
pub(crate) use calls::{claim, deposit, multicall, refund, settle};
pub(crate) use events::{ChannelEvent, read_event};
pub(crate) use views::{
    Due, Holding, Withdrawal, channels, pending_withdrawals, read_channel, read_due, read_refund_nonce,
    read_withdrawal, receivers, refund_nonce,
};

use super::signature;
use crate::protocol::{
    Address, Network, TokenDomain,
    channel::{ChannelConfig, ChannelDeposit, DepositAuthorization, Voucher},
};

#[allow(missing_docs, reason = "generated from Solidity")]
mod sol {
    alloy::sol! {
        struct ChannelConfig {
            address payer;
            address payerAuthorizer;
            address receiver;
            address receiverAuthorizer;
            address token;
            uint40 withdrawDelay;
            bytes32 salt;
        }
        struct Voucher {
            ChannelConfig channel;
            uint128 maxClaimableAmount;
        }
        struct VoucherClaim {
            Voucher voucher;
            bytes signature;
            uint128 totalClaimed;
        }
        function deposit(ChannelConfig config, uint128 amount, address collector, bytes collectorData) external;
        function claim(VoucherClaim[] voucherClaims) external;
        function claimWithSignature(VoucherClaim[] voucherClaims, bytes authorizerSignature) external;
        function settle(address receiver, address token) external;
        function refundWithSignature(
            ChannelConfig config, uint128 amount, uint256 nonce, bytes receiverAuthorizerSignature
        ) external;
        function multicall(bytes[] data) external returns (bytes[] results);
        function channels(bytes32 channelId) external view returns (uint128 balance, uint128 totalClaimed);
        function pendingWithdrawals(bytes32 channelId) external view returns (uint128 amount, uint40 initiatedAt);
        function refundNonce(bytes32 channelId) external view returns (uint256 nonce);
        function receivers(address receiver, address token) external view returns (uint128 totalClaimed, uint128 totalSettled);
        interface Channels {
            event Deposited(bytes32 indexed channelId, address indexed sender, uint128 amount, uint128 newBalance);
            event Claimed(
                bytes32 indexed channelId, address indexed sender, uint128 claimAmount, uint128 newTotalClaimed
            );
            event Settled(address indexed receiver, address indexed token, address indexed sender, uint128 amount);
            event Refunded(bytes32 indexed channelId, address indexed sender, uint128 amount);
            event WithdrawInitiated(bytes32 indexed channelId, uint128 amount, uint40 finalizeAfter);
            event WithdrawFinalized(bytes32 indexed channelId, address indexed sender, uint128 amount);
        }
    }
}

impl Voucher {
    /// Returns the key that signed this voucher on this chain; `None` where the contract takes no such signature from any key.
    ///
    /// That is 65 bytes with a low `s`, and a `v` of 27 or 28. One voucher with any other signature makes a whole transaction of claims
    /// fail, so that it is worth nothing.
    #[must_use]
    pub fn signer(&self, network: Network) -> Option<Address> {
        signature::signer_on_chain(&B256::new(self.digest(network)), self.signature.as_bytes())
    }
}

/// Returns the plain account that signed this deposit; `None` where those bytes are no signature of one, or where the token's domain is not
/// known and the deposit is signed by it.
pub(crate) fn deposit_signer(
    channel: &ChannelConfig,
    deposit: &ChannelDeposit,
    domain: Option<&TokenDomain>,
    network: Network,
) -> Option<Address> {
    match &deposit.authorization {
        DepositAuthorization::Erc3009(of) => {
            let digest = of.digest(channel, deposit.amount, domain?, network);
            signature::signer_of_65(&B256::new(digest), of.signature.as_bytes())
        }
        // Permit2 takes 64 bytes too.
        DepositAuthorization::Permit2(of) => signature::signer(&B256::new(of.digest(network)), of.signature.as_bytes()),
    }
}

fn account(address: Address) -> alloy::primitives::Address {
    address.as_bytes().into()
}

#[cfg(test)]
mod tests;
