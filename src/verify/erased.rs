//! The boxed twin of [`Verifier`], so that the layer is not generic over it.

use std::{future::Future, pin::Pin};

use super::{NonceState, Signatures, Verdict, Verifier, VerifyError};
use crate::{
    metrics,
    protocol::{Address, Asset, ChainTime, Network, PaymentSignature, Terms, TokenDomain, TxHash, permit2::Permit},
};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, VerifyError>> + Send + 'a>>;

pub(crate) trait ErasedVerifier: Send + Sync + 'static {
    fn check<'a>(&'a self, network: Network, assets: &'a [Asset]) -> Boxed<'a, ()>;
    fn verify<'a>(&'a self, terms: &'a Terms, transaction: TxHash) -> Boxed<'a, Verdict>;
    fn head(&self) -> Boxed<'_, ChainTime>;
    fn horizon(&self) -> Boxed<'_, ChainTime>;
    fn signatures(&self) -> Option<&dyn ErasedSignatures>;
}

/// The boxed twin of [`Signatures`].
pub(crate) trait ErasedSignatures: Send + Sync + 'static {
    fn signer<'a>(
        &'a self,
        message: &'a str,
        signature: &'a PaymentSignature,
        accounts: &'a [Address],
    ) -> Boxed<'a, Option<Address>>;
    fn domain(&self, token: Address) -> Boxed<'_, Option<TokenDomain>>;
    fn nonce_state<'a>(
        &'a self,
        token: Address,
        payer: Address,
        nonce: &'a [u8; 32],
        since: ChainTime,
    ) -> Boxed<'a, NonceState>;
    fn permit_state<'a>(&'a self, permit: &'a Permit, since: ChainTime) -> Boxed<'a, NonceState>;
}

impl<V: Verifier> ErasedVerifier for V {
    fn check<'a>(&'a self, network: Network, assets: &'a [Asset]) -> Boxed<'a, ()> {
        Box::pin(metrics::verification("check", Verifier::check(self, network, assets)))
    }

    fn verify<'a>(&'a self, terms: &'a Terms, transaction: TxHash) -> Boxed<'a, Verdict> {
        Box::pin(metrics::verification("verify", Verifier::verify(self, terms, transaction)))
    }

    fn head(&self) -> Boxed<'_, ChainTime> {
        Box::pin(metrics::verification("head", Verifier::head(self)))
    }

    fn horizon(&self) -> Boxed<'_, ChainTime> {
        Box::pin(metrics::verification("horizon", Verifier::horizon(self)))
    }

    fn signatures(&self) -> Option<&dyn ErasedSignatures> {
        Verifier::signatures(self).map(|signatures| signatures as &dyn ErasedSignatures)
    }
}

impl<S: Signatures> ErasedSignatures for S {
    fn signer<'a>(
        &'a self,
        message: &'a str,
        signature: &'a PaymentSignature,
        accounts: &'a [Address],
    ) -> Boxed<'a, Option<Address>> {
        Box::pin(metrics::verification("signer", Signatures::signer(self, message, signature, accounts)))
    }

    fn domain(&self, token: Address) -> Boxed<'_, Option<TokenDomain>> {
        Box::pin(metrics::verification("domain", Signatures::domain(self, token)))
    }

    fn nonce_state<'a>(
        &'a self,
        token: Address,
        payer: Address,
        nonce: &'a [u8; 32],
        since: ChainTime,
    ) -> Boxed<'a, NonceState> {
        Box::pin(metrics::verification("authorization", Signatures::nonce_state(self, token, payer, nonce, since)))
    }

    fn permit_state<'a>(&'a self, permit: &'a Permit, since: ChainTime) -> Boxed<'a, NonceState> {
        Box::pin(metrics::verification("permit", Signatures::permit_state(self, permit, since)))
    }
}
