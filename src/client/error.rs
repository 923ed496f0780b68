//! `PayError`: everything that can go wrong, and the transaction wherever money may have moved.

use http::StatusCode;

use super::{BudgetDenial, JournalEntry, JournalError, PayerError, PurchaseId, box_error::BoxError};
use crate::protocol::{Amount, ChainTime, ProblemCode, QuoteError, TxHash, v2::Reason};

/// Where the money of a failed call is: see [`PayError::money`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Money {
    /// Nothing was paid, and nothing of this call will be.
    Untouched,
    /// The seller was paid nothing, and nothing of this call will be. The network took its fee for a transaction of the account.
    FeeSpent {
        /// The transaction, where it is known: that of the payment. Else another one of the account took the payment's place.
        transaction: Option<TxHash>,
    },
    /// A payment may have been made, or may yet be.
    AtRisk {
        /// The moment from which on it can no longer be made, in Unix seconds of the chain, where there is one: the end of an
        /// authorization. A transfer has none.
        until: Option<ChainTime>,
    },
    /// The payment was made.
    Spent {
        /// The transaction.
        transaction: TxHash,
    },
}

/// The error of a call: why there is no answer, and where the money is.
///
/// [`money`](Self::money) says where the money is, [`transaction`](Self::transaction) names the transfer wherever one may have been sent,
/// and [`purchase`](Self::purchase) the journal's entry.
/// [`is_resumable`](Self::is_resumable) says whether sending the same request again resumes that same payment:
/// where it does, nothing is lost, and nothing more is paid.
///
/// ```
/// use tower_x402::client::{Money, PayError};
///
/// /// What to tell the person who waits.
/// fn advice(error: &PayError) -> &'static str {
///     match error {
///         PayError::Declined(_) => "the budget does not allow it",
///         error if error.is_resumable() => "ask again: the payment is kept, and nothing more is paid",
///         error if error.money() == Money::Untouched => "nothing was paid",
///         _ => "paid, or perhaps paid, and not answered: contact the seller",
///     }
/// }
/// assert_eq!(advice(&PayError::NothingToResume), "nothing was paid");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PayError {
    /// The layer's patience ended before any money moved. Nothing was paid.
    #[error("{0} took longer than the layer's patience: nothing was paid")]
    TimedOut(&'static str),
    /// The request failed before there was a quote. Nothing was paid.
    #[error("the request failed before the seller quoted a price: nothing was paid")]
    Http(#[source] BoxError),
    /// The request carried a proof of payment of the caller's own, and failed. What became of that payment is not known here.
    #[error("the request with a proof of its own failed: the outcome of that payment is unknown; send it again")]
    Forwarded(#[source] BoxError),
    /// A signed payment was not cancelled. The seller may have used it, or may use it yet.
    #[error("the signed payment of purchase {purchase} was not cancelled: it may have been used, and can be used until {} (Unix time)", valid_before.unix())]
    NotCancelled {
        /// The purchase that it was signed for.
        purchase: PurchaseId,
        /// The moment before which it can be used, in Unix seconds of the chain.
        valid_before: ChainTime,
        /// Why no cancellation was sent: a [`PayerError`], a [`BudgetDenial`] of its gas, or a [`JournalError`].
        #[source]
        reason: BoxError,
    },
    /// The 402 names a price that cannot be read. Nothing was paid.
    #[error("the seller's quote cannot be read: nothing was paid")]
    Quote(#[from] QuoteError),
    /// The body can be sent only once, and it has been. Nothing was paid.
    #[error(
        "the answer costs money, but the request's body cannot be sent again with the proof: nothing was paid; use a body in memory or `Body::from_factory`"
    )]
    NotReplayable,
    /// The budget does not allow the payment. Nothing was paid.
    #[error(transparent)]
    Declined(#[from] BudgetDenial),
    /// The payer could not prepare the payment. Nothing was paid.
    #[error("the payer could not prepare the payment: nothing was paid")]
    Payer(#[source] PayerError),
    /// The journal did not record the payment, so it was not sent. Nothing was paid.
    #[error("the journal did not record the payment, so it was not sent: nothing was paid")]
    Journal(#[source] JournalError),
    /// The request was to finish a purchase, and the journal has none open for it. Nothing was paid.
    #[error("the journal has no unfinished purchase of this request: nothing was paid")]
    NothingToResume,
    /// A transfer is recorded, and was in no block in time. It may still be mined.
    #[error("the payment is not in a block yet: send the same request again to resume it")]
    Unsettled {
        /// The purchase.
        purchase: PurchaseId,
        /// The transaction to look for, where it is known.
        transaction: Option<TxHash>,
        /// The payer's last error, if it failed.
        #[source]
        reason: Option<PayerError>,
    },
    /// The transaction is in a block and transferred nothing.
    #[error("payment {transaction} was reverted: nothing was transferred")]
    Reverted {
        /// The purchase.
        purchase: PurchaseId,
        /// The transaction.
        transaction: TxHash,
    },
    /// Other transactions of the same account used the payment's nonce, again and again. Nothing was transferred.
    #[error(
        "other transactions of the wallet used the payment's nonce: nothing was transferred; let one process send from this account"
    )]
    Displaced {
        /// The purchase.
        purchase: PurchaseId,
    },
    /// An authorization is signed for this request, the seller was shown it and did not give the answer, and by the chain it is not
    /// used. It may yet be, so nothing more is signed while it can be.
    ///
    /// The same request shows it again, and signs another one once the chain is past `valid_before`.
    /// [`PayLayer::cancel`](super::PayLayer::cancel) makes it void before that.
    #[error(
        "the seller did not take the signed payment of purchase {purchase} ({}): it can be used until {} (Unix time), and nothing more is signed before that; send the same request again, or cancel it",
        reason.as_ref().map_or("without a reason", Reason::as_str), valid_before.unix()
    )]
    Outstanding {
        /// The purchase that it was signed for.
        purchase: PurchaseId,
        /// The moment before which it can be used, in Unix seconds of the chain.
        valid_before: ChainTime,
        /// The seller's reason, if it gave one of the standard's form.
        reason: Option<Reason>,
    },
    /// An unfinished purchase of this request may yet be paid, at more than the request's own [`MaxPrice`](super::MaxPrice). It is left as
    /// it is: a request with a higher limit resumes it, and [`PayLayer::cancel`](super::PayLayer::cancel) or
    /// [`PayLayer::abandon`](super::PayLayer::abandon) gives it up.
    #[error(
        "the unfinished purchase {purchase} of this request may yet cost {price}, and the request's own limit is {limit}: it was not resumed, and nothing more was paid; resume it under a higher limit"
    )]
    AboveMaxPrice {
        /// The purchase.
        purchase: PurchaseId,
        /// The limit, as a decimal.
        price: String,
        /// The limit, as a decimal.
        limit: String,
        /// The moment before which its authorization can be used, in Unix seconds of the chain; `None` for a transfer.
        valid_before: Option<ChainTime>,
    },
    /// The authorization that was signed for this request was not used, and can never be: nothing was paid. The same request pays anew.
    #[error(
        "the signed payment was never used, and no longer can be: nothing was paid; send the request again to pay anew"
    )]
    Lapsed {
        /// The purchase.
        purchase: PurchaseId,
    },
    /// The seller refuses the payment for good.
    #[error("payment {transaction} refused by the seller: {} {}", code.as_str(), code.detail())]
    Refused {
        /// The purchase.
        purchase: PurchaseId,
        /// The transaction.
        transaction: TxHash,
        /// The seller's reason.
        code: ProblemCode,
    },
    /// The seller rejects the request itself, and the payment stays unspent.
    #[error(
        "payment {transaction} not redeemed: the seller rejected the request with {status}; a corrected request uses the payment"
    )]
    Misunderstood {
        /// The purchase.
        purchase: PurchaseId,
        /// The transaction.
        transaction: TxHash,
        /// The status of its answer.
        status: StatusCode,
    },
    /// The seller gives the answer to the payer only, and was not convinced that this is the payer. The payment stays
    /// unspent, and nothing more is paid for this request while it is kept.
    ///
    /// A payer that [signs](super::Payer::sign) redeems it by the same request. To redeem it by hand, send a request
    /// with a `paymentSignature` of the paying account over
    /// [`redemption_message`](crate::protocol::redemption_message).
    #[error("payment {transaction} not redeemed ({code}): {}; nothing more was paid", unproven(*signed, reason.is_some()))]
    Unproven {
        /// The purchase.
        purchase: PurchaseId,
        /// The transaction.
        transaction: TxHash,
        /// The seller's reason.
        code: ProblemCode,
        /// Whether the seller was shown a signature of the payer.
        signed: bool,
        /// Why the payer could not sign, if it tried.
        #[source]
        reason: Option<PayerError>,
    },
    /// The seller counts the answer as sold, it broke off on its way, and the seller does not give it again. The purchase is
    /// closed: the same request would pay anew.
    #[error(
        "the answer to payment {transaction} was lost after it was sold, and the seller does not give it again ({code}): contact the seller"
    )]
    AnswerLost {
        /// The purchase.
        purchase: PurchaseId,
        /// The transaction.
        transaction: TxHash,
        /// The seller's reason.
        code: ProblemCode,
    },
    /// The seller answers a proof of payment with another bill. It is not paid.
    #[error("payment {transaction} not redeemed: the seller billed again, and the other bill was not paid{}", ended(*is_last))]
    BilledAgain {
        /// The purchase.
        purchase: PurchaseId,
        /// The transaction.
        transaction: TxHash,
        /// Whether that was once too often. Then the purchase is closed: the same request would pay anew.
        is_last: bool,
    },
    /// A payment for this request bought nothing, and does not cover what the seller asks for now. Nothing more was
    /// paid, and nothing more is paid by the same request for as long as that payment is kept.
    ///
    /// [`ResumeOnly`](super::ResumeOnly) presents it once more under the quote that it was made for, a request to the
    /// same seller at the old price uses it, and [`PayLayer::abandon`](super::PayLayer::abandon) gives it up.
    #[error(
        "payment {transaction} of {} bought nothing, and {}: nothing more was paid; resume the purchase, or abandon it to pay anew",
        paid.to_decimal(*decimals), reason.text(*asked, *decimals)
    )]
    NotCovered {
        /// The purchase that the payment was made for.
        purchase: PurchaseId,
        /// The transaction.
        transaction: TxHash,
        /// The amount that was paid, in base units.
        paid: Amount,
        /// The decimals of the token that was paid.
        decimals: u8,
        /// The amount that the new quote asks for, in base units of the token that it names.
        asked: Amount,
        /// How the new quote differs.
        reason: NotCovered,
    },
    /// The seller redirects the proof of payment. It was not sent there.
    #[error("payment {transaction} not redeemed: the seller redirected, and proofs are never forwarded")]
    Redirected {
        /// The purchase.
        purchase: PurchaseId,
        /// The transaction.
        transaction: TxHash,
    },
    /// The payment was made, and the answer did not come in time.
    #[error("payment {transaction} has no answer yet: send the same request again to resume it")]
    Unanswered {
        /// The purchase.
        purchase: PurchaseId,
        /// The transaction.
        transaction: TxHash,
        /// The seller's last reason, if it gave one.
        code: Option<ProblemCode>,
    },
}

