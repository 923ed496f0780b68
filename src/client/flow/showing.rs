//! The answer to an authorization: it is shown until the seller gives the answer, or the chain says what became of it.
//!
//! Whatever happens, it is the same authorization that is shown: the token takes its nonce once.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, response::Parts};
use http_body::Body;
use tokio::time::Instant;
use tower_service::Service;

use crate::client::{
    AuthorizationStatus, JournalEntry, PayError, PurchaseEvent, PurchaseState, ReplayBody, ResponseBody,
    box_error::BoxError,
    dialect::bill::Bill,
    dialect::reply::{self, SellerReply},
    flow::pacing::Pacing,
    flow::progress::Progress,
    flow::redemption::{close, read_ahead},
    flow::registry::PurchaseGuard,
    flow::seller::{Replied, Seller},
    inner::ClientInner,
};
use crate::protocol::{ProblemCode, v2::Reason};

/// How often a server may fail, or be silent, in one call.
const FAILURES_MAX: u32 = 3;
/// How often an answer may break off in one call.
const BREAKS_MAX: u32 = 3;
/// How often one call shows the authorization under another quote.
const RENEWALS_MAX: u32 = 3;

/// The conversation with a seller about one authorization.
pub(in crate::client) struct Showing<'a> {
    inner: &'a ClientInner,
    progress: Progress,
    deadline: Instant,
    pacing: Pacing,
    failures: u32,
    breaks: u32,
    renewals: u32,
    attempts: u32,
    /// Whether it was shown since the chain said that it is settled.
    shown_settled: bool,
}

/// What showing it comes to.
pub(in crate::client) enum Shown<R> {
    /// This is the caller's answer; the journal has the purchase's last state.
    Answered(Parts, ResponseBody<R>),
    /// The purchase's transaction settled it, and the seller redeems transactions.
    Settled,
    /// It was not used, and never can be.
    Void,
}

/// What a reply asks for.
enum Next {
    Close(PurchaseState),
    Pause(Option<ProblemCode>, Option<Duration>),
    /// Nothing is said about the payment.
    Failed,
    /// The seller does not take it, or not any more: the chain is asked what became of it.
    Look(Option<ProblemCode>),
}

impl<'a> Showing<'a> {
    /// Everything that is waited for has to be over at `deadline`; `attempts` have been made by this call before.
    pub(in crate::client) const fn new(
        inner: &'a ClientInner,
        progress: Progress,
        deadline: Instant,
        attempts: u32,
    ) -> Self {
        let pacing = Pacing::new(deadline, inner.settings.longest_pause);
        let (failures, breaks, renewals, shown_settled) = (0, 0, 0, false);
        Self { inner, progress, deadline, pacing, failures, breaks, renewals, attempts, shown_settled }
    }

