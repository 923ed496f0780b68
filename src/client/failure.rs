//! `Failure`: what went wrong in a call, with the facts for its text and for the client's own decisions.

use http::StatusCode;

use super::{
    Denial, JournalEntry, JournalError, PayerError, PurchaseId,
    box_error::BoxError,
    error_kind::{Money, PayErrorKind},
};
use crate::protocol::{Amount, ChainTime, ProblemCode, QuoteError, TxHash, channel::ChannelId, v2::Reason};

/// The variants of [`PayErrorKind`](super::PayErrorKind), with their facts.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0} took longer than the layer's patience: nothing was paid")]
    TimedOut(&'static str),
    #[error("the request failed before the seller quoted a price: nothing was paid")]
    Http(#[source] BoxError),
    #[error("the request with a proof of its own failed: the outcome of that payment is unknown; send it again")]
    Forwarded(#[source] BoxError),
    #[error("the signed payment of purchase {purchase} was not cancelled: it may have been used, and can be used until {} (Unix time)", valid_before.unix())]
    NotCancelled {
        purchase: PurchaseId,
        valid_before: ChainTime,
        #[source]
        reason: BoxError,
    },
    #[error("the seller's quote cannot be read: nothing was paid")]
    Quote(#[from] QuoteError),
    #[error(
        "the answer costs money, but the request's body cannot be sent again with the proof: nothing was paid; use a body in memory or `Body::from_factory`"
    )]
    NotReplayable,
    #[error(transparent)]
    Declined(#[from] Denial),
    #[error("the payer could not prepare the payment: nothing was paid")]
    Payer(#[source] PayerError),
    #[error("the journal did not record the payment, so it was not sent: nothing was paid")]
    Journal(#[source] JournalError),
    #[error("the journal has no unfinished purchase of this request: nothing was paid")]
    NothingToResume,
    #[error("the payment is not in a block yet: send the same request again to resume it")]
    Unsettled {
        purchase: PurchaseId,
        transaction: Option<TxHash>,
        #[source]
        reason: Option<PayerError>,
    },
    #[error("payment {transaction} was reverted: nothing was transferred")]
    Reverted { purchase: PurchaseId, transaction: TxHash },
    #[error(
        "other transactions of the wallet used the payment's nonce: nothing was transferred; let one process send from this account"
    )]
    Displaced { purchase: PurchaseId },
    #[error(
        "the seller did not take the signed payment of purchase {purchase} ({}): it can be used until {} (Unix time), and nothing more is signed before that; send the same request again, or cancel it",
        reason.as_ref().map_or("without a reason", Reason::as_str), valid_before.unix()
    )]
    Outstanding { purchase: PurchaseId, valid_before: ChainTime, reason: Option<Reason> },
    #[error(
        "the unfinished purchase {purchase} of this request may yet cost {price}, and the request's own limit is {limit}: it was not resumed, and nothing more was paid; resume it under a higher limit"
    )]
    AboveMaxPrice { purchase: PurchaseId, price: String, limit: String, valid_before: Option<ChainTime> },
    #[error(
        "the signed payment was never used, and no longer can be: nothing was paid; send the request again to pay anew"
    )]
    Lapsed { purchase: PurchaseId },
    #[error(
        "the request has an `Authorization` header of its own, and the seller takes the payment in that header only: {}",
        if left.is_some() { "the signed payment of this request was not shown; send the request without that header" } else { "nothing was paid; send the service's credentials in another way" }
    )]
    AuthorizationTaken { left: Option<(PurchaseId, ChainTime)> },
    #[error("payment {transaction} refused by the seller: {} {}", code.as_str(), code.detail())]
    Refused { purchase: PurchaseId, transaction: TxHash, code: ProblemCode },
    #[error(
        "payment {transaction} not redeemed: the seller rejected the request with {status}; a corrected request uses the payment"
    )]
    Misunderstood { purchase: PurchaseId, transaction: TxHash, status: StatusCode },
    #[error("payment {transaction} not redeemed ({code}): {}; nothing more was paid", unproven(*signed, reason.is_some()))]
    Unproven {
        purchase: PurchaseId,
        transaction: TxHash,
        code: ProblemCode,
        signed: bool,
        #[source]
        reason: Option<PayerError>,
    },
    #[error(
        "the answer to payment {transaction} was lost after it was sold, and the seller does not give it again ({code}): contact the seller"
    )]
    AnswerLost { purchase: PurchaseId, transaction: TxHash, code: ProblemCode },
    #[error("payment {transaction} not redeemed: the seller billed again, and the other bill was not paid{}", ended(*is_last))]
    BilledAgain { purchase: PurchaseId, transaction: TxHash, is_last: bool },
    #[error(
        "payment {transaction} of {} bought nothing, and {}: nothing more was paid; resume the purchase, or abandon it to pay anew",
        paid.to_decimal(*decimals), reason.text(*asked, *decimals)
    )]
    NotCovered {
        purchase: PurchaseId,
        transaction: TxHash,
        paid: Amount,
        decimals: u8,
        asked: Amount,
        reason: NotCovered,
    },
    #[error("payment {transaction} not redeemed: the seller redirected, and proofs are never forwarded")]
    Redirected { purchase: PurchaseId, transaction: TxHash },
    #[error(
        "the channel to this seller waits for purchase {purchase}, whose charge is not known: nothing was paid; send its request again, or abandon it"
    )]
    ChannelLeft { purchase: PurchaseId },
    #[error(
        "the seller of channel {channel} said what cannot be true, so nothing more is signed for it: nothing was paid; close the channel, and contact the seller"
    )]
    ChannelBroken { channel: ChannelId },
    #[error(
        "the seller counts for channel {channel} what no answer has confirmed: nothing more is signed for it; close the channel"
    )]
    NotCorrected { purchase: PurchaseId, channel: ChannelId },
    #[error("the journal has no channel {channel}")]
    NoChannel { channel: ChannelId },
    #[error("channel {channel} was not closed, and pays nothing more; ask again, or withdraw without the seller")]
    NotClosed {
        channel: ChannelId,
        #[source]
        reason: BoxError,
    },
    #[error("the voucher of purchase {purchase} has no answer yet: send the same request again to resume it")]
    VoucherUnanswered { purchase: PurchaseId },
    #[error(
        "the seller did not take the voucher of purchase {purchase} ({}): nothing was charged, by its word",
        reason.as_ref().map_or("without a reason", Reason::as_str)
    )]
    VoucherRefused { purchase: PurchaseId, reason: Option<Reason> },
    #[error(
        "the answer to the voucher of purchase {purchase} was sold, and the seller does not give it again ({code}): contact the seller"
    )]
    VoucherLost { purchase: PurchaseId, code: ProblemCode },
    #[error("payment {transaction} has no answer yet: send the same request again to resume it")]
    Unanswered { purchase: PurchaseId, transaction: TxHash, code: Option<ProblemCode> },
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

