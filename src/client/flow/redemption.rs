//! The answer: the proof is sent until the seller gives it, or says why not.

mod answer;
mod failing;
mod payer_signature;

pub(in crate::client) use self::answer::{close, read_ahead};

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, response::Parts};
use http_body::Body;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use self::{
    failing::{Failing, fail},
    payer_signature::PayerSignature,
};
use crate::client::{
    JournalEntry, PayError, ProofIn, PurchaseEvent, PurchaseState, ReplayBody, ResponseBody,
    box_error::BoxError,
    dialect::reply::SellerReply,
    dialect::shown_proof::ShownProof,
    flow::pacing::Pacing,
    flow::progress::Progress,
    flow::registry::PurchaseGuard,
    flow::seller::{Replied, Seller},
    inner::ClientInner,
    settings::Settings,
};
use crate::protocol::{ProblemCode, TxHash};

/// How many fresh intents one call takes: an honest seller needs one, or two where a price changes meanwhile.
const RENEWALS_MAX: u32 = 3;
/// How often a server may fail without a reason before its failure is the answer.
const FAILURES_MAX: u32 = 3;
/// How often an answer may break off in one call.
const BREAKS_MAX: u32 = 3;

/// The conversation with a seller about one payment.
pub(in crate::client) struct Redemption<'a> {
    settings: &'a Settings,
    progress: Progress,
    deadline: Instant,
    place: ProofIn,
    signature: PayerSignature<'a>,
    renewals: u32,
    failures: u32,
    breaks: u32,
    pacing: Pacing,
    attempts: u32,
}

/// What redeeming comes to.
pub(in crate::client) enum Redeemed<R> {
    /// This is the caller's answer; the journal has the purchase's last state.
    Answered(Parts, ResponseBody<R>),
    /// The seller does not find the transaction: look at the chain again, then go on.
    NotConfirmed,
}

/// What a reply asks for.
enum Next {
    Close(PurchaseState),
    Pause(Option<ProblemCode>, Option<Duration>),
    NotConfirmed(Option<Duration>),
    Renew(String),
    /// With the payer's signature.
    Sign(ProblemCode),
    /// With the proof in the header.
    Again,
    Fail(Failing),
}

impl<'a> Redemption<'a> {
    /// Everything that is waited for has to be over at `deadline`; `attempts` have been made by this call before.
    pub(in crate::client) fn new(
        inner: &'a ClientInner,
        progress: Progress,
        deadline: Instant,
        place: ProofIn,
        attempts: u32,
    ) -> Self {
        let (settings, signature) = (&inner.settings, PayerSignature::of(&*inner.payer));
        let (renewals, failures, breaks) = (0, 0, 0);
        let pacing = Pacing::new(deadline, settings.longest_pause);
        Self { settings, progress, deadline, place, signature, renewals, failures, breaks, pacing, attempts }
    }