    /// How often something was shown.
    pub(in crate::client) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Shows the authorization until there is an answer, or a reason why there is none.
    pub(in crate::client) async fn run<S, B, R>(
        &mut self,
        seller: &mut Seller<S, B>,
        guard: &mut PurchaseGuard,
    ) -> Result<Shown<R>, PayError>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        // What can no longer be used is not shown before the chain was asked: no seller can settle it.
        if guard.entry().transaction.is_none() && guard.entry().expiry <= self.inner.now() {
            match self.look(guard).await? {
                AuthorizationStatus::Void => return Ok(Shown::Void),
                AuthorizationStatus::Used { .. } if !guard.entry().is_shown() => return Ok(Shown::Settled),
                _ => {}
            }
        }
        loop {
            let Some(Replied { parts, reply, body }) = self.present(seller, guard.entry()).await? else {
                if let Some(shown) = self.failed(guard, None).await? {
                    return Ok(shown);
                }
                continue;
            };
            match Self::next(&reply) {
                Next::Close(state) => {
                    let Some(body) = read_ahead(guard, state, body, self.inner.settings.read_ahead).await else {
                        self.broke_off(guard.entry()).await?;
                        continue;
                    };
                    let transaction = reply::settled_by(&parts.headers).or(guard.entry().transaction);
                    let state = guard.entry().closed_as(state);
                    close(guard, transaction, state, &parts).await;
                    self.progress.report(PurchaseEvent::Answered(parts.status));
                    return Ok(Shown::Answered(parts, body));
                }
                Next::Pause(code, after) => self.pause(guard.entry(), code, after).await?,
                Next::Failed => {
                    if let Some(shown) = self.failed(guard, None).await? {
                        return Ok(shown);
                    }
                }
                Next::Look(code) => {
                    if let Some(shown) = self.refused(guard, &parts, reply, code).await? {
                        return Ok(shown);
                    }
                }
            }
        }
    }

    /// Shows it once; `None` where no answer came.
    async fn present<S, B, R>(
        &mut self,
        seller: &mut Seller<S, B>,
        entry: &JournalEntry,
    ) -> Result<Option<Replied<R>>, PayError>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        let message = entry.prepared.last().map(|prepared| prepared.payload.as_str()).unwrap_or_default();
        // A body that cannot be had again after all: what was signed is not forgotten.
        let shown = seller.showing(message).ok_or_else(|| unsettled(entry, None))?;
        self.attempts += 1;
        self.progress.report(PurchaseEvent::Redeeming { transaction: entry.transaction, attempt: self.attempts });
        Ok(seller.present(shown, self.inner.settings.patience_until(self.deadline)).await)
    }

    fn next(reply: &SellerReply) -> Next {
        match reply {
            SellerReply::Sold => Next::Close(PurchaseState::Answered),
            SellerReply::Declined => Next::Close(PurchaseState::Unspent),
            SellerReply::Later(code, after) => Next::Pause(*code, *after),
            SellerReply::NotConfirmed(after) => Next::Pause(Some(ProblemCode::TxNotConfirmed), *after),
            SellerReply::Refused(code) | SellerReply::Unproven(code) => Next::Look(Some(*code)),
            SellerReply::Failed => Next::Failed,
            _ => Next::Look(None),
        }
    }

    /// Goes on after a failure that says nothing about the payment.
    async fn failed<R>(
        &mut self,
        guard: &mut PurchaseGuard,
        reason: Option<Reason>,
    ) -> Result<Option<Shown<R>>, PayError> {
        self.failures += 1;
        if self.failures < FAILURES_MAX {
            self.pause(guard.entry(), None, None).await?;
            return Ok(None);
        }
        match self.look(guard).await? {
            AuthorizationStatus::Void => Ok(Some(Shown::Void)),
            AuthorizationStatus::Used { .. } if !guard.entry().is_shown() => Ok(Some(Shown::Settled)),
            AuthorizationStatus::Used { .. } => Err(unsettled(guard.entry(), None)),
            AuthorizationStatus::Unused => Err(PayError::outstanding(guard.entry(), reason)),
        }
    }

    /// Goes on after a refusal. What the seller says is not believed: the chain is asked.
    async fn refused<R>(
        &mut self,
        guard: &mut PurchaseGuard,
        parts: &Parts,
        reply: SellerReply,
        code: Option<ProblemCode>,
    ) -> Result<Option<Shown<R>>, PayError> {
        let was_settled = guard.entry().transaction.is_some();
        match self.look(guard).await? {
            AuthorizationStatus::Void => Ok(Some(Shown::Void)),
            AuthorizationStatus::Unused if self.renews(guard, parts).await => {
                self.progress.report(PurchaseEvent::Renewed);
                Ok(None)
            }
            AuthorizationStatus::Unused => match reply::refusal(&parts.headers) {
                Some(reason) if is_final(&reason) => Err(PayError::outstanding(guard.entry(), Some(reason))),
                // What a facilitator failed at may work in a moment.
                reason => self.failed(guard, reason).await,
            },
            AuthorizationStatus::Used { .. } => {
                if let SellerReply::Fresh(intent) = reply {
                    // It redeems transactions after all.
                    guard.note(|entry| intent.as_str().clone_into(&mut entry.intent)).await;
                }
                let entry = guard.entry();
                if !entry.is_shown() && code.is_none_or(|code| code != ProblemCode::AlreadyConsumed) {
                    return Ok(Some(Shown::Settled));
                }
                // Settled between two looks: what was refused may be answered now.
                if !was_settled && !self.shown_settled && code.is_none() {
                    self.shown_settled = true;
                    self.pause(entry, None, None).await?;
                    return Ok(None);
                }
                Err(self.lost(guard, code).await)
            }
        }
    }

    /// Asks the chain what became of the authorization, and records it.
    async fn look(&self, guard: &mut PurchaseGuard) -> Result<AuthorizationStatus, PayError> {
        let status = status(self.inner, guard.entry()).await?;
        match status {
            AuthorizationStatus::Used { transaction } => guard.note(|entry| entry.is_settled_by(transaction)).await,
            AuthorizationStatus::Void => guard.note(|entry| entry.state = PurchaseState::Void).await,
            AuthorizationStatus::Unused => {}
        }
        Ok(status)
    }

    /// Puts the same authorization under the quote that comes with a refusal, if that is another one, and asks for the same.
    async fn renews(&mut self, guard: &mut PurchaseGuard, parts: &Parts) -> bool {
        if parts.status != StatusCode::PAYMENT_REQUIRED || self.renewals >= RENEWALS_MAX {
            return false;
        }
        self.renewals += 1;
        let Ok(bill) = Bill::of_headers(&parts.headers, &self.inner.budget, self.inner.now()) else { return false };
        let Some(terms) = bill.terms_for(guard.entry()).filter(|terms| terms.intent.is_some()) else { return false };
        let Some(message) = guard.entry().authorization().map(|signed| terms.message(signed)) else { return false };
        if guard.entry().prepared.last().is_some_and(|prepared| prepared.payload == message) {
            return false;
        }
        guard.note(|entry| entry.takes_authorization_terms(terms.intent.as_ref(), message)).await;
        true
    }

    /// The seller was paid, and does not give the answer.
    async fn lost(&self, guard: &mut PurchaseGuard, code: Option<ProblemCode>) -> PayError {
        let Some(transaction) = guard.entry().transaction else { return unsettled(guard.entry(), None) };
        let purchase = guard.entry().id;
        match code {
            Some(code) if !guard.refuse().await => PayError::Unanswered { purchase, transaction, code: Some(code) },
            Some(code) if self.breaks > 0 => PayError::AnswerLost { purchase, transaction, code },
            Some(code) => PayError::Refused { purchase, transaction, code },
            None => {
                // However often it is asked, it was paid once: only age ends it, as it ends a transfer that bought nothing.
                let kept_until = guard.entry().at.after(self.inner.settings.payment_age);
                let is_last = kept_until <= self.inner.now() && guard.refuse().await;
                PayError::BilledAgain { purchase, transaction, is_last }
            }
        }
    }

    async fn broke_off(&mut self, entry: &JournalEntry) -> Result<(), PayError> {
        tracing::warn!(purchase = %entry.id, "the answer broke off after it was sold");
        self.breaks += 1;
        if self.breaks >= BREAKS_MAX {
            return Err(unsettled(entry, None));
        }
        self.pause(entry, None, None).await
    }

    async fn pause(
        &mut self,
        entry: &JournalEntry,
        code: Option<ProblemCode>,
        after: Option<Duration>,
    ) -> Result<(), PayError> {
        let pause = self.pacing.next(after).ok_or_else(|| unsettled(entry, code))?;
        self.progress.report(PurchaseEvent::Waiting { code, pause });
        Pacing::wait(pause).await;
        Ok(())
    }
}