impl Failure {
    /// Returns the error of a purchase whose authorization may still be used.
    pub(super) fn outstanding(entry: &JournalEntry, reason: Option<Reason>) -> Self {
        let valid_before = entry.valid_before().unwrap_or(ChainTime::from_unix(0));
        Self::Outstanding { purchase: entry.id, valid_before, reason }
    }

    pub(super) const fn kind(&self) -> PayErrorKind {
        match self {
            Self::TimedOut(_) => PayErrorKind::TimedOut,
            Self::Http(_) => PayErrorKind::Http,
            Self::Forwarded(_) => PayErrorKind::Forwarded,
            Self::NotCancelled { .. } => PayErrorKind::NotCancelled,
            Self::Quote(_) => PayErrorKind::Quote,
            Self::NotReplayable => PayErrorKind::NotReplayable,
            Self::Declined(_) => PayErrorKind::Declined,
            Self::Payer(_) => PayErrorKind::Payer,
            Self::Journal(_) => PayErrorKind::Journal,
            Self::NothingToResume => PayErrorKind::NothingToResume,
            Self::Unsettled { .. } => PayErrorKind::Unsettled,
            Self::Reverted { .. } => PayErrorKind::Reverted,
            Self::Displaced { .. } => PayErrorKind::Displaced,
            Self::Outstanding { .. } => PayErrorKind::Outstanding,
            Self::AboveMaxPrice { .. } => PayErrorKind::AboveMaxPrice,
            Self::Lapsed { .. } => PayErrorKind::Lapsed,
            Self::AuthorizationTaken { .. } => PayErrorKind::AuthorizationTaken,
            Self::Refused { .. } | Self::VoucherRefused { .. } => PayErrorKind::Refused,
            Self::Misunderstood { .. } => PayErrorKind::Misunderstood,
            Self::Unproven { .. } => PayErrorKind::Unproven,
            Self::AnswerLost { .. } | Self::VoucherLost { .. } => PayErrorKind::AnswerLost,
            Self::BilledAgain { .. } => PayErrorKind::BilledAgain,
            Self::NotCovered { .. } => PayErrorKind::NotCovered,
            Self::Redirected { .. } => PayErrorKind::Redirected,
            Self::Unanswered { .. } | Self::VoucherUnanswered { .. } => PayErrorKind::Unanswered,
            Self::ChannelLeft { .. }
            | Self::ChannelBroken { .. }
            | Self::NoChannel { .. }
            | Self::NotClosed { .. }
            | Self::NotCorrected { .. } => PayErrorKind::Channel,
        }
    }

