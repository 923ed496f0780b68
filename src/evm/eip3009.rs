//! Transfers with authorization (EIP-3009): the signed message, and the calls to the token's contract.

mod abi;
mod eip712;
mod nonce;
mod returned;
#[cfg(test)]
#[cfg(feature = "wallet")]
mod tests;

pub(crate) use abi::{
    AUTHORIZATION_CANCELED_TOPIC, AUTHORIZATION_USED_TOPIC, authorization_state, cancel, domain_separator_call,
    is_transfer, name, transfer, version,
};
pub(crate) use eip712::{cancel_digest, digest, domain_separator, signer};
pub(crate) use nonce::{Nonce, Trace};
pub(crate) use returned::{read_flag, read_text, read_word};
