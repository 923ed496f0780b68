//! `Harness`: what a settler brings to the checks.

use std::future::Future;

use crate::{
    protocol::{
        Address, Amount, Asset, ChainTime, PaymentSignature, TokenDomain,
        v2::{Authorization, SignedAuthorization},
    },
    settle::Settler,
    verify::NonceState,
};

/// How a settler is put through the checks: a chain with a token that has EIP-3009, and a settler on it.
///
/// Each method returns once its effect is on the chain: the node mines on demand, or the method waits for the block. It
/// may panic on failure, because it is part of a test.
pub trait Harness: Sync {
    /// The settler.
    type Settler: Settler;

    /// A settler on this chain that has settled nothing, and can.
    fn settler(&self) -> impl Future<Output = Self::Settler> + Send;

    /// The token that is paid with.
    fn token(&self) -> Asset;

    /// The domain under which the token's authorizations are signed.
    fn domain(&self) -> TokenDomain;

    /// The time of the chain's head.
    fn now(&self) -> impl Future<Output = ChainTime> + Send;

    /// A new plain account with exactly so much of the token. It needs no gas.
    fn payer(&self, funds: Amount) -> impl Future<Output = Address> + Send;

    /// A new contract account (EIP-1271) with exactly so much of the token; `None` where the checks about them are to be left out.
    fn contract_payer(&self, _funds: Amount) -> impl Future<Output = Option<Address>> + Send {
        std::future::ready(None)
    }

    /// The signature of one of the accounts above over an authorization, which may name another payer.
    fn sign(&self, signer: Address, authorization: &Authorization) -> impl Future<Output = PaymentSignature> + Send;

    /// Sends an authorization to the token, from an account that is not the settler's.
    fn submit(&self, authorization: &SignedAuthorization) -> impl Future<Output = ()> + Send;

    /// Uses up a nonce of one of the accounts above without paying.
    fn cancel(&self, payer: Address, nonce: [u8; 32]) -> impl Future<Output = ()> + Send;

    /// What an account has of the token.
    fn balance(&self, owner: Address) -> impl Future<Output = Amount> + Send;

    /// What the chain says of a nonce.
    fn nonce(&self, payer: Address, nonce: [u8; 32]) -> impl Future<Output = NonceState> + Send;
}
