//! The boxed twin of [`Settler`], so that the layer is not generic over it.

use std::{future::Future, pin::Pin};

use super::{SettleError, Settlement, Settler, SignedPayment, TransactionRecorder, Validity};
use crate::protocol::{Address, Network, TokenDomain};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub(crate) trait ErasedSettler: Send + Sync + 'static {
    fn domain<'a>(
        &'a self,
        network: Network,
        token: Address,
        stated: Option<&'a TokenDomain>,
    ) -> Boxed<'a, Result<Option<TokenDomain>, SettleError>>;
    fn verify<'a>(&'a self, payment: &'a SignedPayment) -> Boxed<'a, Result<Validity, SettleError>>;
    fn is_signed_by_key(&self, payment: &SignedPayment) -> bool;
    fn settle<'a>(&'a self, payment: &'a SignedPayment, recorder: &'a TransactionRecorder) -> Boxed<'a, Settlement>;
    fn health(&self) -> Boxed<'_, Result<(), SettleError>>;
}

impl<S: Settler> ErasedSettler for S {
    fn domain<'a>(
        &'a self,
        network: Network,
        token: Address,
        stated: Option<&'a TokenDomain>,
    ) -> Boxed<'a, Result<Option<TokenDomain>, SettleError>> {
        Box::pin(Settler::domain(self, network, token, stated))
    }

    fn verify<'a>(&'a self, payment: &'a SignedPayment) -> Boxed<'a, Result<Validity, SettleError>> {
        Box::pin(Settler::verify(self, payment))
    }

    fn is_signed_by_key(&self, payment: &SignedPayment) -> bool {
        Settler::is_signed_by_key(self, payment)
    }

    fn settle<'a>(&'a self, payment: &'a SignedPayment, recorder: &'a TransactionRecorder) -> Boxed<'a, Settlement> {
        Box::pin(Settler::settle(self, payment, recorder))
    }

    fn health(&self) -> Boxed<'_, Result<(), SettleError>> {
        Box::pin(Settler::health(self))
    }
}
