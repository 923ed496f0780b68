//! `TransferMethod` and `PaymentFlow`: the two reserved members of `extra`.

use serde_json::Value;

use super::JsonObject;

/// How the tokens move: `extra.assetTransferMethod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransferMethod {
    /// By an EIP-3009 authorization that someone else settles; the default.
    Eip3009,
    /// By the payer, before the proof.
    TxId,
    /// By a [permit](crate::protocol::permit2::Permit) that someone else settles.
    Permit2,
    /// By a method that this crate does not know.
    Other,
}

/// When a payment is settled: `extra.paymentFlow`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PaymentFlow {
    /// After the answer is ready, before it is sent; the default.
    Authorization,
    /// Before the answer is produced.
    Upfront,
    /// Into a third party's account.
    Escrow,
    /// By a flow that this crate does not know.
    Other,
}

/// The name of the method Permit2.
pub(super) const PERMIT2: &str = "permit2";

impl TransferMethod {
    pub(super) fn of(extra: &JsonObject) -> Self {
        match extra.get("assetTransferMethod").map(Value::as_str) {
            None | Some(Some("eip3009")) => Self::Eip3009,
            Some(Some("txid")) => Self::TxId,
            Some(Some(PERMIT2)) => Self::Permit2,
            Some(_) => Self::Other,
        }
    }
}

impl PaymentFlow {
    pub(super) fn of(extra: &JsonObject) -> Self {
        match extra.get("paymentFlow").map(Value::as_str) {
            None | Some(Some("authorization")) => Self::Authorization,
            Some(Some("upfront")) => Self::Upfront,
            Some(Some("escrow")) => Self::Escrow,
            Some(_) => Self::Other,
        }
    }
}