const fn unproven(signed: bool, failed: bool) -> &'static str {
    match (signed, failed) {
        (true, _) => {
            "the seller does not accept the payer's signature; check that the payer's own account paid, or contact the seller"
        }
        (false, true) => {
            "only the payer can redeem this payment, and the payer could not sign; send the same request again"
        }
        (false, false) => {
            "only the payer can redeem this payment, and this payer does not sign; send the same request with a payer that signs for the account that paid"
        }
    }
}

const fn ended(is_last: bool) -> &'static str {
    if is_last { "; the payment was given up as lost, and the same request would pay anew" } else { "" }
}

impl PayError {
    /// The error of a purchase whose authorization may still be used.
    pub(super) fn outstanding(entry: &JournalEntry, reason: Option<Reason>) -> Self {
        let valid_before =
            entry.authorization().map_or(ChainTime::from_unix(0), |signed| signed.authorization.valid_before);
        Self::Outstanding { purchase: entry.id, valid_before, reason }
    }

    /// Returns the transfer, where one was sent or may have been.
    #[must_use]
    pub const fn transaction(&self) -> Option<TxHash> {
        match (self, self.money()) {
            (Self::Unsettled { transaction, .. }, _) => *transaction,
            (_, Money::Spent { transaction } | Money::FeeSpent { transaction: Some(transaction) }) => Some(transaction),
            _ => None,
        }
    }

