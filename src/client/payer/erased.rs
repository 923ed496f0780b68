//! The object-safe twin of [`Payer`], so that the layer is not generic over the payer.

use std::{future::Future, pin::Pin};

use super::{
    AuthorizationRequest, AuthorizationStatus, Authorizer, ErasedChannelSigner, Payer, PayerError, PermitFunds,
    PermitRequest, PermitSigner, PreparedAuthorization, PreparedPermit, PreparedTransfer, SubmitGuard, TransferRequest,
    TransferStatus,
};
use crate::protocol::{
    Address, Amount, Asset, ChainTime, Network, PaymentSignature, TokenDomain, TxHash, permit2::SignedPermit,
    v2::SignedAuthorization,
};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

pub(crate) trait ErasedPayer: Send + Sync + 'static {
    fn submit_guard(&self, network: Network) -> Boxed<'_, SubmitGuard>;
    fn can_transfer<'a>(&'a self, asset: &'a Asset, amount: Amount) -> Boxed<'a, Result<bool, PayerError>>;
    fn prepare<'a>(&'a self, payment: &'a TransferRequest) -> Boxed<'a, Result<PreparedTransfer, PayerError>>;
    fn send<'a>(&'a self, prepared: &'a PreparedTransfer) -> Boxed<'a, Result<TxHash, PayerError>>;
    fn status<'a>(&'a self, prepared: &'a [PreparedTransfer]) -> Boxed<'a, Result<TransferStatus, PayerError>>;
    fn replace<'a>(
        &'a self,
        prepared: &'a [PreparedTransfer],
    ) -> Boxed<'a, Result<Option<PreparedTransfer>, PayerError>>;
    fn sign<'a>(
        &'a self,
        message: &'a str,
        account: Address,
    ) -> Boxed<'a, Result<Option<PaymentSignature>, PayerError>>;
    fn authorizations(&self) -> Option<&dyn ErasedAuthorizer>;
    fn permits(&self) -> Option<&dyn ErasedPermitSigner>;
    fn channels(&self) -> Option<&dyn ErasedChannelSigner>;
}

/// The object-safe twin of [`Authorizer`].
pub(crate) trait ErasedAuthorizer: Send + Sync + 'static {
    fn authorizes<'a>(&'a self, asset: &'a Asset, amount: Amount)
    -> Boxed<'a, Result<Option<TokenDomain>, PayerError>>;
    fn authorize<'a>(&'a self, request: &'a AuthorizationRequest)
    -> Boxed<'a, Result<SignedAuthorization, PayerError>>;
    fn authorization_status<'a>(
        &'a self,
        prepared: &'a PreparedAuthorization,
        since: ChainTime,
    ) -> Boxed<'a, Result<AuthorizationStatus, PayerError>>;
    fn prepare_cancellation<'a>(
        &'a self,
        authorized: &'a PreparedAuthorization,
    ) -> Boxed<'a, Result<PreparedTransfer, PayerError>>;
}

