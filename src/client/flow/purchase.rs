//! `PurchaseFlow`: a purchase from beginning to end. Ask, decide, pay, wait, redeem; or ask, decide, sign, show.
//!
//! The flow decides about the next step; [`Seller`], [`TransferDriver`] and [`Conversation`] perform it, independently
//! of each other and of the flow.

use std::{future::Future, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;
use tracing::Span;

use crate::{
    client::{
        Failure, JournalEntry, ProofIn, PurchaseEvent, PurchaseId, ReplayBody, ResponseBody, Timings,
        box_error::BoxError,
        dialect::{Bill, TransferTerms},
        flow::{
            Conversation, LeftOver, Offered, Outcome, Progress, PurchaseGuard, Seller,
            conversation::unanswered,
            left_over::{self, TooOld},
        },
        http::{Peek, ReplayRequest, RequestIdentity},
        inner::ClientInner,
        pass::{BILL_MAX, PassOrder},
        way::{Asking, Followed, TransferDriver, charge, transfer::in_time},
    },
    protocol::TxHash,
};

/// How often one call pays, where other transactions take the place of its own: only ever one of them is mined.
const PAYMENTS_MAX: u32 = 3;

/// What the request without proof was answered with, and when it was sent.
pub(crate) struct FirstAnswer<R> {
    pub(crate) answer: Response<R>,
    pub(crate) asked: Instant,
}

/// One call of the layer.
pub(crate) struct PurchaseFlow<S, B> {
    inner: Arc<ClientInner>,
    seller: Seller<S, B>,
    /// Events of the new purchase: under a name of its own, until there is a purchase to resume.
    progress: Progress,
    attempts: u32,
    timings: Timings,
    started: Instant,
    deadline: Instant,
    /// When the request wants all of it to be over, the body of its answer included.
    limit: Option<Instant>,
}

impl<S, B: ReplayBody> PurchaseFlow<S, B> {
    /// `service` was polled ready, or the request has its first answer.
    pub(crate) fn new(inner: Arc<ClientInner>, service: S, request: ReplayRequest<B>, started: Instant) -> Self {
        let limit = request.limit(started);
        let deadline = within(limit, started + inner.settings.patience);
        let RequestIdentity { host, what, .. } = &request.identity;
        let progress = Progress::new(PurchaseId::random(), host, what, inner.on_progress.clone());
        let seller = Seller::new(service, request);
        Self { inner, seller, progress, attempts: 0, timings: Timings::default(), started, deadline, limit }
    }

    fn request(&self) -> &ReplayRequest<B> {
        self.seller.request()
    }

    /// What decides about a bill for this request.
    fn asking<'a>(&'a self, inner: &'a ClientInner) -> Asking<'a> {
        let request = self.request();
        let (identity, plain_http, max_price) = (&request.identity, request.is_plain_http(), request.max_price());
        Asking { inner, identity, plain_http, max_price, is_authorized: request.is_authorized() }
    }

    fn conversation<'a>(&self, inner: &'a ClientInner) -> Conversation<'a> {
        let in_body = inner.settings.proof_in == ProofIn::Body && self.request().takes_proof_in_body();
        let place = if in_body { ProofIn::Body } else { ProofIn::Header };
        Conversation::new(inner, self.progress.clone(), self.deadline, place, self.attempts)
    }

    /// The time since the last lap.
    fn lap(&mut self) -> Duration {
        mem::replace(&mut self.started, Instant::now()).elapsed()
    }
}

