//! `Harness`: what a settler provides for the checks.

use std::future::Future;

use crate::{
    protocol::{
        Address, Amount, Asset, ChainTime, PaymentSignature, TokenDomain,
        v2::{Authorization, SignedAuthorization},
    },
    settle::Settler,
    verify::NonceState,
};

/// The environment of the checks: a chain with a token that has EIP-3009, and a settler on it.
///
/// Each method returns once its effect is on the chain: the node mines on demand, or the method waits for the block. It
/// may panic on failure, because it is part of a test.
pub trait Harness: Sync {
    /// The settler.
    type Settler: Settler;

    /// Returns a settler on this chain that has settled nothing and can settle.
    fn settler(&self) -> impl Future<Output = Self::Settler> + Send;

    /// Returns the token of the payments.
    fn token(&self) -> Asset;

    /// Returns the domain of the token's authorizations.
    fn domain(&self) -> TokenDomain;

    /// Returns the time of the chain's head.
    fn now(&self) -> impl Future<Output = ChainTime> + Send;

    /// Returns a new plain account with exactly this amount of the token. It needs no gas.
    fn payer(&self, funds: Amount) -> impl Future<Output = Address> + Send;

    /// Returns a new contract account (EIP-1271) with exactly this amount of the token; `None` to leave out the checks
    /// with contract accounts.
    fn contract_payer(&self, _funds: Amount) -> impl Future<Output = Option<Address>> + Send {
        std::future::ready(None)
    }

    /// Returns a signature by one of the accounts above over an authorization, which may name another payer.
    fn sign(&self, signer: Address, authorization: &Authorization) -> impl Future<Output = PaymentSignature> + Send;

    /// Sends an authorization to the token, from an account that is not the settler's.
    fn submit(&self, authorization: &SignedAuthorization) -> impl Future<Output = ()> + Send;

    /// Uses up a nonce of one of the accounts above without paying.
    fn cancel(&self, payer: Address, nonce: [u8; 32]) -> impl Future<Output = ()> + Send;

    /// Returns an account's balance of the token.
    fn balance(&self, owner: Address) -> impl Future<Output = Amount> + Send;

    /// Returns the state of a nonce on the chain.
    fn nonce(&self, payer: Address, nonce: [u8; 32]) -> impl Future<Output = NonceState> + Send;
}
