//! The functions and events of a token with EIP-3009.

use alloy::{
    primitives::{B256, U256},
    sol_types::{SolCall as _, SolEvent as _},
};

use super::signer;
use crate::protocol::{
    Address, Network, TokenDomain,
    v2::{Authorization, SignedAuthorization},
};

#[allow(missing_docs, clippy::too_many_arguments, reason = "generated from Solidity")]
mod sol {
    alloy::sol! {
        interface Token {
            function transferWithAuthorization(
                address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce,
                uint8 v, bytes32 r, bytes32 s
            ) external;
            function transferWithAuthorization(
                address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce,
                bytes signature
            ) external;
            function cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s) external;
            function authorizationState(address authorizer, bytes32 nonce) external view returns (bool);
            function name() external view returns (string);
            function version() external view returns (string);
            function DOMAIN_SEPARATOR() external view returns (bytes32);
            event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
            event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);
        }
    }
}

use sol::Token::{
    AuthorizationCanceled, AuthorizationUsed, DOMAIN_SEPARATORCall, authorizationStateCall, cancelAuthorizationCall,
    nameCall, transferWithAuthorization_0Call, transferWithAuthorization_1Call, versionCall,
};

/// The first topic of every `AuthorizationUsed` event: `keccak256("AuthorizationUsed(address,bytes32)")`.
pub(crate) const AUTHORIZATION_USED_TOPIC: [u8; 32] = AuthorizationUsed::SIGNATURE_HASH.0;

/// The first topic of every `AuthorizationCanceled` event: `keccak256("AuthorizationCanceled(address,bytes32)")`.
pub(crate) const AUTHORIZATION_CANCELED_TOPIC: [u8; 32] = AuthorizationCanceled::SIGNATURE_HASH.0;

/// Returns the call data that settles this payment.
///
/// 65 bytes are passed as `(v, r, s)`, which every token with EIP-3009 accepts; other lengths as `bytes`. For a plain
/// account, a `v` of 0 or 1 becomes 27 or 28, the only values that tokens accept. For a contract account, the bytes
/// stay unchanged.
pub(crate) fn transfer(signed: &SignedAuthorization, domain: &TokenDomain, network: Network) -> Vec<u8> {
    let Authorization { from, to, value, valid_after, valid_before, nonce } = signed.authorization;
    let (from, to) = (from.as_bytes().into(), to.as_bytes().into());
    let (value, nonce) = (U256::from_be_bytes(value.to_be_bytes()), B256::new(nonce));
    let [valid_after, valid_before] = [valid_after, valid_before].map(|time| U256::from(time.unix()));
    let bytes = signed.signature.as_bytes();
    let Some((r, s, mut v)) = scalars(bytes) else {
        return transferWithAuthorization_1Call {
            from,
            to,
            value,
            validAfter: valid_after,
            validBefore: valid_before,
            nonce,
            signature: bytes.to_vec().into(),
        }
        .abi_encode();
    };
    if v < 27 && signer(signed, domain, network) == Some(signed.authorization.from) {
        v += 27;
    }
    transferWithAuthorization_0Call {
        from,
        to,
        value,
        validAfter: valid_after,
        validBefore: valid_before,
        nonce,
        v,
        r,
        s,
    }
    .abi_encode()
}

/// Returns whether this call data settles a payment.
pub(crate) fn is_transfer(input: &[u8]) -> bool {
    [transferWithAuthorization_0Call::SELECTOR, transferWithAuthorization_1Call::SELECTOR]
        .iter()
        .any(|selector| input.starts_with(selector))
}

/// Returns the call data that uses up an authorization's nonce without a transfer; `None` if the signature is not 65
/// bytes long.
pub(crate) fn cancel(authorizer: Address, nonce: &[u8; 32], signature: &[u8]) -> Option<Vec<u8>> {
    let (r, s, v) = scalars(signature)?;
    let (authorizer, nonce) = (authorizer.as_bytes().into(), B256::new(*nonce));
    Some(cancelAuthorizationCall { authorizer, nonce, v: if v < 27 { v + 27 } else { v }, r, s }.abi_encode())
}

/// Returns the call data of `authorizationState(authorizer, nonce)`.
pub(crate) fn authorization_state(authorizer: Address, nonce: &[u8; 32]) -> Vec<u8> {
    authorizationStateCall { authorizer: authorizer.as_bytes().into(), nonce: B256::new(*nonce) }.abi_encode()
}

/// Returns the call data of `name()`.
pub(crate) fn name() -> Vec<u8> {
    nameCall {}.abi_encode()
}

/// Returns the call data of `version()`.
pub(crate) fn version() -> Vec<u8> {
    versionCall {}.abi_encode()
}

/// Returns the call data of `DOMAIN_SEPARATOR()`.
pub(crate) fn domain_separator_call() -> Vec<u8> {
    DOMAIN_SEPARATORCall {}.abi_encode()
}

/// Splits 65 bytes into `r`, `s` and `v`.
fn scalars(signature: &[u8]) -> Option<(B256, B256, u8)> {
    let (r, rest) = signature.split_first_chunk::<32>()?;
    let (s, rest) = rest.split_first_chunk::<32>()?;
    let [v] = rest else { return None };
    Some((B256::new(*r), B256::new(*s), *v))
}
