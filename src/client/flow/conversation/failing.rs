//! How the conversation about a transfer ends without an answer, and what that means for the payment.

use http::response::Parts;

use crate::{
    client::{Failure, PurchaseState, flow::PurchaseGuard},
    protocol::{ProblemCode, TxHash},
};

/// How many calls a seller may end by billing again: then it will not give the answer.
const BILLS_MAX: u32 = 5;

/// How it ends without an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failing {
    BilledAgain,
    Redirected,
    Refused(ProblemCode),
    /// It was sold before, and broke off.
    Lost(ProblemCode),
    /// The payment stays unspent.
    Misunderstood,
    /// So it does where the payer is not believed.
    Unproven {
        code: ProblemCode,
        signed: bool,
    },
    /// A fresh intent too many: nothing is known that was not known before.
    TooManyIntents,
}

/// Records what that means for the payment, and says it.
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
            // Open: a payer that signs redeems it yet. And unspent, so that this seller is not paid the same again for nothing.
            guard.note(|entry| entry.state = PurchaseState::Unspent).await;
            Failure::Unproven { purchase, transaction, code, signed, reason: None }
        }
        Failing::TooManyIntents => Failure::Misunderstood { purchase, transaction, status: parts.status },
    }
}

/// Records another bill for a paid request. A purchase that meets only bills ends, unless its seller keeps what it bought.
async fn count_bill(guard: &mut PurchaseGuard, transaction: TxHash) -> Failure {
    guard.note(|entry| entry.billed += 1).await;
    let is_kept = guard.entry().is_kept_by_seller(guard.now());
    let is_last = guard.entry().billed >= BILLS_MAX && !is_kept && guard.refuse().await;
    Failure::BilledAgain { purchase: guard.entry().id, transaction, is_last }
}
