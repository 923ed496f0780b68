//! `Authorizer`: signs authorizations, which the seller turns into transfers.

use std::future::Future;

use super::{
    authorization::{AuthorizationRequest, AuthorizationStatus},
    error::PayerError,
    transfer::{PreparedAuthorization, PreparedTransfer},
};
use crate::protocol::{Amount, Asset, ChainTime, TokenDomain, v2::SignedAuthorization};

/// Signs authorizations (EIP-3009): an optional capability of a [`Payer`](super::Payer), which
/// [`Payer::authorizations`](super::Payer::authorizations) returns. [`WalletPayer`](crate::client::WalletPayer) has it.
///
/// The layer calls [`authorizes`](Self::authorizes), then [`authorize`](Self::authorize). *The journal records the
/// signature, durably*, and the seller is shown it. While its outcome is uncertain, the layer calls
/// [`authorization_status`](Self::authorization_status). To [cancel](crate::client::PayLayer::cancel) it, the layer
/// calls [`prepare_cancellation`](Self::prepare_cancellation), and sends that transaction like a transfer.
pub trait Authorizer: Send + Sync + 'static {
    /// Returns the domain under which this payer would sign an authorization of that amount of a token. Returns `None`
    /// if it cannot: the token has no domain, or the account holds less.
    ///
    /// Name and version must be the token's own, as its contract states them: the seller's are compared with these.
    ///
    /// # Errors
    /// [`PayerError`] if that cannot be determined now.
    fn authorizes(
        &self,
        asset: &Asset,
        amount: Amount,
    ) -> impl Future<Output = Result<Option<TokenDomain>, PayerError>> + Send;

    /// Signs an authorization and sends nothing: the layer records the result, and then shows it to the seller.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be signed: nothing exists that could be settled.
    fn authorize(
        &self,
        request: &AuthorizationRequest,
    ) -> impl Future<Output = Result<SignedAuthorization, PayerError>> + Send;

    /// Returns the state of an authorization that was signed at `since`.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be determined. That says nothing about the payment.
    fn authorization_status(
        &self,
        prepared: &PreparedAuthorization,
        since: ChainTime,
    ) -> impl Future<Output = Result<AuthorizationStatus, PayerError>> + Send;

    /// Prepares a transaction that uses up an authorization's nonce without a transfer, without sending it.
    ///
    /// The layer treats it like a transfer: it holds the [`submit_guard`](super::Payer::submit_guard), records the
    /// transaction, and then [sends](super::Payer::send), [follows](super::Payer::status) and
    /// [replaces](super::Payer::replace) it. [`authorization_status`](Self::authorization_status) tells whether it came
    /// before the seller's transaction.
    ///
    /// # Errors
    /// [`PayerError`]: nothing was sent, and nothing exists that could be.
    fn prepare_cancellation(
        &self,
        authorized: &PreparedAuthorization,
    ) -> impl Future<Output = Result<PreparedTransfer, PayerError>> + Send;
}

/// The type for payers that sign no authorizations; it has no value.
#[derive(Debug)]
pub(super) enum NoAuthorizer {}

impl Authorizer for NoAuthorizer {
    async fn authorizes(&self, _: &Asset, _: Amount) -> Result<Option<TokenDomain>, PayerError> {
        match *self {}
    }

    async fn authorize(&self, _: &AuthorizationRequest) -> Result<SignedAuthorization, PayerError> {
        match *self {}
    }

    async fn authorization_status(
        &self,
        _: &PreparedAuthorization,
        _: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        match *self {}
    }

    async fn prepare_cancellation(&self, _: &PreparedAuthorization) -> Result<PreparedTransfer, PayerError> {
        match *self {}
    }
}
