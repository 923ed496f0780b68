//! `PayError`: the error of a call, with the transaction if money may have moved.

use std::{error::Error, fmt};

use super::{
    BudgetDenial, Denial, PurchaseId,
    error_kind::{Money, PayErrorKind},
    failure::Failure,
};
use crate::protocol::{TxHash, v2::Reason};

/// The error of a call: why there is no answer, and where the money is.
///
/// [`money`](Self::money) says where the money is. [`transaction`](Self::transaction) names the transfer if one may
/// have been sent, and [`purchase`](Self::purchase) the journal's entry. [`is_resumable`](Self::is_resumable) says
/// whether the same request resumes that payment: if so, nothing is lost, and nothing more is paid.
///
/// ```
/// use tower_x402::client::{Money, PayError, PayErrorKind};
///
/// /// What to tell the person who waits.
/// fn advice(error: &PayError) -> &'static str {
///     match error.kind() {
///         PayErrorKind::Declined => "the budget does not allow it",
///         _ if error.is_resumable() => "ask again: the payment is kept, and nothing more is paid",
///         _ if error.money() == Money::Untouched => "nothing was paid",
///         _ => "paid, or perhaps paid, and not answered: contact the seller",
///     }
/// }
/// # let _ = advice;
/// ```
pub struct PayError(Box<Failure>);

impl PayError {
    /// Returns what went wrong.
    #[must_use]
    pub const fn kind(&self) -> PayErrorKind {
        self.0.kind()
    }

    /// Returns where the money is, as far as it is known.
    #[must_use]
    pub const fn money(&self) -> Money {
        self.0.facts().1
    }

    /// Returns the transfer, if one was sent or may have been.
    #[must_use]
    pub const fn transaction(&self) -> Option<TxHash> {
        self.0.transaction()
    }

    /// Returns the journal's name of the purchase that the call worked on, if one had begun.
    #[must_use]
    pub const fn purchase(&self) -> Option<PurchaseId> {
        self.0.facts().0
    }

    /// Returns whether the same request resumes a payment that the journal holds.
    #[must_use]
    pub const fn is_resumable(&self) -> bool {
        self.0.facts().2
    }

    /// Returns the rule of the budget that denied the payment, or the cancellation of a payment.
    #[must_use]
    pub fn denial(&self) -> Option<BudgetDenial> {
        match &*self.0 {
            Failure::Declined(denial) => Some(denial.rule()),
            Failure::NotCancelled { reason, .. } => reason.downcast_ref().map(Denial::rule),
            _ => None,
        }
    }

    /// Returns the seller's reason, if it gave one: a [`ProblemCode`](crate::protocol::ProblemCode), or a [`Reason`] of the x402
    /// standard.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match &*self.0 {
            Failure::Refused { code, .. } | Failure::AnswerLost { code, .. } | Failure::Unproven { code, .. } => {
                Some(code.as_str())
            }
            Failure::Unanswered { code, .. } => code.as_ref().map(|code| code.as_str()),
            Failure::Outstanding { reason, .. } => reason.as_ref().map(Reason::as_str),
            _ => None,
        }
    }
}

impl From<Failure> for PayError {
    fn from(failure: Failure) -> Self {
        Self(Box::new(failure))
    }
}

impl fmt::Display for PayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for PayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for PayError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
