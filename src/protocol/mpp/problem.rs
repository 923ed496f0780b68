//! The draft's names for problems.

use crate::protocol::ProblemCode;

/// Returns the member `type` of a problem's body, if the draft names the problem.
pub(crate) const fn problem_type(code: ProblemCode) -> Option<&'static str> {
    Some(match code {
        ProblemCode::PaymentRequired => "https://paymentauth.org/problems/payment-required",
        ProblemCode::InvalidRedemption => "https://paymentauth.org/problems/malformed-credential",
        ProblemCode::AuthorizationRefused
        | ProblemCode::TransferNotFound
        | ProblemCode::PaymentBound
        | ProblemCode::PayerProofRequired => "https://paymentauth.org/problems/verification-failed",
        ProblemCode::InsufficientAmount => "https://paymentauth.org/problems/payment-insufficient",
        ProblemCode::IntentExpired | ProblemCode::PaymentTooOld => "https://paymentauth.org/problems/payment-expired",
        ProblemCode::IntentNotFound
        | ProblemCode::TxAlreadyUsed
        | ProblemCode::AlreadyConsumed
        | ProblemCode::PaymentIdConflict => "https://paymentauth.org/problems/invalid-challenge",
        _ => return None,
    })
}