    /// Returns the purchase that the call worked on, where one was begun: its name in the journal.
    #[must_use]
    pub const fn purchase(&self) -> Option<PurchaseId> {
        self.facts().0
    }

    /// Returns where the money is, as far as it is known.
    ///
    /// ```
    /// use tower_x402::client::{Money, PayError};
    ///
    /// fn advice(error: &PayError) -> &'static str {
    ///     match error.money() {
    ///         Money::Untouched => "nothing was paid",
    ///         Money::Spent { .. } if !error.is_resumable() => "paid, and not answered: contact the seller",
    ///         _ => "ask again: nothing more is paid",
    ///     }
    /// }
    /// assert_eq!(advice(&PayError::NothingToResume), "nothing was paid");
    /// ```
    #[must_use]
    pub const fn money(&self) -> Money {
        self.facts().1
    }

    /// Returns whether the journal holds a payment for this request that the same request resumes.
    #[must_use]
    pub const fn is_resumable(&self) -> bool {
        self.facts().2
    }

    /// The purchase, where the money is, and whether the same request resumes that payment.
    const fn facts(&self) -> (Option<PurchaseId>, Money, bool) {
        match self {
            Self::TimedOut(_)
            | Self::Http(_)
            | Self::Quote(_)
            | Self::NotReplayable
            | Self::Declined(_)
            | Self::Payer(_)
            | Self::Journal(_)
            | Self::NothingToResume => (None, Money::Untouched, false),
            Self::Forwarded(_) => (None, Money::AtRisk { until: None }, false),
            Self::Lapsed { purchase } => (Some(*purchase), Money::Untouched, false),
            Self::Displaced { purchase } => (Some(*purchase), Money::FeeSpent { transaction: None }, false),
            Self::Reverted { purchase, transaction } => {
                (Some(*purchase), Money::FeeSpent { transaction: Some(*transaction) }, false)
            }
            Self::NotCancelled { purchase, valid_before, .. } | Self::Outstanding { purchase, valid_before, .. } => {
                (Some(*purchase), Money::AtRisk { until: Some(*valid_before) }, true)
            }
            Self::AboveMaxPrice { purchase, valid_before, .. } => {
                (Some(*purchase), Money::AtRisk { until: *valid_before }, true)
            }
            Self::Unsettled { purchase, .. } => (Some(*purchase), Money::AtRisk { until: None }, true),
            Self::Refused { purchase, transaction, .. }
            | Self::AnswerLost { purchase, transaction, .. }
            | Self::BilledAgain { purchase, transaction, is_last: true } => {
                (Some(*purchase), Money::Spent { transaction: *transaction }, false)
            }
            Self::Misunderstood { purchase, transaction, .. }
            | Self::Unproven { purchase, transaction, .. }
            | Self::BilledAgain { purchase, transaction, is_last: false }
            | Self::NotCovered { purchase, transaction, .. }
            | Self::Redirected { purchase, transaction }
            | Self::Unanswered { purchase, transaction, .. } => {
                (Some(*purchase), Money::Spent { transaction: *transaction }, true)
            }
        }
    }
}

/// Why a payment does not cover the seller's new quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotCovered {
    /// The price rose.
    Price,
    /// The quote names another recipient, chain or token.
    Terms,
}

impl NotCovered {
    fn text(self, asked: Amount, decimals: u8) -> String {
        match self {
            Self::Price => format!("does not cover the new price of {}", asked.to_decimal(decimals)),
            Self::Terms => {
                "the seller now asks for payment to another recipient, on another chain or in another token".to_owned()
            }
        }
    }
}
