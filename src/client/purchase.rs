//! `PurchaseFlow`: a purchase from beginning to end. Ask, decide, pay, wait, redeem.
//!
//! The flow decides what comes next; [`Seller`], [`TransferDriver`] and [`Redemption`] do it, and know nothing of each
//! other or of the flow.

use std::{mem, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, response::Parts};
use http_body::Body;
use tokio::time::{Instant, timeout};
use tower_service::Service;
use tracing::Span;

use super::{
    JournalEntry, PayError, ProofIn, Purchase, PurchaseEvent, PurchaseId, ReplayBody, ResponseBody, Timings,
    box_error::BoxError,
    budget::Offer,
    drafts,
    inner::ClientInner,
    left_over::{self, LeftOver},
    progress::Progress,
    redemption::{Redeemed, Redemption},
    registry::PurchaseGuard,
    replay_request::{ReplayRequest, RequestIdentity},
    reply,
    seller::{Offered, Seller},
    settlement::{Settlement, TransferDriver, in_time},
};
use crate::protocol::{Asset, ChainTime, Quote, TxHash};

/// How often one call pays, where other transactions take the place of its own: only ever one of them is mined.
const PAYMENTS_MAX: u32 = 3;

/// One call of the layer.
pub(super) struct PurchaseFlow<S, B> {
    inner: Arc<ClientInner>,
    seller: Seller<S, B>,
    /// Of what is bought now: under a name of its own, until there is a purchase to resume.
    progress: Progress,
    attempts: u32,
    timings: Timings,
    started: Instant,
    deadline: Instant,
}

