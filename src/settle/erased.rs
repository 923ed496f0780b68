//! The boxed twins of [`Settler`] and [`PermitSettler`], so that the layer is not generic over them.

use std::{future::Future, pin::Pin};

use super::{
    PermitPayment, PermitSettler, PermitTerms, SettleError, Settlement, Settler, SignedPayment, TransactionRecorder,
    Validity,
};
use crate::protocol::{Address, Amount, Network, TokenDomain, permit2::PermitScheme};

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

pub(crate) trait ErasedPermitSettler: Send + Sync + 'static {
    fn terms(
        &self,
        network: Network,
        token: Address,
        scheme: PermitScheme,
    ) -> Boxed<'_, Result<Option<PermitTerms>, SettleError>>;
    fn verify<'a>(&'a self, payment: &'a PermitPayment) -> Boxed<'a, Result<Validity, SettleError>>;
    fn is_signed_by_key(&self, payment: &PermitPayment) -> bool;
    fn settle<'a>(
        &'a self,
        payment: &'a PermitPayment,
        charge: Amount,
        recorder: &'a TransactionRecorder,
    ) -> Boxed<'a, Settlement>;
}

impl<S: PermitSettler> ErasedPermitSettler for S {
    fn terms(
        &self,
        network: Network,
        token: Address,
        scheme: PermitScheme,
    ) -> Boxed<'_, Result<Option<PermitTerms>, SettleError>> {
        Box::pin(PermitSettler::permit_terms(self, network, token, scheme))
    }

    fn verify<'a>(&'a self, payment: &'a PermitPayment) -> Boxed<'a, Result<Validity, SettleError>> {
        Box::pin(PermitSettler::verify_permit(self, payment))
    }

    fn is_signed_by_key(&self, payment: &PermitPayment) -> bool {
        PermitSettler::is_permit_signed_by_key(self, payment)
    }

    fn settle<'a>(
        &'a self,
        payment: &'a PermitPayment,
        charge: Amount,
        recorder: &'a TransactionRecorder,
    ) -> Boxed<'a, Settlement> {
        Box::pin(PermitSettler::settle_permit(self, payment, charge, recorder))
    }
}
