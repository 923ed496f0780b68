//! Payments that bought nothing yet, put to another quote before anything new is paid.

use super::{
    JournalEntry, PayError, PurchaseState,
    registry::{PurchaseGuard, PurchaseRegistry},
    replay_request::RequestIdentity,
};
use crate::protocol::{ProblemCode, Quote};

/// A payment that may answer a quote.
pub(super) struct LeftOver {
    pub(super) guard: PurchaseGuard,
    /// Whether another payment may be made where the seller says that this one is used up.
    pub(super) may_pay_anew: bool,
}

/// Finds what this very request has paid. What does not cover the quote is an error: otherwise a price that moves by a
/// unit at each question would be paid at each question.
pub(super) fn own(
    registry: &PurchaseRegistry,
    request: &RequestIdentity,
    quote: &Quote,
) -> Result<Option<LeftOver>, PayError> {
    let Some(guard) = request.fingerprint.as_deref().and_then(|print| registry.left_over(print, quote)) else {
        return Ok(None);
    };
    let entry = guard.entry();
    if !entry.covers(quote) {
        return Err(not_covered(entry, quote));
    }
    // Who never had an answer was told that the same request would go on with this payment.
    let may_pay_anew = entry.delivered;
    Ok(Some(LeftOver { guard, may_pay_anew }))
}

/// Finds what another request has paid to the same seller, where that is exactly the price.
pub(super) fn adoptable(registry: &PurchaseRegistry, request: &RequestIdentity, quote: &Quote) -> Option<LeftOver> {
    let guard = registry.adoptable(&request.host, quote)?;
    Some(LeftOver { guard, may_pay_anew: true })
}

/// Puts a payment to a quote for this request.
pub(super) async fn adopt(guard: &mut PurchaseGuard, request: &RequestIdentity, quote: &Quote) {
    let adopt = |entry: &mut JournalEntry| {
        entry.state = PurchaseState::Redeeming;
        entry.delivered = false;
        entry.takes_terms_of(quote);
        entry.fingerprint = request.fingerprint.clone().unwrap_or_default();
        entry.request = request.what.clone();
    };
    guard.note(adopt).await;
}

/// Whether a refusal says that the payment was used up before.
pub(super) const fn is_used_up(code: ProblemCode) -> bool {
    matches!(code, ProblemCode::TxAlreadyUsed | ProblemCode::PaymentTooOld)
}

fn not_covered(entry: &JournalEntry, quote: &Quote) -> PayError {
    let Some(transaction) = entry.transaction() else {
        return PayError::Unsettled { transaction: None, reason: None };
    };
    let price = quote.amount.to_decimal(quote.decimals);
    let asked = if entry.is_paid_as(quote) {
        price
    } else {
        format!("{price} to another recipient, or on another chain or in another token")
    };
    PayError::NotCovered { purchase: entry.id, transaction, paid: entry.amount.to_decimal(entry.decimals), asked }
}
