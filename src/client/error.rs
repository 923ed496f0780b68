//! `PayError`: everything that can go wrong, and the transaction wherever money may have moved.

use http::StatusCode;

use super::{BudgetDenial, JournalError, PayerError, PurchaseId};
use crate::protocol::{ProblemCode, QuoteError, TxHash};

/// Why there is no answer.
///
/// [`transaction`](Self::transaction) names the transfer wherever one may have been sent.
/// [`is_resumable`](Self::is_resumable) says whether sending the same request again goes on with that same payment:
/// where it does, nothing is lost, and nothing more is paid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayError {
    /// The layer's patience was over before any money moved. Nothing was paid.
    #[error("{0} took longer than the layer's patience: nothing was paid")]
    TimedOut(&'static str),
    /// The request failed before a quote was there. Nothing was paid.
    #[error("the request failed before anything was paid")]
    Http(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The 402 names a price, but not in a way that can be read. Nothing was paid.
    #[error("the quote cannot be read: nothing was paid")]
    Quote(#[from] QuoteError),
    /// The body can be sent once only, and it has been. Nothing was paid.
    #[error("the answer costs money, and the request's body cannot be sent again with the proof: nothing was paid")]
    NotReplayable,
    /// The budget does not allow it. Nothing was paid.
    #[error(transparent)]
    Declined(#[from] BudgetDenial),
    /// No transfer could be made ready. Nothing was paid.
    #[error("no transfer could be made ready, so nothing was paid")]
    Payer(#[source] PayerError),
    /// The journal did not take down what was to be paid, so it was not. Nothing was paid.
    #[error("the journal did not take the payment down, so nothing was paid")]
    Journal(#[source] JournalError),
    /// The request was to finish a purchase, and the journal has none open for it. Nothing was paid.
    #[error("the journal has no unfinished purchase of this request: nothing was paid")]
    NothingToResume,
    /// A transfer is recorded, and was in no block in time. It may still be mined.
    #[error("the payment is in no block yet: send the same request again to go on with it")]
    Unsettled {
        /// The transaction to look for, where it is known.
        transaction: Option<TxHash>,
        /// What the payer said last, if it failed.
        #[source]
        reason: Option<PayerError>,
    },
    /// The transaction is in a block and transferred nothing.
    #[error("the payment {transaction} was reverted: nothing was transferred")]
    Reverted {
        /// The transaction.
        transaction: TxHash,
    },
    /// Other transactions of the same account took the payment's place, again and again. Nothing was transferred.
    #[error("other transactions of the wallet took the payment's place: nothing was transferred")]
    Displaced,
    /// The seller refuses the payment for good.
    #[error("paid with {transaction}, and refused: {} {}", code.as_str(), code.detail())]
    Refused {
        /// The transaction.
        transaction: TxHash,
        /// The seller's reason.
        code: ProblemCode,
    },
    /// The seller finds fault with the request, and the payment stays unspent.
    #[error("paid with {transaction}, and the seller cannot read the request: {status}")]
    Misunderstood {
        /// The transaction.
        transaction: TxHash,
        /// What it answered.
        status: StatusCode,
    },
    /// The seller answers a proof of payment with another bill. It is not paid.
    #[error("paid with {transaction}, and billed again: the other bill was not paid{}", ended(*is_last))]
    BilledAgain {
        /// The transaction.
        transaction: TxHash,
        /// Whether that was once too often. Then the purchase is closed: the same request would pay anew.
        is_last: bool,
    },
    /// A payment for this request bought nothing, and does not cover what the seller asks for now. Nothing more was
    /// paid, and nothing more is paid by the same request for as long as that payment is kept.
    ///
    /// [`ResumeOnly`](super::ResumeOnly) shows it once more under the quote that it was made for, a request to the same
    /// seller at the old price uses it, and [`PayLayer::abandon`](super::PayLayer::abandon) gives it up.
    #[error(
        "paid {paid} with {transaction}, which bought nothing, and the seller now asks for {asked}: nothing more was paid, nor is it by the same request"
    )]
    NotCovered {
        /// The purchase that the payment was made for.
        purchase: PurchaseId,
        /// The transaction.
        transaction: TxHash,
        /// What was paid, as a decimal.
        paid: String,
        /// What is asked for now, as a decimal; with a remark where it is to be paid to another recipient, on another
        /// chain or in another token.
        asked: String,
    },
    /// The seller sends the proof of payment elsewhere. It was not sent there.
    #[error("paid with {transaction}, and sent elsewhere: the proof is for the seller alone")]
    Redirected {
        /// The transaction.
        transaction: TxHash,
    },
    /// The payment stands, and the answer did not come in time.
    #[error("paid with {transaction}, and no answer yet: send the same request again to go on with it")]
    Unanswered {
        /// The transaction.
        transaction: TxHash,
        /// The seller's last reason, if it gave one.
        code: Option<ProblemCode>,
    },
}

const fn ended(is_last: bool) -> &'static str {
    if is_last { ", and the payment was given up as lost: the same request would pay anew" } else { "" }
}

impl PayError {
    /// The transfer, where one was sent or may have been.
    #[must_use]
    pub const fn transaction(&self) -> Option<TxHash> {
        match self {
            Self::Unsettled { transaction, .. } => *transaction,
            Self::Reverted { transaction }
            | Self::Refused { transaction, .. }
            | Self::Misunderstood { transaction, .. }
            | Self::BilledAgain { transaction, .. }
            | Self::NotCovered { transaction, .. }
            | Self::Redirected { transaction }
            | Self::Unanswered { transaction, .. } => Some(*transaction),
            _ => None,
        }
    }

    /// Whether the journal holds a payment for this request that the same request will go on with.
    #[must_use]
    pub const fn is_resumable(&self) -> bool {
        matches!(
            self,
            Self::Unsettled { .. }
                | Self::Misunderstood { .. }
                | Self::BilledAgain { is_last: false, .. }
                | Self::NotCovered { .. }
                | Self::Redirected { .. }
                | Self::Unanswered { .. }
        )
    }
}
