//! The calls that settlers of channels send.

use alloy::{
    primitives::{Bytes, U256, Uint},
    sol_types::{SolCall as _, SolValue as _},
};

use super::{
    abi::{account, sol},
    signers::deposit_signer,
};
use crate::protocol::{
    Address, Network, TokenDomain,
    channel::{ChannelConfig, ChannelDeposit, DepositAuthorization, VoucherClaim},
};

/// Returns the call data that deposits into a channel. `domain` is that of the channel's token, if known.
///
/// For a plain account, a `v` of 0 or 1 becomes 27 or 28, the only values that tokens and Permit2 take. For a contract account, the bytes
/// stay unchanged.
pub(crate) fn deposit(
    channel: &ChannelConfig,
    deposit: &ChannelDeposit,
    domain: Option<&TokenDomain>,
    network: Network,
) -> Vec<u8> {
    let signature = signature_of(channel, deposit, domain, network);
    let data = match &deposit.authorization {
        DepositAuthorization::Erc3009(of) => {
            let [after, before] = [of.valid_after, of.valid_before].map(|time| U256::from(time.unix()));
            (after, before, U256::from_be_bytes(of.salt), signature).abi_encode_params()
        }
        DepositAuthorization::Permit2(of) => {
            let (nonce, deadline) = (U256::from_be_bytes(of.nonce), U256::from(of.deadline.unix()));
            (nonce, deadline, signature, Bytes::new()).abi_encode_params()
        }
    };
    let (amount, collector) = (deposit.amount, account(deposit.collector()));
    sol::depositCall { config: channel.into(), amount, collector, collectorData: data.into() }.abi_encode()
}

/// Returns the call data that claims vouchers with a signature of their common receiver authorizer.
pub(crate) fn claim(claims: &[VoucherClaim], signature: &[u8]) -> Vec<u8> {
    let (voucher_claims, signature) = (rows(claims), Bytes::copy_from_slice(signature));
    sol::claimWithSignatureCall { voucherClaims: voucher_claims, authorizerSignature: signature }.abi_encode()
}

/// Returns the call data that pays out the claimed amounts of a receiver. It does nothing if no amount is due.
pub(crate) fn settle(receiver: Address, token: Address) -> Vec<u8> {
    sol::settleCall { receiver: account(receiver), token: account(token) }.abi_encode()
}

/// Returns the call data that refunds at most `amount`, in base units, as the `nonce`-th refund, with a signature of
/// the receiver authorizer.
pub(crate) fn refund(channel: &ChannelConfig, amount: u128, nonce: u64, signature: &[u8]) -> Vec<u8> {
    let (nonce, signature) = (U256::from(nonce), Bytes::copy_from_slice(signature));
    let config = channel.into();
    sol::refundWithSignatureCall { config, amount, nonce, receiverAuthorizerSignature: signature }.abi_encode()
}

/// Returns the call data with which a payer begins to withdraw this amount, in base units.
#[cfg(all(feature = "client", feature = "wallet"))]
pub(crate) fn begin_withdrawal(channel: &ChannelConfig, amount: u128) -> Vec<u8> {
    sol::initiateWithdrawCall { config: channel.into(), amount }.abi_encode()
}

/// Returns the call data that ends a withdrawal whose delay is over.
#[cfg(all(feature = "client", feature = "wallet"))]
pub(crate) fn end_withdrawal(channel: &ChannelConfig) -> Vec<u8> {
    sol::finalizeWithdrawCall { config: channel.into() }.abi_encode()
}

/// Returns the call data of several contract calls in one. If one fails, all fail.
pub(crate) fn multicall(calls: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    sol::multicallCall { data: calls.into_iter().map(Bytes::from).collect() }.abi_encode()
}

pub(super) fn rows(claims: &[VoucherClaim]) -> Vec<sol::VoucherClaim> {
    let row = |claim: &VoucherClaim| sol::VoucherClaim {
        voucher: sol::Voucher { channel: (&claim.config).into(), maxClaimableAmount: claim.voucher.max_claimable },
        signature: Bytes::copy_from_slice(claim.voucher.signature.as_bytes()),
        totalClaimed: claim.total_claimed,
    };
    claims.iter().map(row).collect()
}

fn signature_of(
    channel: &ChannelConfig,
    deposit: &ChannelDeposit,
    domain: Option<&TokenDomain>,
    network: Network,
) -> Bytes {
    let signature = match &deposit.authorization {
        DepositAuthorization::Erc3009(of) => &of.signature,
        DepositAuthorization::Permit2(of) => &of.signature,
    };
    let mut bytes = signature.as_bytes().to_vec();
    if let ([.., v @ (0 | 1)], 65) = (&mut bytes[..], signature.as_bytes().len())
        && deposit_signer(channel, deposit, domain, network) == Some(channel.payer)
    {
        *v += 27;
    }
    bytes.into()
}

impl From<&ChannelConfig> for sol::ChannelConfig {
    fn from(channel: &ChannelConfig) -> Self {
        Self {
            payer: account(channel.payer),
            payerAuthorizer: account(channel.payer_authorizer),
            receiver: account(channel.receiver),
            receiverAuthorizer: account(channel.receiver_authorizer),
            token: account(channel.token),
            withdrawDelay: Uint::from(channel.withdraw_delay),
            salt: channel.salt.into(),
        }
    }
}
