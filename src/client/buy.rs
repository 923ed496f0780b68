//! A purchase from beginning to end: ask, decide, pay, wait, redeem.

use std::{future::poll_fn, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use tokio::time::Instant;
use tower_service::Service;
use tracing::Span;

use super::{
    Entry, PayError, Proposal, PurchaseId, ReplayBody, ResponseBody, State, Step, Took, book::Claim, layer::Shared,
    order::Order,
};
use crate::protocol::{Asset, ProblemCode, Quote, TxHash, headers::PAY};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How often one call pays, where other transactions take the place of its own: only ever one of them is mined.
const PAYMENTS_MAX: u32 = 3;

/// One call of the layer.
pub(super) struct Visit<S, B> {
    pub(super) shared: Arc<Shared>,
    pub(super) service: S,
    pub(super) order: Order<B>,
    pub(super) attempts: u32,
    pub(super) took: Took,
    started: Instant,
    pub(super) deadline: Instant,
}

impl<S, B, R> Visit<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: ReplayBody,
    R: Body<Data = Bytes>,
{
    /// `service` was polled ready.
    pub(super) fn new(shared: Arc<Shared>, service: S, order: Order<B>) -> Self {
        let now = Instant::now();
        let deadline = now + shared.settings.patience;
        Self { shared, service, order, attempts: 0, took: Took::default(), started: now, deadline }
    }

    pub(super) async fn run(mut self) -> Result<Response<ResponseBody<R>>, PayError> {
        if self.order.has_own_proof() {
            return self.pass_on().await;
        }
        let mut payments = 0;
        loop {
            let outcome = match self.resumed() {
                Some(claim) => self.finish(claim).await,
                None => {
                    payments += 1;
                    self.begin().await
                }
            };
            match outcome {
                // The journal shows that the transfer can never be mined: another may take its place.
                Err(PayError::Displaced) if payments < PAYMENTS_MAX && !self.order.resumes_only() => {}
                outcome => return outcome,
            }
        }
    }

    /// A purchase of this request that nothing is left of from before.
    async fn begin(&mut self) -> Result<Response<ResponseBody<R>>, PayError> {
        if self.order.resumes_only() {
            return Err(PayError::NothingToResume);
        }
        let quote = match self.ask().await? {
            Asked::Answered(response) => return Ok(response),
            Asked::Quoted(quote) => quote,
        };
        self.took.quote = self.lap();
        self.step(Step::Quoted(quote.clone()));
        let claim = match self.order.paid() {
            Some(transaction) => self.paid_elsewhere(&quote, transaction).await?,
            None => {
                let assets = self.admit(&quote)?;
                while let Some(claim) = self.unspent(&quote).await {
                    let shown_before = self.attempts;
                    match self.finish(claim).await {
                        // It was used up already, and bought nothing now. At a later showing it may have bought this answer.
                        Err(PayError::Refused { transaction, code })
                            if is_used_up(code) && self.attempts == shown_before + 1 =>
                        {
                            tracing::warn!(%transaction, code = code.as_str(), "a payment that was left over is of no use");
                        }
                        outcome => return outcome,
                    }
                }
                self.paid_now(&quote, assets).await?
            }
        };
        self.finish(claim).await
    }

    fn resumed(&mut self) -> Option<Claim> {
        let fingerprint = self.order.fingerprint.as_deref()?;
        let claim = match self.order.paid() {
            Some(transaction) => self.shared.book.paid_with(fingerprint, transaction)?,
            None => self.shared.book.resume(fingerprint, self.order.resumes_only())?,
        };
        // A client that was polled ready must not hold its readiness while the chain is asked.
        self.service = self.service.clone();
        let entry = claim.entry();
        self.step(Step::Resumed { purchase: entry.id, transaction: entry.transaction() });
        Some(claim)
    }

    /// A payment to this seller that bought nothing yet, put to this request.
    async fn unspent(&mut self, quote: &Quote) -> Option<Claim> {
        let mut claim = self.shared.book.unspent(&self.order.host, quote)?;
        let (fingerprint, request) = (self.order.fingerprint.clone(), self.order.what.clone());
        let entry = claim.entry();
        self.step(Step::Resumed { purchase: entry.id, transaction: entry.transaction() });
        let adopt = |entry: &mut Entry| {
            entry.state = State::Redeeming;
            entry.takes_terms_of(quote);
            entry.fingerprint = fingerprint.unwrap_or_default();
            entry.request = request;
        };
        claim.note(adopt).await;
        Some(claim)
    }

    /// A new payment.
    async fn paid_now(&mut self, quote: &Quote, assets: Vec<Asset>) -> Result<Claim, PayError> {
        let proposal = self.proposal(quote, assets);
        let claim = self.shared.book.reserve(self.entry(quote, proposal.purchase), &self.shared.budget)?;
        let claim = self.pay(claim, quote, proposal).await?;
        self.took.pay = self.lap();
        Ok(claim)
    }

    /// What the budget says of a quote for this request.
    pub(super) fn admit(&self, quote: &Quote) -> Result<Vec<Asset>, PayError> {
        Ok(self.shared.budget.admit(quote, self.order.is_plain_http(), self.shared.clock.unix())?)
    }

    async fn paid_elsewhere(&mut self, quote: &Quote, transaction: TxHash) -> Result<Claim, PayError> {
        let mut claim = self.shared.book.paid_elsewhere(self.entry(quote, PurchaseId::random()));
        claim.note(|entry| entry.is_paid_by(transaction)).await;
        Ok(claim)
    }

    /// From the payment to the answer.
    async fn finish(&mut self, mut claim: Claim) -> Result<Response<ResponseBody<R>>, PayError> {
        self.deadline = Instant::now() + self.shared.settings.patience;
        let span = Span::current();
        span.record("purchase", tracing::field::display(claim.entry().id));
        let transaction = self.settle(&mut claim).await?;
        span.record("transaction", tracing::field::display(transaction));
        self.took.confirm = self.lap();
        self.redeem(claim, transaction).await
    }

    /// Sends the request as it is, and reads a quote from the answer.
    pub(super) async fn ask(&mut self) -> Result<Asked<R>, PayError> {
        let request = self.order.plain();
        let replayable = request.is_some() && self.order.fingerprint.is_some();
        let request = request.or_else(|| self.order.take_plain()).ok_or(PayError::NotReplayable)?;
        let response = self.send_request(request).await.map_err(PayError::Http)?;
        let is_quote = response.status() == StatusCode::PAYMENT_REQUIRED && response.headers().contains_key(PAY);
        // A HEAD gets the price, and can redeem nothing.
        if !is_quote || self.order.is_head() {
            return Ok(Asked::Answered(response.map(ResponseBody::untouched)));
        }
        let quote = Quote::from_headers(response.headers())?;
        if replayable { Ok(Asked::Quoted(Box::new(quote))) } else { Err(PayError::NotReplayable) }
    }

    async fn pass_on(&mut self) -> Result<Response<ResponseBody<R>>, PayError> {
        let request = self.order.take_plain().ok_or(PayError::NotReplayable)?;
        let response = self.send_request(request).await.map_err(PayError::Http)?;
        Ok(response.map(ResponseBody::untouched))
    }

    /// How long one answer is waited for, once money has moved.
    pub(super) fn attempt(&self) -> Duration {
        self.shared.settings.answer_timeout.min(self.deadline.saturating_duration_since(Instant::now()))
    }

    pub(super) async fn send_request(&mut self, request: Request<B>) -> Result<Response<R>, BoxError> {
        let service = &mut self.service;
        poll_fn(|cx| service.poll_ready(cx)).await.map_err(Into::into)?;
        service.call(request).await.map_err(Into::into)
    }

    fn entry(&self, quote: &Quote, id: PurchaseId) -> Entry {
        Entry {
            id,
            at: self.shared.clock.unix(),
            state: State::Paying,
            host: self.order.host.clone(),
            request: self.order.what.clone(),
            fingerprint: self.order.fingerprint.clone().unwrap_or_default(),
            intent: quote.intent.as_str().to_owned(),
            secret: None,
            expiry: quote.expiry,
            recipient: quote.recipient,
            network: quote.network,
            amount: quote.amount,
            decimals: quote.decimals,
            prepared: Vec::new(),
            transaction: None,
        }
    }

    fn proposal(&self, quote: &Quote, assets: Vec<Asset>) -> Proposal {
        Proposal {
            purchase: PurchaseId::random(),
            host: self.order.host.clone(),
            label: quote.label.clone(),
            recipient: quote.recipient,
            network: quote.network,
            amount: quote.amount,
            decimals: quote.decimals,
            assets,
        }
    }

    pub(super) fn step(&self, step: Step) {
        tracing::debug!(step = step.name(), "purchase");
        if let Some(on_step) = &self.shared.on_step {
            on_step(&step);
        }
    }

    /// The time since the last lap.
    pub(super) fn lap(&mut self) -> Duration {
        mem::replace(&mut self.started, Instant::now()).elapsed()
    }
}

const fn is_used_up(code: ProblemCode) -> bool {
    matches!(code, ProblemCode::TxAlreadyUsed | ProblemCode::PaymentTooOld)
}

/// What a request without proof is answered with.
pub(super) enum Asked<R> {
    Answered(Response<ResponseBody<R>>),
    Quoted(Box<Quote>),
}
