//! `NoPayer`: for clients that only redeem payments made elsewhere.

use super::{Payer, PayerError, PreparedTransfer, SubmitGuard, TransferRequest, TransferStatus};
use crate::protocol::{Address, Network, PaymentSignature, TxHash};

/// Pays nothing.
pub(crate) struct NoPayer;

const REFUSAL: PayerError = PayerError::Refused("this client has no wallet");

impl Payer for NoPayer {
    async fn submit_guard(&self, _: Network) -> SubmitGuard {
        SubmitGuard::free()
    }

    async fn prepare(&self, _: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        Err(REFUSAL)
    }

    async fn send(&self, _: &PreparedTransfer) -> Result<TxHash, PayerError> {
        Err(REFUSAL)
    }

    async fn status(&self, _: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        Err(REFUSAL)
    }

    async fn replace(&self, _: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        Err(REFUSAL)
    }

    async fn sign(&self, _: &str, _: Address) -> Result<Option<PaymentSignature>, PayerError> {
        Ok(None)
    }
}
