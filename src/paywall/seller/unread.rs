//! `Unread`: what stands in for a verifier where nothing reads the chain, and signed payments alone are taken.

use std::sync::Arc;

use crate::{
    clock::Clock,
    protocol::{Address, Asset, ChainTime, Network, PaymentSignature, Terms, TokenDomain, TxHash},
    verify::{NonceState, Verdict, Verifier, VerifyError},
};

/// Knows the time of day, and nothing else.
pub(crate) struct Unread(pub(crate) Arc<dyn Clock>);

impl Verifier for Unread {
    async fn check(&self, _network: Network, _assets: &[Asset]) -> Result<(), VerifyError> {
        Ok(())
    }

    async fn verify(&self, _terms: &Terms, _transaction: TxHash) -> Result<Verdict, VerifyError> {
        Err(VerifyError::unavailable())
    }

    async fn signer(
        &self,
        _message: &str,
        _signature: &PaymentSignature,
        _accounts: &[Address],
    ) -> Result<Option<Address>, VerifyError> {
        Err(VerifyError::unavailable())
    }

    async fn domain(&self, _token: Address) -> Result<Option<TokenDomain>, VerifyError> {
        Err(VerifyError::unavailable())
    }

    async fn authorization(
        &self,
        _token: Address,
        _payer: Address,
        _nonce: &[u8; 32],
        _since: ChainTime,
    ) -> Result<NonceState, VerifyError> {
        Err(VerifyError::unavailable())
    }

    async fn head(&self) -> Result<ChainTime, VerifyError> {
        Ok(ChainTime::from_unix(self.0.unix()))
    }
}