impl<P: Payer> ErasedPayer for P {
    fn submit_guard(&self, network: Network) -> Boxed<'_, SubmitGuard> {
        Box::pin(Payer::submit_guard(self, network))
    }

    fn can_transfer<'a>(&'a self, asset: &'a Asset, amount: Amount) -> Boxed<'a, Result<bool, PayerError>> {
        Box::pin(Payer::can_transfer(self, asset, amount))
    }

    fn prepare<'a>(&'a self, payment: &'a TransferRequest) -> Boxed<'a, Result<PreparedTransfer, PayerError>> {
        Box::pin(Payer::prepare(self, payment))
    }

    fn send<'a>(&'a self, prepared: &'a PreparedTransfer) -> Boxed<'a, Result<TxHash, PayerError>> {
        Box::pin(Payer::send(self, prepared))
    }

    fn status<'a>(&'a self, prepared: &'a [PreparedTransfer]) -> Boxed<'a, Result<TransferStatus, PayerError>> {
        Box::pin(Payer::status(self, prepared))
    }

    fn replace<'a>(
        &'a self,
        prepared: &'a [PreparedTransfer],
    ) -> Boxed<'a, Result<Option<PreparedTransfer>, PayerError>> {
        Box::pin(Payer::replace(self, prepared))
    }

    fn sign<'a>(
        &'a self,
        message: &'a str,
        account: Address,
    ) -> Boxed<'a, Result<Option<PaymentSignature>, PayerError>> {
        Box::pin(Payer::sign(self, message, account))
    }

    fn authorizations(&self) -> Option<&dyn ErasedAuthorizer> {
        Payer::authorizations(self).map(|authorizer| authorizer as &dyn ErasedAuthorizer)
    }

    fn permits(&self) -> Option<&dyn ErasedPermitSigner> {
        Payer::permits(self).map(|signer| signer as &dyn ErasedPermitSigner)
    }

    fn channels(&self) -> Option<&dyn ErasedChannelSigner> {
        Payer::channels(self).map(|signer| signer as &dyn ErasedChannelSigner)
    }
}

impl<A: Authorizer> ErasedAuthorizer for A {
    fn authorizes<'a>(
        &'a self,
        asset: &'a Asset,
        amount: Amount,
    ) -> Boxed<'a, Result<Option<TokenDomain>, PayerError>> {
        Box::pin(Authorizer::authorizes(self, asset, amount))
    }

    fn authorize<'a>(
        &'a self,
        request: &'a AuthorizationRequest,
    ) -> Boxed<'a, Result<SignedAuthorization, PayerError>> {
        Box::pin(Authorizer::authorize(self, request))
    }

    fn authorization_status<'a>(
        &'a self,
        prepared: &'a PreparedAuthorization,
        since: ChainTime,
    ) -> Boxed<'a, Result<AuthorizationStatus, PayerError>> {
        Box::pin(Authorizer::authorization_status(self, prepared, since))
    }

    fn prepare_cancellation<'a>(
        &'a self,
        authorized: &'a PreparedAuthorization,
    ) -> Boxed<'a, Result<PreparedTransfer, PayerError>> {
        Box::pin(Authorizer::prepare_cancellation(self, authorized))
    }
}

/// The object-safe twin of [`PermitSigner`].
pub(crate) trait ErasedPermitSigner: Send + Sync + 'static {
    fn permit_funds<'a>(&'a self, asset: &'a Asset) -> Boxed<'a, Result<Option<PermitFunds>, PayerError>>;
    fn permit<'a>(&'a self, request: &'a PermitRequest) -> Boxed<'a, Result<SignedPermit, PayerError>>;
    fn permit_status<'a>(&'a self, prepared: &'a PreparedPermit) -> Boxed<'a, Result<AuthorizationStatus, PayerError>>;
    fn permit_charge<'a>(
        &'a self,
        prepared: &'a PreparedPermit,
        transaction: TxHash,
    ) -> Boxed<'a, Result<Option<Amount>, PayerError>>;
}

impl<P: PermitSigner> ErasedPermitSigner for P {
    fn permit_funds<'a>(&'a self, asset: &'a Asset) -> Boxed<'a, Result<Option<PermitFunds>, PayerError>> {
        Box::pin(PermitSigner::permit_funds(self, asset))
    }

    fn permit<'a>(&'a self, request: &'a PermitRequest) -> Boxed<'a, Result<SignedPermit, PayerError>> {
        Box::pin(PermitSigner::permit(self, request))
    }

    fn permit_status<'a>(&'a self, prepared: &'a PreparedPermit) -> Boxed<'a, Result<AuthorizationStatus, PayerError>> {
        Box::pin(PermitSigner::permit_status(self, prepared))
    }

    fn permit_charge<'a>(
        &'a self,
        prepared: &'a PreparedPermit,
        transaction: TxHash,
    ) -> Boxed<'a, Result<Option<Amount>, PayerError>> {
        Box::pin(PermitSigner::permit_charge(self, prepared, transaction))
    }
}
