//! The boxed twin of [`Settler`], so that the layer is not generic over it.

use std::{future::Future, pin::Pin};

use super::{SettleError, Settlement, Settler, SignedPayment, Validity};
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
    fn settle<'a>(&'a self, payment: &'a SignedPayment) -> Boxed<'a, Settlement>;
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

    fn settle<'a>(&'a self, payment: &'a SignedPayment) -> Boxed<'a, Settlement> {
        Box::pin(Settler::settle(self, payment))
    }

    fn health(&self) -> Boxed<'_, Result<(), SettleError>> {
        Box::pin(Settler::health(self))
    }
}
