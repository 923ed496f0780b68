//! Requests to a payer, and its results: a transfer to send, or a signature to show.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{stored, stored_permit};
use crate::{
    client::PurchaseId,
    protocol::{
        Address, Amount, Asset, ChainTime, Network, PaymentTag, TxHash, permit2::SignedPermit, v2::SignedAuthorization,
    },
};

/// A request to make one transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TransferRequest {
    /// The purchase that is paid. A custodian derives its idempotency key from it.
    pub purchase: PurchaseId,
    /// The chain.
    pub network: Network,
    /// The account to pay.
    pub recipient: Address,
    /// The amount, in base units of the chosen asset; all have the same decimals.
    pub amount: Amount,
    /// The assets to choose from, in the seller's order; never empty, all on `network`.
    pub assets: Vec<Asset>,
    /// The tag that distinguishes this transfer from others of the same amount to the same recipient, and binds it to
    /// its quote. A payer that writes its own transactions appends it to the call data.
    pub tag: PaymentTag,
}

impl TransferRequest {
    /// Creates a request for the tests of a payer. Its tag is that of the purchase's name; the layer uses the quote's
    /// intent.
    #[must_use]
    pub fn new(
        purchase: PurchaseId,
        network: Network,
        recipient: Address,
        amount: Amount,
        assets: impl IntoIterator<Item = Asset>,
    ) -> Self {
        let tag = PaymentTag::of(&purchase.to_string());
        Self { purchase, network, recipient, amount, assets: assets.into_iter().collect(), tag }
    }

    /// Returns the same request with the tag of another secret.
    #[must_use]
    pub fn tagged(mut self, secret: &str) -> Self {
        self.tag = PaymentTag::of(secret);
        self
    }
}

/// A transfer that is ready to be sent. The journal keeps it, so that a crash cannot lose it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PreparedTransfer {
    /// The account that pays.
    pub payer: Address,
    /// The chain that it pays on.
    pub network: Network,
    /// The token that is paid with.
    pub token: Address,
    /// The payload to send. Only the payer reads it.
    pub(crate) order: TransferOrder,
    /// The highest cost of its transaction for the payer, in the smallest unit of the chain's coin (wei); zero if the
    /// payer bears no fee.
    pub fee: Amount,
}

/// What a payer needs to send a transfer.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum TransferOrder {
    /// A signed transaction.
    Signed {
        /// Its hash.
        transaction: TxHash,
        /// The account's nonce.
        nonce: u64,
        /// The transaction, as it is sent.
        raw: String,
    },
    /// An order to a custodian, which pays once however often it is sent under one key.
    Keyed {
        /// The idempotency key.
        key: String,
        /// The transaction, once the custodian has named it.
        transaction: Option<TxHash>,
    },
}

/// A signed authorization that is ready to be shown. Anyone who has it can settle the payment, but only to the named
/// account.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PreparedAuthorization {
    /// The chain that it pays on.
    pub network: Network,
    /// The token that is paid with.
    pub token: Address,
    /// The signed authorization.
    #[serde(with = "stored")]
    pub signed: SignedAuthorization,
    /// The message that the seller is shown, as JSON.
    pub message: String,
}

/// A signed permit that is ready to be shown. Its settler can pay only the named account, and at most the signed
/// amount.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PreparedPermit {
    /// The chain that it pays on.
    pub network: Network,
    /// The signed permit.
    #[serde(with = "stored_permit")]
    pub signed: SignedPermit,
    /// The message that the seller is shown, as JSON.
    pub message: String,
}

impl PreparedTransfer {
    /// Describes a signed transaction with a known hash and nonce.
    #[must_use]
    pub fn signed(
        payer: Address,
        network: Network,
        token: Address,
        nonce: u64,
        transaction: TxHash,
        raw: impl Into<String>,
    ) -> Self {
        let order = TransferOrder::Signed { transaction, nonce, raw: raw.into() };
        Self { payer, network, token, order, fee: Amount::ZERO }
    }

    /// Describes an order to a custodian, under an idempotency key: sent twice, it pays once.
    #[must_use]
    pub fn keyed(payer: Address, network: Network, token: Address, idempotency_key: impl Into<String>) -> Self {
        let order = TransferOrder::Keyed { key: idempotency_key.into(), transaction: None };
        Self { payer, network, token, order, fee: Amount::ZERO }
    }

    /// Sets the highest cost of its transaction, in wei, which a [`Budget`](crate::client::Budget) limits as gas.
    #[must_use]
    pub const fn costing(mut self, fee: Amount) -> Self {
        self.fee = fee;
        self
    }

    /// Returns the transaction, if it is known.
    #[must_use]
    pub const fn transaction(&self) -> Option<TxHash> {
        match &self.order {
            TransferOrder::Signed { transaction, .. } => Some(*transaction),
            TransferOrder::Keyed { transaction, .. } => *transaction,
        }
    }

    /// Returns the account's nonce, if the payer chose one.
    #[must_use]
    pub const fn nonce(&self) -> Option<u64> {
        if let TransferOrder::Signed { nonce, .. } = &self.order { Some(*nonce) } else { None }
    }

    /// Returns the payload: the signed transaction, or the idempotency key.
    #[must_use]
    pub fn payload(&self) -> &str {
        match &self.order {
            TransferOrder::Signed { raw, .. } => raw,
            TransferOrder::Keyed { key, .. } => key,
        }
    }

    /// Notes the transaction that a custodian named.
    pub(crate) const fn set_transaction(&mut self, named: TxHash) {
        if let TransferOrder::Keyed { transaction, .. } = &mut self.order {
            *transaction = Some(named);
        }
    }
}

impl PreparedAuthorization {
    /// Describes a signed authorization of this token, and its message.
    #[must_use]
    pub fn new(network: Network, token: Address, signed: SignedAuthorization, message: impl Into<String>) -> Self {
        Self { network, token, signed, message: message.into() }
    }
}

impl PreparedPermit {
    /// Describes a signed permit, and its message.
    #[must_use]
    pub fn new(network: Network, signed: SignedPermit, message: impl Into<String>) -> Self {
        Self { network, signed, message: message.into() }
    }

    /// Returns the time before which it can be used: one second after its deadline.
    #[must_use]
    pub const fn valid_before(&self) -> ChainTime {
        ChainTime::from_unix(self.signed.permit.deadline.unix().saturating_add(1))
    }
}

/// Omits the payload.
impl fmt::Debug for PreparedTransfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedTransfer")
            .field("payer", &self.payer)
            .field("network", &self.network)
            .field("token", &self.token)
            .field("transaction", &self.transaction())
            .field("nonce", &self.nonce())
            .finish_non_exhaustive()
    }
}

/// Omits the payload.
impl fmt::Debug for TransferOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if let Self::Signed { .. } = self { "Signed" } else { "Keyed" })
    }
}

/// Omits signature and message.
impl fmt::Debug for PreparedAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedAuthorization")
            .field("network", &self.network)
            .field("token", &self.token)
            .field("authorization", &self.signed.authorization)
            .finish_non_exhaustive()
    }
}

/// Omits signature and message.
impl fmt::Debug for PreparedPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedPermit")
            .field("network", &self.network)
            .field("permit", &self.signed.permit)
            .finish_non_exhaustive()
    }
}