    /// How often the proof was sent.
    pub(in crate::client) const fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Sends the proof of `transaction` until there is an answer, or a reason why there is none.
    pub(in crate::client) async fn run<S, B, R>(
        &mut self,
        seller: &mut Seller<S, B>,
        guard: &mut PurchaseGuard,
        transaction: TxHash,
    ) -> Result<Redeemed<R>, PayError>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        loop {
            let Some(Replied { parts, reply, body }) = self.present(seller, guard.entry(), transaction).await? else {
                self.pause(transaction, None, None).await?;
                continue;
            };
            match self.next(reply, guard.entry(), transaction) {
                Next::Close(state) => {
                    let Some(body) = read_ahead(guard, state, body, self.settings.read_ahead).await else {
                        self.broke_off(transaction).await?;
                        continue;
                    };
                    close(guard, Some(transaction), state, &parts).await;
                    self.progress.report(PurchaseEvent::Answered(parts.status));
                    return Ok(Redeemed::Answered(parts, body));
                }
                Next::Pause(code, after) => self.pause(transaction, code, after).await?,
                Next::NotConfirmed(after) => {
                    self.pause(transaction, Some(ProblemCode::TxNotConfirmed), after).await?;
                    return Ok(Redeemed::NotConfirmed);
                }
                Next::Renew(intent) => {
                    guard.note(|entry| entry.intent = intent).await;
                    self.progress.report(PurchaseEvent::Renewed);
                }
                Next::Sign(code) => {
                    if !self.sign(guard.entry(), transaction, code).await? {
                        let failing = Failing::Unproven { code, signed: false };
                        return Err(fail(guard, transaction, failing, &parts).await);
                    }
                }
                Next::Again => {}
                Next::Fail(failing) => return Err(fail(guard, transaction, failing, &parts).await),
            }
        }
    }

    /// Sends the proof once; `None` where no answer came.
    async fn present<S, B, R>(
        &mut self,
        seller: &mut Seller<S, B>,
        entry: &JournalEntry,
        transaction: TxHash,
    ) -> Result<Option<Replied<R>>, PayError>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        S::Error: Into<BoxError>,
        B: ReplayBody,
        R: Body<Data = Bytes>,
    {
        // A body that cannot be had again after all: what was paid is not forgotten.
        let unsent = PayError::Unanswered { purchase: entry.id, transaction, code: None };
        let proof = ShownProof::of(entry, transaction, self.signature.get(entry, transaction));
        let proven = seller.proven(&proof, self.place).ok_or(unsent)?;
        self.attempts += 1;
        self.progress.report(PurchaseEvent::Redeeming { transaction: Some(transaction), attempt: self.attempts });
        let patience = self.settings.patience_until(self.deadline);
        Ok(seller.present(proven, patience).await)
    }

    /// Decides what a reply asks for, and counts what is not endless.
    fn next(&mut self, reply: SellerReply, entry: &JournalEntry, transaction: TxHash) -> Next {
        match reply {
            SellerReply::Sold => Next::Close(PurchaseState::Answered),
            SellerReply::Declined => Next::Close(PurchaseState::Unspent),
            SellerReply::Failed if self.failures + 1 >= FAILURES_MAX => Next::Close(PurchaseState::Redeeming),
            SellerReply::Failed => {
                self.failures += 1;
                Next::Pause(None, None)
            }
            SellerReply::Fresh(intent) if self.renewals < RENEWALS_MAX => {
                self.renewals += 1;
                Next::Renew(intent.as_str().to_owned())
            }
            SellerReply::Fresh(_) => Next::Fail(Failing::TooManyIntents),
            SellerReply::NotConfirmed(after) => Next::NotConfirmed(after),
            SellerReply::Later(code, after) => Next::Pause(code, after),
            // The proof is the same; a route may take it in the header only.
            SellerReply::Elsewhere | SellerReply::Billed if self.place == ProofIn::Body => {
                self.place = ProofIn::Header;
                Next::Again
            }
            SellerReply::Billed => Next::Fail(Failing::BilledAgain),
            SellerReply::Redirected => Next::Fail(Failing::Redirected),
            SellerReply::Unproven(code) => {
                let signed = self.signature.get(entry, transaction).is_some();
                if signed || code == ProblemCode::InvalidSignature {
                    Next::Fail(Failing::Unproven { code, signed })
                } else {
                    Next::Sign(code)
                }
            }
            // What was sold once, and did not come.
            SellerReply::Refused(code) if self.breaks > 0 => Next::Fail(Failing::Lost(code)),
            SellerReply::Refused(code) => Next::Fail(Failing::Refused(code)),
            SellerReply::Misunderstood | SellerReply::Elsewhere => Next::Fail(Failing::Misunderstood),
        }
    }

    /// Has the payer sign; `false` where it does not sign.
    async fn sign(&mut self, entry: &JournalEntry, transaction: TxHash, code: ProblemCode) -> Result<bool, PayError> {
        self.progress.report(PurchaseEvent::Signing);
        let purchase = entry.id;
        let late = PayError::Unanswered { purchase, transaction, code: Some(code) };
        let signed = timeout_at(self.deadline, self.signature.sign(entry, transaction)).await.map_err(|_| late)?;
        signed.map_err(|reason| PayError::Unproven { purchase, transaction, code, signed: false, reason: Some(reason) })
    }

    /// Waits before a lost answer is asked for again. It was sold: the payment is not shown for another.
    async fn broke_off(&mut self, transaction: TxHash) -> Result<(), PayError> {
        tracing::warn!(%transaction, "the answer broke off after it was sold");
        self.breaks += 1;
        if self.breaks >= BREAKS_MAX {
            return Err(PayError::Unanswered { purchase: self.progress.purchase(), transaction, code: None });
        }
        self.pause(transaction, None, None).await
    }

    /// Waits as long as the seller asks, within bounds, and never much less.
    async fn pause(
        &mut self,
        transaction: TxHash,
        code: Option<ProblemCode>,
        after: Option<Duration>,
    ) -> Result<(), PayError> {
        let purchase = self.progress.purchase();
        let pause = self.pacing.next(after).ok_or(PayError::Unanswered { purchase, transaction, code })?;
        self.progress.report(PurchaseEvent::Waiting { code, pause });
        Pacing::wait(pause).await;
        Ok(())
    }
}
