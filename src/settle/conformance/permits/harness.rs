//! `PermitHarness`: what a settler of permits provides for its checks.

use std::future::Future;

use crate::{
    protocol::{Address, Amount, Asset, ChainTime, PaymentSignature, permit2::Permit},
    settle::PermitSettler,
};

/// The environment of the checks of permits: a chain with a token, and a settler on it.
///
/// Each method returns once its effect is on the chain: the node mines on demand, or the method waits for the block. It may panic on
/// failure, because it is part of a test.
pub trait PermitHarness: Sync {
    /// The settler.
    type Settler: PermitSettler;

    /// Returns a settler on this chain that has settled nothing and can settle.
    fn settler(&self) -> impl Future<Output = Self::Settler> + Send;

    /// Returns the token of the payments.
    fn token(&self) -> Asset;

    /// Returns the time of the chain's head.
    fn now(&self) -> impl Future<Output = ChainTime> + Send;

    /// Returns a new plain account with exactly this amount of the token, all of which Permit2 may move. It needs no
    /// further gas.
    fn payer(&self, funds: Amount) -> impl Future<Output = Address> + Send;

    /// Returns a signature by one of the accounts above over a permit, which may name another payer.
    fn sign(&self, signer: Address, permit: &Permit) -> impl Future<Output = PaymentSignature> + Send;

    /// Moves a payer's whole balance to another account.
    fn spend(&self, payer: Address) -> impl Future<Output = ()> + Send;

    /// Returns an account's balance of the token.
    fn balance(&self, owner: Address) -> impl Future<Output = Amount> + Send;

    /// Returns whether the chain shows a nonce as used.
    fn is_used(&self, payer: Address, nonce: [u8; 32]) -> impl Future<Output = bool> + Send;
}
