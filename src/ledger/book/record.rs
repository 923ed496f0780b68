//! `BookedSale` and `Refund`: the records of the book.

use std::time::SystemTime;

use crate::protocol::{Address, Amount, ChainTime, Network, Payment, PaymentId, TxHash};

/// A sale in the book.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BookedSale {
    /// The payment's id, as in the receipt.
    pub payment: PaymentId,
    /// The seller's name of the sold resource.
    pub resource: String,
    /// The chain.
    pub network: Network,
    /// The token contract.
    pub token: Address,
    /// The payer.
    pub payer: Address,
    /// The recipient.
    pub recipient: Address,
    /// The amount that was paid, in base units; the charge, if the handler set one.
    pub amount: Amount,
    /// The maximum that the payer allowed, in base units, if the handler set the charge; `None` at a fixed price.
    pub maximum: Option<Amount>,
    /// The transaction that paid, if known.
    pub transaction: Option<TxHash>,
    /// The number of its block; `None` if the merchant does not read the chain.
    pub block_number: Option<u64>,
    /// The time of its block, the latest one that was seen. If the merchant does not read the chain: when the payment
    /// was shown.
    pub block_time: ChainTime,
    /// When the sale was recorded, by the ledger's clock.
    pub sold_at: SystemTime,
    /// Its refund, if the seller noted one.
    pub refund: Option<Refund>,
}

impl BookedSale {
    /// Returns the sale of this payment, without a refund.
    #[must_use]
    pub fn new(resource: impl Into<String>, paid: &Payment, sold_at: SystemTime) -> Self {
        Self {
            payment: paid.id(),
            resource: resource.into(),
            network: paid.network(),
            token: paid.token(),
            payer: paid.payer(),
            recipient: paid.recipient(),
            amount: paid.amount(),
            maximum: None,
            transaction: paid.transaction(),
            block_number: paid.block_number(),
            block_time: paid.time(),
            sold_at,
            refund: None,
        }
    }

    /// Sets the maximum that the payer allowed.
    #[must_use]
    pub fn with_maximum(self, maximum: Option<Amount>) -> Self {
        Self { maximum, ..self }
    }

    /// Sets the refund.
    #[must_use]
    pub fn with_refund(self, refund: Option<Refund>) -> Self {
        Self { refund, ..self }
    }
}

/// A refund of a payment by the seller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refund {
    /// The refunding transaction, as the seller stated it.
    pub transaction: TxHash,
    /// When the refund was noted, by the ledger's clock.
    pub noted_at: SystemTime,
}

impl Refund {
    /// Returns a refund.
    #[must_use]
    pub const fn new(transaction: TxHash, noted_at: SystemTime) -> Self {
        Self { transaction, noted_at }
    }
}

/// The result of a noted refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum RefundOutcome {
    /// The refund is noted, durably.
    Noted,
    /// The same refund was noted before.
    NotedBefore,
    /// A different refund of this payment was noted before, and stays: the payment may have been refunded twice.
    Differs {
        /// The transaction that was noted.
        transaction: TxHash,
    },
}

/// The book's record of a payment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KnownPayment {
    /// Whether the payment bought an answer.
    pub sold: bool,
    /// Its refund, if the seller noted one.
    pub refund: Option<Refund>,
}

impl KnownPayment {
    /// Returns the record of a payment.
    #[must_use]
    pub const fn new(sold: bool, refund: Option<Refund>) -> Self {
        Self { sold, refund }
    }
}