/// Words of facilitators that a server or a chain failed at the moment, or that the payment is used. They are read where the chain shows
/// it as unused: then it was settled in a transaction that no block has yet.
const PASSING: [&str; 9] = [
    "settlement_pending",
    "unexpected_verify_error",
    "unexpected_settle_error",
    "invalid_exact_evm_nonce_already_used",
    "invalid_exact_evm_payload_authorization_nonce_used",
    "nonce_already_used",
    "authorization_already_used",
    "nonce_reused",
    "duplicate_settlement",
];

/// Whether a refusal is about the payment, so that showing it again changes nothing.
fn is_final(reason: &Reason) -> bool {
    !PASSING.contains(&reason.as_str())
}

/// Asks the chain what became of a purchase's authorization.
pub(in crate::client) async fn status(
    inner: &ClientInner,
    entry: &JournalEntry,
) -> Result<AuthorizationStatus, PayError> {
    let Some(prepared) = entry.prepared.last() else { return Err(unsettled(entry, None)) };
    let said = inner.payer.authorization_status(prepared, entry.at).await;
    match said {
        // What was settled once, by the chain's word, is not signed again on another word.
        Ok(AuthorizationStatus::Unused | AuthorizationStatus::Void) if entry.is_settled() => {
            Ok(AuthorizationStatus::Used { transaction: entry.transaction })
        }
        Ok(status) => Ok(status),
        Err(reason) => {
            Err(PayError::Unsettled { purchase: entry.id, transaction: entry.transaction, reason: Some(reason) })
        }
    }
}

fn unsettled(entry: &JournalEntry, code: Option<ProblemCode>) -> PayError {
    match entry.transaction {
        Some(transaction) => PayError::Unanswered { purchase: entry.id, transaction, code },
        None => PayError::Unsettled { purchase: entry.id, transaction: None, reason: None },
    }
}
