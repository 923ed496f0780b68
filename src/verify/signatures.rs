//! `Signatures`: a verifier's check of accounts: their signatures, and the state of their authorizations.

use std::future::Future;

use super::error::VerifyError;
use crate::protocol::{Address, ChainTime, PaymentSignature, TokenDomain, TxHash, permit2::Permit};

/// The state of the nonce of an authorization, or of a permit, on the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum NonceState {
    /// It is not used. A transaction that is in no block yet may still use it, as long as the authorization is valid.
    Unused,
    /// This transaction used it to make a transfer. [`Verifier::verify`](super::Verifier::verify) returns the
    /// transfer's recipient and amount.
    Used(TxHash),
    /// It is used, and no transaction that paid with it was found: it was cancelled, or used longer ago.
    Spent,
}

/// Checks the signatures of payers: an optional capability of a [`Verifier`](super::Verifier), which
/// [`Verifier::signatures`](super::Verifier::signatures) returns. [`EvmVerifier`](super::evm::EvmVerifier) has it.
///
/// Time limits, errors and dropped futures are as for a [`Verifier`](super::Verifier).
pub trait Signatures: Send + Sync + 'static {
    /// Returns the account among `accounts` that signed the message (EIP-191), or `None`.
    ///
    /// A plain account signs with its key: ECDSA over secp256k1, as 65 bytes with a `v` of 0, 1, 27 or 28 or as the 64 bytes of
    /// EIP-2098, with a low `s`. If the signature recovers to none of `accounts`, those with code are asked whether they accept it
    /// (EIP-1271).
    ///
    /// The layer calls this only for redemptions with a signature. An `Err` means that the chain could not be read; it says nothing
    /// about the signature.
    fn signer(
        &self,
        message: &str,
        signature: &PaymentSignature,
        accounts: &[Address],
    ) -> impl Future<Output = Result<Option<Address>, VerifyError>> + Send;

    /// Returns the EIP-712 domain under which authorizations (EIP-3009) of a token are signed, as its contract states it; `None` for a
    /// token without them.
    ///
    /// The layer calls this before the first quote, if a settler is set.
    fn domain(&self, token: Address) -> impl Future<Output = Result<Option<TokenDomain>, VerifyError>> + Send;

    /// Returns whether an authorization's nonce is used, at the chain's current head.
    ///
    /// The search for the transaction begins at `since`. `Unused` needs the word of every endpoint that answers,
    /// because the payer then signs again.
    fn nonce_state(
        &self,
        token: Address,
        payer: Address,
        nonce: &[u8; 32],
        since: ChainTime,
    ) -> impl Future<Output = Result<NonceState, VerifyError>> + Send;

    /// Returns whether the nonce of a Permit2 permit is used, at the chain's current head, and by which transaction
    /// that paid the permit's recipient. No event names a permit: a transaction that does not call one of the
    /// standard's proxies itself is not found. The nonce is then [`Spent`](NonceState::Spent), as after a cancellation.
    ///
    /// The search for the transaction begins at `since`. `Unused` needs the word of every endpoint that answers, because the payer then
    /// signs again.
    fn permit_state(
        &self,
        permit: &Permit,
        since: ChainTime,
    ) -> impl Future<Output = Result<NonceState, VerifyError>> + Send;
}

/// The uninhabited signature type of a verifier of transfers alone.
#[derive(Debug)]
pub(super) enum NoSignatures {}

impl Signatures for NoSignatures {
    async fn signer(&self, _: &str, _: &PaymentSignature, _: &[Address]) -> Result<Option<Address>, VerifyError> {
        match *self {}
    }

    async fn domain(&self, _: Address) -> Result<Option<TokenDomain>, VerifyError> {
        match *self {}
    }

    async fn nonce_state(&self, _: Address, _: Address, _: &[u8; 32], _: ChainTime) -> Result<NonceState, VerifyError> {
        match *self {}
    }

    async fn permit_state(&self, _: &Permit, _: ChainTime) -> Result<NonceState, VerifyError> {
        match *self {}
    }
}
