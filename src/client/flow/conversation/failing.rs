//! The ways in which a conversation about a transfer ends without an answer, and their effect on the payment.

use http::response::Parts;

use crate::{
    client::{Failure, PurchaseState, flow::PurchaseGuard},
    protocol::{ProblemCode, TxHash},
};

/// After this many calls that end in another bill, the seller is assumed never to give the answer.
const BILLS_MAX: u32 = 5;

/// Why the conversation ended without an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failing {
    BilledAgain,
    Redirected,
    Refused(ProblemCode),
    /// The answer was sold before, and broke off.
    Lost(ProblemCode),
    /// The payment stays unspent.
    Misunderstood,
    /// The payer's proof is not accepted; the payment stays unspent.
    Unproven {
        code: ProblemCode,
        signed: bool,
    },
    /// The seller gave too many fresh intents. The payment's state does not change.
    TooManyIntents,
}

/// Records what the outcome means for the payment, and returns the error.
pub(super) async fn fail(guard: &mut PurchaseGuard, transaction: TxHash, failing: Failing, parts: &Parts) -> Failure {
    let purchase = guard.entry().id;
    match failing {
        Failing::BilledAgain => count_bill(guard, transaction).await,
        Failing::Redirected => Failure::Redirected { purchase, transaction },
        Failing::Refused(code) | Failing::Lost(code) if !guard.refuse().await => {
            Failure::Unanswered { purchase, transaction, code: Some(code) }
        }
        Failing::Refused(code) => Failure::Refused { purchase, transaction, code },
        Failing::Lost(code) => Failure::AnswerLost { purchase, transaction, code },
        Failing::Misunderstood => {
            guard.note(|entry| entry.state = PurchaseState::Unspent).await;
            Failure::Misunderstood { purchase, transaction, status: parts.status }
        }
        Failing::Unproven { code, signed } => {
            // It stays open, so that a payer that signs can redeem it later. It is unspent, so that this seller is not
            // paid the same again for nothing.
            guard.note(|entry| entry.state = PurchaseState::Unspent).await;
            Failure::Unproven { purchase, transaction, code, signed, reason: None }
        }
        Failing::TooManyIntents => Failure::Misunderstood { purchase, transaction, status: parts.status },
    }
}

/// Records another bill for a paid request. After `BILLS_MAX` bills the purchase ends, unless its seller keeps the
/// answer.
async fn count_bill(guard: &mut PurchaseGuard, transaction: TxHash) -> Failure {
    guard.note(|entry| entry.billed += 1).await;
    let is_kept = guard.entry().is_kept_by_seller(guard.now());
    let is_last = guard.entry().billed >= BILLS_MAX && !is_kept && guard.refuse().await;
    Failure::BilledAgain { purchase: guard.entry().id, transaction, is_last }
}
