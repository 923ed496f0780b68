//! Uses payments that bought nothing yet for another bill, before anything new is paid.

use crate::{
    client::{
        AuthorizationStatus, Failure, JournalEntry, NotCovered, PurchaseState,
        dialect::Bill,
        flow::{PurchaseGuard, PurchaseRegistry},
        http::RequestIdentity,
        inner::ClientInner,
        way::status::status,
    },
    protocol::{Amount, ChainTime, ProblemCode, Quote},
};

/// An earlier payment that may pay a bill.
pub(crate) struct LeftOver {
    pub(crate) guard: PurchaseGuard,
    /// Whether the layer may pay anew if the seller says that this payment is used up.
    pub(crate) may_pay_anew: bool,
}

/// Finds an earlier payment of this request. A payment that does not cover the bill is an error: otherwise a price that
/// moves by a unit each time would be paid each time. An authorization that can never be used is closed and skipped.
pub(crate) async fn own(
    inner: &ClientInner,
    request: &RequestIdentity,
    bill: &Bill,
) -> Result<Option<LeftOver>, Failure> {
    let Some(print) = request.fingerprint.as_deref() else { return Ok(None) };
    while let Some(mut guard) = inner.registry.left_over(print, bill) {
        if bill.covered_by(guard.entry()).is_some() {
            // A caller without an answer was told that the same request continues with this payment.
            let may_pay_anew = guard.entry().delivered;
            return Ok(Some(LeftOver { guard, may_pay_anew }));
        }
        if !has_lapsed(inner, &mut guard).await? {
            return Err(not_covered(guard.entry(), bill.quotes().next()));
        }
    }
    Ok(None)
}

/// Returns whether a payment was not used and never can be, and closes it then. A used one is recorded as used.
async fn has_lapsed(inner: &ClientInner, guard: &mut PurchaseGuard) -> Result<bool, Failure> {
    if !guard.entry().is_shown() || guard.entry().transaction.is_some() {
        return Ok(false);
    }
    match status(inner, guard.entry()).await? {
        AuthorizationStatus::Void => guard.note(JournalEntry::becomes_void).await,
        AuthorizationStatus::Used { transaction } => guard.note(|entry| entry.transaction = transaction).await,
        AuthorizationStatus::Unused => {}
    }
    Ok(guard.entry().state == PurchaseState::Void)
}

/// The age from which no seller accepts a payment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooOld {
    /// Payments made before this time are too old.
    pub(crate) before: ChainTime,
    /// Whether this machine's clock is known not to be ahead.
    pub(crate) is_certain: bool,
}

/// Closes one old authorization if the chain shows that it can never be used, or that it was used and buys nothing any
/// more. In the second case it is only recorded as used if its age is uncertain, or if it bought a pass that its seller
/// keeps: the seller may still give the answer.
pub(crate) async fn close_lapsed(inner: &ClientInner, too_old: TooOld) {
    let Some(mut old) = inner.registry.unsettled_before(too_old.before) else { return };
    let is_kept_by_seller = old.entry().is_kept_by_seller(inner.now());
    match status(inner, old.entry()).await {
        Ok(AuthorizationStatus::Void) => old.note(JournalEntry::becomes_void).await,
        Ok(AuthorizationStatus::Used { transaction }) if too_old.is_certain && !is_kept_by_seller => {
            old.note(|entry| (entry.state, entry.transaction) = (PurchaseState::Refused, transaction)).await;
        }
        Ok(AuthorizationStatus::Used { transaction }) => {
            let used = |entry: &mut JournalEntry| match (entry.state, transaction) {
                // With its transaction, it can pay another bill.
                (PurchaseState::Unspent, Some(_)) => entry.transaction = transaction,
                // Without a transaction, only the state shows that it was used, so that the next authorization has its
                // turn.
                _ => entry.mark_settled_by(transaction),
            };
            old.note(used).await;
        }
        Ok(AuthorizationStatus::Unused) => {}
        Err(error) => {
            let purchase = old.entry().id;
            tracing::debug!(%error, %purchase, "the chain does not say what became of an old authorization");
        }
    }
}

/// Finds a payment of another request to the same seller for exactly this price.
pub(crate) fn adoptable(
    registry: &PurchaseRegistry,
    request: &RequestIdentity,
    bill: &Bill,
    limit: Option<Amount>,
) -> Option<LeftOver> {
    let guard = registry.adoptable(&request.host, bill, limit)?;
    Some(LeftOver { guard, may_pay_anew: true })
}

/// Returns whether the chain shows an authorization as used before it is shown now. Without an answer it counts as
/// unused.
pub(crate) async fn was_settled(inner: &ClientInner, entry: &JournalEntry) -> bool {
    entry.transaction.is_some() || matches!(status(inner, entry).await, Ok(AuthorizationStatus::Used { .. }))
}

/// Moves a payment to this request's bill, which it covers.
pub(crate) async fn adopt(guard: &mut PurchaseGuard, request: &RequestIdentity, bill: &Bill) {
    let adopt = |entry: &mut JournalEntry| {
        let settled = entry.signed().is_none() || entry.transaction.is_some();
        entry.state = if settled { PurchaseState::Redeeming } else { PurchaseState::Paying };
        entry.delivered = false;
        entry.settled = entry.settled.filter(|_| settled);
        entry.fingerprint = request.fingerprint.clone().unwrap_or_default();
        entry.request = request.what.clone();
        entry.is_pass = request.is_pass;
        match (bill.transfer_of(entry), bill.terms_for(entry)) {
            (Some(terms), _) => entry.takes_terms_of(&terms.quote, terms.is_elsewhere),
            (None, Some(terms)) => {
                if let Some((intent, message)) = terms.renewal_of(entry) {
                    entry.takes_signed_terms(intent, message);
                }
            }
            (None, None) => {}
        }
    };
    guard.note(adopt).await;
}

/// Returns whether a refusal says that the payment was used up earlier.
pub(crate) const fn is_used_up(code: ProblemCode) -> bool {
    matches!(code, ProblemCode::TxAlreadyUsed | ProblemCode::PaymentTooOld)
}

fn not_covered(entry: &JournalEntry, quote: Option<&Quote>) -> Failure {
    if entry.is_shown() && entry.transaction.is_none() {
        return Failure::outstanding(entry, None);
    }
    let (Some(transaction), Some(quote)) = (entry.transaction(), quote) else {
        return Failure::Unsettled { purchase: entry.id, transaction: entry.transaction(), reason: None };
    };
    let reason = if entry.is_paid_as(quote) { NotCovered::Price } else { NotCovered::Terms };
    Failure::NotCovered {
        purchase: entry.id,
        transaction,
        paid: entry.amount,
        asked: quote.amount,
        decimals: entry.decimals,
        reason,
    }
}
