//! `PermitSigner`: signs permits (Permit2), which the seller turns into transfers.

use std::future::Future;

use super::{
    authorization::AuthorizationStatus,
    error::PayerError,
    permit::{PermitFunds, PermitRequest},
    transfer::PreparedPermit,
};
use crate::protocol::{Amount, Asset, TxHash, permit2::SignedPermit};

/// Signs permits (Permit2): an optional capability of a [`Payer`](super::Payer), which [`Payer::permits`](super::Payer::permits) returns.
/// [`WalletPayer`](crate::client::WalletPayer) has it.
///
/// The layer calls [`permit_funds`](Self::permit_funds), then [`permit`](Self::permit). *The journal records the
/// signature, durably*, and the seller is shown it. While its outcome is uncertain, the layer calls
/// [`permit_status`](Self::permit_status).
pub trait PermitSigner: Send + Sync + 'static {
    /// Returns the account's balance of a token, and how much of it Permit2 may move; `None` if this payer signs no
    /// permits of it.
    ///
    /// # Errors
    /// [`PayerError`] if that cannot be determined now.
    fn permit_funds(&self, asset: &Asset) -> impl Future<Output = Result<Option<PermitFunds>, PayerError>> + Send;

    /// Signs a permit and sends nothing: the layer records the result, and then shows it to the seller.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be signed: nothing exists that could be settled.
    fn permit(&self, request: &PermitRequest) -> impl Future<Output = Result<SignedPermit, PayerError>> + Send;

    /// Returns the status of a permit. Its nonce alone decides: the transaction is not searched for.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be determined. That says nothing about the payment.
    fn permit_status(
        &self,
        prepared: &PreparedPermit,
    ) -> impl Future<Output = Result<AuthorizationStatus, PayerError>> + Send;

    /// Returns how much of the permit this transaction charged, in base units; `None` unless it certainly used this
    /// permit.
    ///
    /// A budget counts a charge below the signed maximum only on the basis of this result.
    ///
    /// # Errors
    /// [`PayerError`] if it cannot be determined now.
    fn permit_charge(
        &self,
        prepared: &PreparedPermit,
        transaction: TxHash,
    ) -> impl Future<Output = Result<Option<Amount>, PayerError>> + Send;
}

/// The type for payers that sign no permits; it has no value.
#[derive(Debug)]
pub(super) enum NoPermitSigner {}

impl PermitSigner for NoPermitSigner {
    async fn permit_funds(&self, _: &Asset) -> Result<Option<PermitFunds>, PayerError> {
        match *self {}
    }

    async fn permit(&self, _: &PermitRequest) -> Result<SignedPermit, PayerError> {
        match *self {}
    }

    async fn permit_status(&self, _: &PreparedPermit) -> Result<AuthorizationStatus, PayerError> {
        match *self {}
    }

    async fn permit_charge(&self, _: &PreparedPermit, _: TxHash) -> Result<Option<Amount>, PayerError> {
        match *self {}
    }
}
