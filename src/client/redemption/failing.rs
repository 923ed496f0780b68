//! How a redemption ends without an answer, and what that means for the payment.

use http::response::Parts;

use crate::{
    client::{JournalEntry, PayError, PurchaseState, registry::PurchaseGuard},
    protocol::{ProblemCode, TxHash},
};

/// How many calls a seller may end by billing again: then it will not give the answer.
const BILLS_MAX: u32 = 5;

/// How a redemption ends without an answer.
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

/// Records what a failed redemption means for the payment, and says it.
pub(super) async fn fail(guard: &mut PurchaseGuard, transaction: TxHash, failing: Failing, parts: &Parts) -> PayError {
    let purchase = guard.entry().id;
    match failing {
        Failing::BilledAgain => count_bill(guard, transaction).await,
        Failing::Redirected => PayError::Redirected { purchase, transaction },
        Failing::Refused(code) => {
            guard.note(|entry| entry.state = PurchaseState::Refused).await;
            PayError::Refused { purchase, transaction, code }
        }
        Failing::Lost(code) => {
            guard.note(|entry| entry.state = PurchaseState::Refused).await;
            PayError::AnswerLost { purchase, transaction, code }
        }
        Failing::Misunderstood => {
            guard.note(|entry| entry.state = PurchaseState::Unspent).await;
            PayError::Misunderstood { purchase, transaction, status: parts.status }
        }
        Failing::Unproven { code, signed } => {
            // Open: a payer that signs redeems it yet. And unspent, so that nobody pays this seller the same again for nothing.
            guard.note(|entry| entry.state = PurchaseState::Unspent).await;
            PayError::Unproven { purchase, transaction, code, signed, reason: None }
        }
        Failing::TooManyIntents => PayError::Misunderstood { purchase, transaction, status: parts.status },
    }
}

/// Records another bill for what was paid. A purchase that only ever meets bills comes to an end.
async fn count_bill(guard: &mut PurchaseGuard, transaction: TxHash) -> PayError {
    let count = |entry: &mut JournalEntry| {
        entry.billed += 1;
        if entry.billed >= BILLS_MAX {
            entry.state = PurchaseState::Refused;
        }
    };
    guard.note(count).await;
    let purchase = guard.entry().id;
    PayError::BilledAgain { purchase, transaction, is_last: !guard.entry().state.is_open() }
}
