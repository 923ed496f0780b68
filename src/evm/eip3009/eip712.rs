//! The signed message: EIP-712 over the token's domain.

use std::borrow::Cow;

use alloy::{
    primitives::{B256, U256},
    sol_types::{Eip712Domain, SolStruct as _},
};

use crate::{
    evm::signature,
    protocol::{
        Address, Network, TokenDomain,
        v2::{Authorization, SignedAuthorization},
    },
};

#[allow(missing_docs, reason = "generated from Solidity")]
mod sol {
    alloy::sol! {
        struct TransferWithAuthorization {
            address from;
            address to;
            uint256 value;
            uint256 validAfter;
            uint256 validBefore;
            bytes32 nonce;
        }
        struct CancelAuthorization {
            address authorizer;
            bytes32 nonce;
        }
    }
}

/// Returns the hash that a payer signs.
pub(crate) fn digest(authorization: &Authorization, domain: &TokenDomain, network: Network) -> B256 {
    let message = sol::TransferWithAuthorization {
        from: authorization.from.as_bytes().into(),
        to: authorization.to.as_bytes().into(),
        value: U256::from_be_bytes(authorization.value.to_be_bytes()),
        validAfter: U256::from(authorization.valid_after.unix()),
        validBefore: U256::from(authorization.valid_before.unix()),
        nonce: B256::new(authorization.nonce),
    };
    message.eip712_signing_hash(&of(domain, network))
}

/// Returns the hash that a payer signs to use up a nonce without a transfer.
pub(crate) fn cancel_digest(authorizer: Address, nonce: &[u8; 32], domain: &TokenDomain, network: Network) -> B256 {
    let message = sol::CancelAuthorization { authorizer: authorizer.as_bytes().into(), nonce: B256::new(*nonce) };
    message.eip712_signing_hash(&of(domain, network))
}

/// Returns the domain separator, which the token's contract states as well.
pub(crate) fn domain_separator(domain: &TokenDomain, network: Network) -> [u8; 32] {
    of(domain, network).hash_struct().0
}

/// Returns the plain account that signed this authorization; `None` if the bytes are no valid signature.
///
/// Tokens accept 65 bytes with a `v` of 0, 1, 27 or 28 and a low `s`, but not the form of EIP-2098. A contract
/// account's signature is for the token to check.
pub(crate) fn signer(signed: &SignedAuthorization, domain: &TokenDomain, network: Network) -> Option<Address> {
    signature::signer_of_65(&digest(&signed.authorization, domain, network), signed.signature.as_bytes())
}

fn of(domain: &TokenDomain, network: Network) -> Eip712Domain {
    Eip712Domain {
        name: Some(Cow::Owned(domain.name.clone())),
        version: Some(Cow::Owned(domain.version.clone())),
        chain_id: Some(U256::from(network.chain_id())),
        verifying_contract: Some(domain.token.as_bytes().into()),
        salt: None,
    }
}