impl<S, B, R> PurchaseFlow<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: ReplayBody,
    R: Body<Data = Bytes>,
{
    /// `service` was polled ready.
    pub(super) fn new(inner: Arc<ClientInner>, service: S, request: ReplayRequest<B>) -> Self {
        let now = Instant::now();
        let deadline = now + inner.settings.patience;
        let RequestIdentity { host, what, .. } = &request.identity;
        let progress = Progress::new(PurchaseId::random(), host, what, inner.on_progress.clone());
        let seller = Seller::new(service, request);
        Self { inner, seller, progress, attempts: 0, timings: Timings::default(), started: now, deadline }
    }

    pub(super) async fn run(mut self) -> Result<Response<ResponseBody<R>>, PayError> {
        if self.request().has_own_proof() {
            return self.seller.forward().await;
        }
        let mut payments = 0;
        loop {
            let outcome = match self.resumed() {
                Some(guard) => self.finish(guard).await,
                None => {
                    payments += 1;
                    self.begin().await
                }
            };
            match outcome {
                // The journal shows that the transfer can never be mined: another may take its place.
                Err(PayError::Displaced) if payments < PAYMENTS_MAX && !self.request().resumes_only() => {}
                outcome => return outcome,
            }
        }
    }

    fn request(&self) -> &ReplayRequest<B> {
        self.seller.request()
    }

    /// Finds an unfinished purchase of this request.
    fn resumed(&mut self) -> Option<PurchaseGuard> {
        let (registry, request) = (&self.inner.registry, self.seller.request());
        let fingerprint = request.identity.fingerprint.as_deref()?;
        let guard = match request.paid() {
            Some(transaction) => registry.paid_with(fingerprint, transaction)?,
            None => registry.resume(fingerprint, request.resumes_only())?,
        };
        // A client that was polled ready must not hold its readiness while the chain is asked.
        self.seller.drop_readiness();
        self.resumes_with(&guard);
        Some(guard)
    }

    /// Begins a purchase of this request, of which nothing is left from before.
    async fn begin(&mut self) -> Result<Response<ResponseBody<R>>, PayError> {
        if self.request().resumes_only() {
            return Err(PayError::NothingToResume);
        }
        self.progress.turn_to(PurchaseId::random());
        self.deadline = Instant::now() + self.inner.settings.patience;
        let quote = match in_time(self.deadline, "the seller's first answer", self.seller.quote()).await?? {
            Offered::Answered(response) => return Ok(response),
            Offered::Quoted(quote) => quote,
        };
        self.timings.quote = self.lap();
        self.progress.report(PurchaseEvent::Quoted(quote.clone()));
        if let Some(transaction) = self.request().paid() {
            let guard = self.paid_elsewhere(&quote, transaction).await;
            return self.finish(guard).await;
        }
        let age = self.inner.settings.payment_age.as_secs();
        let accepted_since = ChainTime::from_unix(self.inner.now().unix().saturating_sub(age));
        self.inner.registry.close_unspent(accepted_since).await;
        while let Some(own) = left_over::own(&self.inner.registry, &self.request().identity, &quote)? {
            if let Some(answer) = self.put(own, &quote).await? {
                return Ok(answer);
            }
        }
        let assets = self.admit(&quote)?;
        while let Some(other) = left_over::adoptable(&self.inner.registry, &self.request().identity, &quote) {
            if let Some(answer) = self.put(other, &quote).await? {
                return Ok(answer);
            }
        }
        let guard = self.paid_now(&quote, assets).await?;
        self.finish(guard).await
    }

    /// Puts a payment that was left over to a quote; `None` where it is of no use, and another may be made.
    async fn put(
        &mut self,
        LeftOver { mut guard, may_pay_anew }: LeftOver,
        quote: &Quote,
    ) -> Result<Option<Response<ResponseBody<R>>>, PayError> {
        self.resumes_with(&guard);
        left_over::adopt(&mut guard, &self.request().identity, quote).await;
        let shown_before = self.attempts;
        match self.finish(guard).await {
            // It was used up already, and bought nothing now. At a later showing it may have bought this answer.
            Err(PayError::Refused { transaction, code })
                if may_pay_anew && left_over::is_used_up(code) && self.attempts == shown_before + 1 =>
            {
                tracing::warn!(%transaction, code = code.as_str(), "a payment that was left over is of no use");
                // What is paid now is another purchase.
                self.progress.turn_to(PurchaseId::random());
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Reports which purchase is resumed.
    fn resumes_with(&mut self, guard: &PurchaseGuard) {
        let entry = guard.entry();
        self.progress.turn_to(entry.id);
        self.progress.report(PurchaseEvent::Resumed { purchase: entry.id, transaction: entry.transaction() });
    }

    /// Makes a new payment.
    async fn paid_now(&mut self, quote: &Quote, assets: Vec<Asset>) -> Result<PurchaseGuard, PayError> {
        let inner = Arc::clone(&self.inner);
        let entry = self.entry(quote);
        let proposal = drafts::proposal(self.request(), quote, entry.id, assets);
        let guard = inner.registry.reserve(entry, &inner.budget)?;
        let payment = drafts::payment(&proposal, quote);
        let asked = Instant::now();
        inner.budget.approve(proposal).await?;
        // How long a human takes is no matter of patience.
        self.deadline += asked.elapsed();
        let driver = TransferDriver::new(inner.transfer_context(), guard, self.progress.clone(), self.deadline);
        let guard = driver.pay(&payment, quote).await?;
        self.timings.pay = self.lap();
        Ok(guard)
    }

    async fn paid_elsewhere(&mut self, quote: &Quote, transaction: TxHash) -> PurchaseGuard {
        let mut guard = self.inner.registry.paid_elsewhere(self.entry(quote));
        guard.note(|entry| entry.is_paid_by(transaction)).await;
        guard
    }

    fn entry(&self, quote: &Quote) -> JournalEntry {
        drafts::entry(self.request(), quote, self.progress.purchase(), self.inner.now())
    }

    /// What the budget says of a quote for this request.
    fn admit(&self, quote: &Quote) -> Result<Vec<Asset>, PayError> {
        let offer = Offer {
            quote,
            host: &self.request().identity.host,
            plain_http: self.request().is_plain_http(),
            now: self.inner.now(),
            least_time: self.inner.settings.least_time_to_pay,
        };
        Ok(self.inner.budget.admit(&offer)?)
    }

    /// Goes from the payment to the answer.
    async fn finish(&mut self, guard: PurchaseGuard) -> Result<Response<ResponseBody<R>>, PayError> {
        let inner = Arc::clone(&self.inner);
        self.deadline = Instant::now() + inner.settings.patience;
        let span = Span::current();
        span.record("purchase", tracing::field::display(guard.entry().id));
        let mut transfer = TransferDriver::new(inner.transfer_context(), guard, self.progress.clone(), self.deadline);
        let mut transaction = self.settle(&mut transfer).await?;
        span.record("transaction", tracing::field::display(transaction));
        self.timings.confirm = self.lap();
        let mut redemption =
            Redemption::new(&inner, self.progress.clone(), self.deadline, self.proof_place(), self.attempts);
        loop {
            let redeemed = redemption.run(&mut self.seller, transfer.guard_mut(), transaction).await;
            self.attempts = redemption.attempts();
            if let Redeemed::Answered(parts, body) = redeemed? {
                return Ok(self.answered(transfer.entry(), transaction, parts, body));
            }
            transaction = match transfer.recheck(transaction).await {
                Some(transaction) => transaction,
                None => self.settle(&mut transfer).await?,
            };
        }
    }

    /// Waits until a transfer is in enough blocks, and asks the seller again where its quote is over before that.
    async fn settle(&mut self, transfer: &mut TransferDriver<'_>) -> Result<TxHash, PayError> {
        loop {
            match transfer.settle().await? {
                Settlement::Settled(transaction) => return Ok(transaction),
                Settlement::NeedsRequote => {
                    let quote = self.requote().await;
                    transfer.requoted(quote.as_deref()).await?;
                }
            }
        }
    }

    /// A fresh quote that the budget allows, if there is one.
    async fn requote(&mut self) -> Option<Box<Quote>> {
        let patience = self.inner.settings.patience_until(self.deadline);
        match timeout(patience, self.seller.quote()).await {
            Ok(Ok(Offered::Quoted(quote))) => Some(quote).filter(|quote| self.admit(quote).is_ok()),
            _ => None,
        }
    }

    fn proof_place(&self) -> ProofIn {
        let in_body = self.inner.settings.proof_in == ProofIn::Body && self.request().takes_proof_in_body();
        if in_body { ProofIn::Body } else { ProofIn::Header }
    }

    /// The response for the caller.
    fn answered(
        &mut self,
        entry: &JournalEntry,
        transaction: TxHash,
        parts: Parts,
        body: ResponseBody<R>,
    ) -> Response<ResponseBody<R>> {
        self.timings.redeem = self.lap();
        let prepared = entry.prepared.iter().find(|one| one.transaction == Some(transaction)).or(entry.prepared.last());
        let purchase = Purchase {
            id: entry.id,
            state: entry.state,
            confirmed: reply::confirms(&parts.headers, transaction),
            recipient: entry.recipient,
            network: entry.network,
            token: prepared.map(|prepared| prepared.token),
            payer: prepared.map(|prepared| prepared.payer),
            amount: entry.amount,
            decimals: entry.decimals,
            transaction,
            sent: entry.prepared.len(),
            attempts: self.attempts,
            timings: self.timings,
        };
        let mut response = Response::from_parts(parts, body);
        response.extensions_mut().insert(purchase);
        response
    }

    /// The time since the last lap.
    fn lap(&mut self) -> Duration {
        mem::replace(&mut self.started, Instant::now()).elapsed()
    }
}

#[cfg(test)]
#[cfg(feature = "test-util")]
mod tests;
