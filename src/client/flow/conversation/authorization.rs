//! Handles an authorization or a permit that the seller does not take, or no longer takes. The seller's word is not
//! believed; the chain is asked.

use http::{StatusCode, response::Parts};

use super::{Conversation, FAILURES_MAX, Outcome, judgement::RENEWALS_MAX, unanswered};
use crate::{
    client::{
        AuthorizationStatus, Failure, JournalEntry, PurchaseEvent,
        dialect::{Bill, reply},
        flow::PurchaseGuard,
        way::status::status,
    },
    protocol::{IntentId, ProblemCode, v2::Reason},
};

/// Reasons that mean a temporary failure of a server or chain, or that the payment was used. They are consulted if the
/// chain shows the payment as unused: its settlement may be in a transaction that is not mined yet.
const PASSING: [&str; 11] = [
    "settlement_pending",
    "unexpected_verify_error",
    "unexpected_settle_error",
    "invalid_exact_evm_nonce_already_used",
    "invalid_exact_evm_payload_authorization_nonce_used",
    "nonce_already_used",
    "authorization_already_used",
    "nonce_reused",
    "duplicate_settlement",
    "permit2_invalid_nonce",
    "permit2_simulation_failed",
];

/// Returns whether a refusal is about the payment itself, so that showing it again changes nothing.
fn is_final(reason: &Reason) -> bool {
    !PASSING.contains(&reason.as_str())
}

impl Conversation<'_> {
    /// Asks the chain before an expired payment is shown again, because no seller can settle it any more.
    pub(super) async fn ended<R>(&self, guard: &mut PurchaseGuard) -> Result<Option<Outcome<R>>, Failure> {
        if guard.entry().transaction.is_some() || guard.entry().expiry > self.inner.now() {
            return Ok(None);
        }
        Ok(match self.ask_chain(guard).await? {
            AuthorizationStatus::Void => Some(Outcome::Void),
            AuthorizationStatus::Used { .. } if !guard.entry().is_shown() => Some(Outcome::Settled),
            _ => None,
        })
    }

    /// Continues after a failure that says nothing about the payment.
    pub(super) async fn failed<R>(
        &mut self,
        guard: &mut PurchaseGuard,
        reason: Option<Reason>,
    ) -> Result<Option<Outcome<R>>, Failure> {
        self.failures += 1;
        if self.failures < FAILURES_MAX {
            return self.pause(guard.entry(), None, None, None).await;
        }
        if guard.entry().vouched().is_some_and(|vouched| vouched.deposit().is_none()) {
            return Err(unanswered(guard.entry(), None, None));
        }
        match self.ask_chain(guard).await? {
            AuthorizationStatus::Void => Ok(Some(Outcome::Void)),
            AuthorizationStatus::Used { .. } if !guard.entry().is_shown() => Ok(Some(Outcome::Settled)),
            AuthorizationStatus::Used { .. } => Err(unanswered(guard.entry(), None, None)),
            AuthorizationStatus::Unused => Err(Failure::outstanding(guard.entry(), reason)),
        }
    }

    /// Continues after a refusal.
    pub(super) async fn refused<R>(
        &mut self,
        guard: &mut PurchaseGuard,
        parts: &Parts,
        code: Option<ProblemCode>,
        fresh: Option<IntentId>,
    ) -> Result<Option<Outcome<R>>, Failure> {
        let was_settled = guard.entry().transaction.is_some();
        match self.ask_chain(guard).await? {
            AuthorizationStatus::Void => Ok(Some(Outcome::Void)),
            AuthorizationStatus::Unused if self.renews(guard, parts).await => {
                self.progress.report(PurchaseEvent::Renewed);
                Ok(None)
            }
            // Another payment bought the answer under this purchase's name, so asking again changes nothing.
            AuthorizationStatus::Unused if code == Some(ProblemCode::PaymentIdConflict) => {
                let reason = ProblemCode::PaymentIdConflict.as_str().parse().ok();
                Err(Failure::outstanding(guard.entry(), reason))
            }
            AuthorizationStatus::Unused => match reply::refusal(&parts.headers) {
                Some(reason) if is_final(&reason) => Err(Failure::outstanding(guard.entry(), Some(reason))),
                // A facilitator's failure may be temporary.
                reason => self.failed(guard, reason).await,
            },
            AuthorizationStatus::Used { .. } => {
                if let Some(intent) = fresh {
                    // The fresh intent shows that the seller redeems transactions after all.
                    guard.note(|entry| intent.as_str().clone_into(&mut entry.intent)).await;
                }
                let entry = guard.entry();
                if !entry.is_shown() && code.is_none_or(|code| code != ProblemCode::AlreadyConsumed) {
                    return Ok(Some(Outcome::Settled));
                }
                // It was settled between two checks: the refused proof may be accepted now.
                if !was_settled && !self.shown_settled && code.is_none() {
                    self.shown_settled = true;
                    return self.pause(entry, None, None, None).await;
                }
                Err(self.lost(guard, code).await)
            }
        }
    }

    /// Asks the chain for the status of the authorization or permit, and records it.
    async fn ask_chain(&self, guard: &mut PurchaseGuard) -> Result<AuthorizationStatus, Failure> {
        let status = status(self.inner, guard.entry()).await?;
        match status {
            AuthorizationStatus::Used { transaction } => guard.note(|entry| entry.mark_settled_by(transaction)).await,
            AuthorizationStatus::Void => guard.note(JournalEntry::becomes_void).await,
            AuthorizationStatus::Unused => {}
        }
        Ok(status)
    }

    /// Moves the signed payment to the quote of a refusal, if that is another quote with the same terms.
    pub(super) async fn renews(&mut self, guard: &mut PurchaseGuard, parts: &Parts) -> bool {
        if parts.status != StatusCode::PAYMENT_REQUIRED || self.renewals >= RENEWALS_MAX {
            return false;
        }
        self.renewals += 1;
        let Ok(bill) = Bill::of_headers(&parts.headers, &self.inner.budget, self.inner.now()) else { return false };
        let Some(terms) = bill.terms_for(guard.entry()).filter(|terms| terms.has_intent()) else { return false };
        let Some((intent, message)) = terms.renewal_of(guard.entry()) else { return false };
        if guard.entry().signed().is_some_and(|signed| signed.message() == message) {
            return false;
        }
        guard.note(|entry| entry.takes_signed_terms(intent, message)).await;
        true
    }

    /// Handles a seller that was paid and does not give the answer.
    async fn lost(&self, guard: &mut PurchaseGuard, code: Option<ProblemCode>) -> Failure {
        let Some(transaction) = guard.entry().transaction else { return unanswered(guard.entry(), None, None) };
        let purchase = guard.entry().id;
        match code {
            Some(code) if !guard.refuse().await => Failure::Unanswered { purchase, transaction, code: Some(code) },
            Some(code) if self.breaks > 0 => Failure::AnswerLost { purchase, transaction, code },
            Some(code) => Failure::Refused { purchase, transaction, code },
            None => {
                // Repeated bills do not change that it was paid once. Only age ends it, as for a transfer that bought
                // nothing.
                let (kept_until, now) = (guard.entry().at.after(self.inner.settings.payment_age), self.inner.now());
                let is_last = kept_until <= now && !guard.entry().is_kept_by_seller(now) && guard.refuse().await;
                Failure::BilledAgain { purchase, transaction, is_last }
            }
        }
    }
}
