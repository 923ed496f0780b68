//! `PermitHarness`: what a settler of permits brings to its checks.

use std::future::Future;

use crate::{
    protocol::{Address, Amount, Asset, ChainTime, PaymentSignature, permit2::Permit},
    settle::PermitSettler,
};

/// How a settler of permits is put through the checks: a chain with a token, and a settler on it.
///
/// Each method returns once its effect is on the chain: the node mines on demand, or the method waits for the block. It may panic on
/// failure, because it is part of a test.
pub trait PermitHarness: Sync {
    /// The settler.
    type Settler: PermitSettler;

    /// A settler on this chain that has settled nothing, and can.
    fn settler(&self) -> impl Future<Output = Self::Settler> + Send;

    /// The token that is paid with.
    fn token(&self) -> Asset;

    /// The time of the chain's head.
    fn now(&self) -> impl Future<Output = ChainTime> + Send;

    /// A new plain account with exactly so much of the token, all of which Permit2 may move. It needs no further gas.
    fn payer(&self, funds: Amount) -> impl Future<Output = Address> + Send;

    /// The signature of one of the accounts above over a permit, which may name another payer.
    fn sign(&self, signer: Address, permit: &Permit) -> impl Future<Output = PaymentSignature> + Send;

    /// Moves all that a payer has to another account.
    fn spend(&self, payer: Address) -> impl Future<Output = ()> + Send;

    /// What an account has of the token.
    fn balance(&self, owner: Address) -> impl Future<Output = Amount> + Send;

    /// Whether the chain has a nonce as used.
    fn is_used(&self, payer: Address, nonce: [u8; 32]) -> impl Future<Output = bool> + Send;
}