    /// Returns the transfer, if one was sent or may have been.
    pub(super) const fn transaction(&self) -> Option<TxHash> {
        match (self, self.facts().1) {
            (Self::Unsettled { transaction, .. }, _) => *transaction,
            (_, Money::Spent { transaction } | Money::FeeSpent { transaction: Some(transaction) }) => Some(transaction),
            _ => None,
        }
    }

    /// Returns the purchase, where the money is, and whether the same request resumes that payment.
    pub(super) const fn facts(&self) -> (Option<PurchaseId>, Money, bool) {
        match self {
            Self::TimedOut(_)
            | Self::Http(_)
            | Self::Quote(_)
            | Self::NotReplayable
            | Self::Declined(_)
            | Self::Payer(_)
            | Self::Journal(_)
            | Self::AuthorizationTaken { left: None }
            | Self::ChannelBroken { .. }
            | Self::NoChannel { .. }
            | Self::NotClosed { .. }
            | Self::NothingToResume => (None, Money::Untouched, false),
            Self::ChannelLeft { purchase } => (Some(*purchase), Money::Untouched, false),
            Self::VoucherUnanswered { purchase } => (Some(*purchase), Money::AtRisk { until: None }, true),
            // The seller has the voucher, so the money is at risk whatever the seller says.
            Self::VoucherRefused { purchase, .. }
            | Self::VoucherLost { purchase, .. }
            | Self::NotCorrected { purchase, .. } => (Some(*purchase), Money::AtRisk { until: None }, false),
            Self::AuthorizationTaken { left: Some((purchase, valid_before)) } => {
                (Some(*purchase), Money::AtRisk { until: Some(*valid_before) }, true)
            }
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
pub(crate) enum NotCovered {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A reverted or displaced payment still costs the account its fee.
    #[test]
    fn a_transaction_that_paid_nobody_cost_its_fee() {
        let (purchase, transaction) = (PurchaseId::new([1; 16]), TxHash::new([2; 32]));
        let spent = |transaction| Money::FeeSpent { transaction };
        assert_eq!(Failure::Reverted { purchase, transaction }.facts().1, spent(Some(transaction)));
        assert_eq!(Failure::Displaced { purchase }.facts().1, spent(None));
    }
}
