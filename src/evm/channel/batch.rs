//! Claims that the receiver authorizer sends itself, and several calls in one.

use alloy::{primitives::Bytes, sol_types::SolCall as _};

use super::{abi::sol, calls::rows};
use crate::protocol::channel::VoucherClaim;

/// Returns the call data with which the receiver authorizer, or the receiver, claims vouchers itself.
pub(crate) fn claim_directly(claims: &[VoucherClaim]) -> Vec<u8> {
    sol::claimCall { voucherClaims: rows(claims) }.abi_encode()
}

/// Parses the results of several calls in one, in order; `None` if the answer is malformed.
pub(crate) fn read_results(returned: &[u8]) -> Option<Vec<Bytes>> {
    sol::multicallCall::abi_decode_returns(returned).ok()
}

/// Returns whether this call data changes channels.
pub(crate) fn changes_channels(input: &[u8]) -> bool {
    [
        sol::depositCall::SELECTOR,
        sol::claimCall::SELECTOR,
        sol::claimWithSignatureCall::SELECTOR,
        sol::settleCall::SELECTOR,
        sol::refundWithSignatureCall::SELECTOR,
        sol::multicallCall::SELECTOR,
    ]
    .iter()
    .any(|selector| input.starts_with(selector))
}
