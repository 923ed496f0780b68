//! The functions and events of the contract that this crate uses.

use crate::protocol::Address;

#[allow(missing_docs, reason = "generated from Solidity")]
pub(super) mod sol {
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
        function initiateWithdraw(ChannelConfig config, uint128 amount) external;
        function finalizeWithdraw(ChannelConfig config) external;
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

pub(super) fn account(address: Address) -> alloy::primitives::Address {
    address.as_bytes().into()
}