impl<S, B, R> PurchaseFlow<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: ReplayBody,
    R: Body<Data = Bytes>,
{
    /// Resumes an unfinished purchase, or buys; `first` is the answer to the plain request, if it was sent already.
    pub(crate) async fn run(mut self, first: Option<FirstAnswer<R>>) -> Result<Response<ResponseBody<R>>, Failure> {
        let came = self.answer(first.map(|first| first.answer)).await;
        if let Some(order) = self.request().pass_order().filter(|order| order.buys_a_pass()) {
            order.ends(self.ending(&came));
        }
        let answer = came?;
        let until = self.inner.settings.body_until();
        let until = self.limit.into_iter().chain(until).min();
        Ok(answer.map(|body| body.ending(until)))
    }

    async fn answer(&mut self, mut first: Option<Response<R>>) -> Result<Response<ResponseBody<R>>, Failure> {
        if self.request().has_own_proof() {
            return in_time_at_most(self.limit, self.seller.forward()).await;
        }
        if let Some(purchase) = self.request().asks_again() {
            return self.again(purchase).await;
        }
        let mut payments = 0;
        loop {
            let outcome = match if first.is_some() { None } else { self.resumed()? } {
                Some(guard) => self.finish(guard).await,
                None => {
                    payments += 1;
                    self.begin(first.take()).await
                }
            };
            match outcome {
                // The journal shows that the transfer can never be mined: another may take its place.
                Err(Failure::Displaced { .. } | Failure::Lapsed { .. })
                    if payments < PAYMENTS_MAX && !self.request().resumes_only() => {}
                outcome => return outcome,
            }
        }
    }

    /// Asks once more for the answer of a finished purchase.
    async fn again(&mut self, purchase: PurchaseId) -> Result<Response<ResponseBody<R>>, Failure> {
        let Some(fingerprint) = self.request().identity.fingerprint.clone() else {
            return Err(Failure::NotReplayable);
        };
        let known = self.inner.registry.known(&fingerprint, purchase).await.map_err(Failure::Journal)?;
        let guard = known.ok_or(Failure::NothingToResume)?;
        self.seller.drop_readiness();
        self.turns_to(&guard);
        self.finish(guard).await
    }

    /// Begins a purchase of this request, which has no earlier one.
    async fn begin(&mut self, first: Option<Response<R>>) -> Result<Response<ResponseBody<R>>, Failure> {
        if self.request().resumes_only() {
            return Err(Failure::NothingToResume);
        }
        if let Some(order) = self.request().pass_order() {
            order.resumes(None);
        }
        if self.request().pays_nothing_new() && !self.request().is_quote_only() {
            return self.unpaid(first).await;
        }
        self.progress.turn_to(PurchaseId::random());
        if first.is_none() {
            self.deadline = within(self.limit, Instant::now() + self.inner.settings.patience);
        }
        let inner = Arc::clone(&self.inner);
        let asked =
            in_time(self.deadline, "the seller's first answer", self.seller.bill(first, &inner.budget, inner.now()));
        let (bill, mut response) = match asked.await?? {
            Offered::Answered(response) => return Ok(response),
            Offered::Billed(bill, response) => (bill, response),
        };
        if let Some(order) = self.request().pass_order() {
            order.bills();
        }
        self.timings.quote = self.lap();
        if let (Some(transaction), Some(quote)) = (self.request().paid(), bill.quotes().next()) {
            self.progress.report(PurchaseEvent::Quoted(Box::new(quote.clone())));
            let guard = self.paid_elsewhere(quote, transaction).await;
            return self.finish(guard).await;
        }
        if self.request().is_quote_only() {
            let way = in_time(self.deadline, "choosing a way to pay", self.asking(&inner).choose(&bill)).await??;
            if !way.spends().is_zero() {
                inner.registry.affords(&self.request().identity.host, way.spends(), &inner.budget)?;
            }
            response.extensions_mut().insert(way.quote().clone());
            return Ok(response);
        }
        drop(response);
        self.buy(&bill).await
    }

    /// Gets the answer for a payment that was left over, or else for a new one.
    async fn buy(&mut self, bill: &Bill) -> Result<Response<ResponseBody<R>>, Failure> {
        let inner = Arc::clone(&self.inner);
        let too_old = TooOld { before: self.accepted_since(), is_certain: self.is_clock_confirmed(bill) };
        if too_old.is_certain {
            self.inner.registry.close_old(too_old.before).await;
        }
        let _ = timeout_at(self.deadline, left_over::close_lapsed(&inner, too_old)).await;
        Box::pin(charge::confirm_earlier(&inner)).await;
        while let Some(mut own) = left_over::own(&inner, &self.request().identity, bill).await? {
            // What was delivered for it may have been a page of some proxy. For a pass that its seller refuses, none is paid again at once.
            own.may_pay_anew &= !self.request().pass_order().is_some_and(PassOrder::buys_a_pass);
            if let Some(answer) = self.put(own, bill).await? {
                return Ok(answer);
            }
        }
        // A seller may name hundreds of ways, and the payer asks its nodes about each.
        let way = in_time(self.deadline, "choosing a way to pay", self.asking(&inner).choose(bill)).await??;
        self.progress.report(PurchaseEvent::Quoted(Box::new(way.quote().clone())));
        while let Some(other) =
            left_over::adoptable(&inner.registry, &self.request().identity, bill, self.request().max_price())
        {
            if let Some(answer) = self.put(other, bill).await? {
                return Ok(answer);
            }
        }
        // The seller's 402 may have taken its time.
        let guard = match self.left_meanwhile()? {
            Some(left) => left,
            None => self.pay(way).await?,
        };
        if guard.entry().id != self.progress.purchase() {
            self.resumes_with(&guard)?;
        }
        self.finish(guard).await
    }

    /// The answer to the request as it is, a bill included.
    async fn unpaid(&mut self, first: Option<Response<R>>) -> Result<Response<ResponseBody<R>>, Failure> {
        let answer = match first {
            Some(first) => first.map(ResponseBody::untouched),
            None => in_time(self.deadline, "the seller's answer", self.seller.forward()).await??,
        };
        match self.request().pass_order().cloned() {
            Some(order) if answer.status() == StatusCode::PAYMENT_REQUIRED => {
                Ok(told(&order, answer, self.deadline).await)
            }
            _ => Ok(answer),
        }
    }

    /// Puts a payment that was left over to a bill; `None` where it is of no use, and another may be made.
    async fn put(
        &mut self,
        LeftOver { mut guard, may_pay_anew }: LeftOver,
        bill: &Bill,
    ) -> Result<Option<Response<ResponseBody<R>>>, Failure> {
        self.resumes_with(&guard)?;
        let is_signed = guard.entry().signed().is_some();
        // A payment that settled during this presentation was taken now, so no other payment follows.
        let may_pay_anew = may_pay_anew && (!is_signed || left_over::was_settled(&self.inner, guard.entry()).await);
        left_over::adopt(&mut guard, &self.request().identity, bill).await;
        let (purchase, shown_before) = (guard.entry().id, self.attempts);
        match self.finish(guard).await {
            // It was used up already, and bought nothing now. At a later showing it may have bought this answer.
            Err(Failure::Refused { transaction, code, .. })
                if may_pay_anew && left_over::is_used_up(code) && self.attempts == shown_before + 1 =>
            {
                tracing::warn!(%transaction, code = code.as_str(), "a payment that was left over is of no use");
                self.begins_anew();
                Ok(None)
            }
            // Its answer was delivered before, and the settlement since then buys nothing more.
            Err(Failure::BilledAgain { transaction, .. }) if may_pay_anew && is_signed => {
                tracing::warn!(%transaction, "an authorization that was left over is of no use");
                let _ = self.inner.registry.abandon(purchase).await;
                self.begins_anew();
                Ok(None)
            }
            // It can never be used.
            Err(Failure::Lapsed { .. }) => {
                self.begins_anew();
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Abandons a payment that is of no use. A payment made from now on belongs to a new purchase.
    fn begins_anew(&mut self) {
        self.progress.turn_to(PurchaseId::random());
        if let Some(order) = self.request().pass_order() {
            order.resumes(None);
        }
    }

    /// Goes from the payment to the answer.
    async fn finish(&mut self, mut guard: PurchaseGuard) -> Result<Response<ResponseBody<R>>, Failure> {
        let inner = Arc::clone(&self.inner);
        self.deadline = within(self.limit, Instant::now() + inner.settings.patience);
        let span = Span::current();
        span.record("purchase", tracing::field::display(guard.entry().id));
        if guard.entry().is_shown() {
            guard.written().await.map_err(|_| unanswered(guard.entry(), None, None))?;
            let mut conversation = self.conversation(&inner);
            let outcome = conversation.run(&mut self.seller, &mut guard, None).await;
            self.attempts = conversation.attempts();
            match outcome? {
                Outcome::Answered(parts, body) => return Ok(self.answered(guard, parts, body)),
                Outcome::Void => return Err(Failure::Lapsed { purchase: guard.entry().id }),
                Outcome::Settled | Outcome::NotConfirmed => {}
            }
        }
        let mut transfer = TransferDriver::new(inner.dispatch_context(), guard, self.progress.clone(), self.deadline);
        let mut transaction = self.settle(&mut transfer).await?;
        span.record("transaction", tracing::field::display(transaction));
        self.timings.confirm = self.lap();
        let mut conversation = self.conversation(&inner);
        loop {
            let outcome = conversation.run(&mut self.seller, transfer.guard_mut(), Some(transaction)).await;
            self.attempts = conversation.attempts();
            if let Outcome::Answered(parts, body) = outcome? {
                return Ok(self.answered(transfer.into_guard(), parts, body));
            }
            transaction = match transfer.recheck(transaction).await {
                Some(transaction) => transaction,
                None => self.settle(&mut transfer).await?,
            };
        }
    }

    /// Waits until a transfer is in enough blocks, and asks the seller again where its quote is over before that.
    async fn settle(&mut self, transfer: &mut TransferDriver<'_>) -> Result<TxHash, Failure> {
        loop {
            match transfer.settle().await? {
                Followed::Settled(transaction) => return Ok(transaction),
                Followed::NeedsRequote => {
                    let terms = self.requote(transfer.entry()).await;
                    transfer.requoted(terms.as_deref()).await?;
                }
            }
        }
    }

    /// Fresh terms for this transfer that the budget allows, if there are any.
    async fn requote(&mut self, entry: &JournalEntry) -> Option<Box<TransferTerms>> {
        let patience = self.inner.settings.patience_until(self.deadline);
        let inner = Arc::clone(&self.inner);
        match timeout(patience, self.seller.bill(None, &inner.budget, inner.now())).await {
            Ok(Ok(Offered::Billed(bill, _))) => {
                let terms = bill.transfer_of(entry).filter(|terms| self.asking(&inner).admit(&terms.quote).is_ok());
                terms.cloned().map(Box::new)
            }
            _ => None,
        }
    }
}

/// Tells the layer of passes what a bill says. It cannot look itself, and then hand the bill on.
async fn told<R: Body<Data = Bytes>>(
    order: &PassOrder,
    bill: Response<ResponseBody<R>>,
    deadline: Instant,
) -> Response<ResponseBody<R>> {
    let (parts, body) = bill.into_parts();
    let mut beginning = Peek::of_rest(body);
    // A bill that is late, or breaks off, says nothing.
    let _ = timeout_at(deadline, beginning.read(BILL_MAX)).await;
    order.reads(beginning.whole());
    Response::from_parts(parts, beginning.into_body())
}

/// The earlier one of a moment and a limit.
fn within(limit: Option<Instant>, moment: Instant) -> Instant {
    limit.map_or(moment, |limit| limit.min(moment))
}

/// Runs a step within the request's own limit, if there is one.
async fn in_time_at_most<T>(
    limit: Option<Instant>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match limit {
        Some(limit) => {
            timeout_at(limit, work).await.unwrap_or_else(|_| Err(Failure::Forwarded("it took too long".into())))
        }
        None => work.await,
    }
}

mod answered;
mod paying;
mod resuming;
#[cfg(test)]
#[cfg(feature = "test-util")]
mod tests;
