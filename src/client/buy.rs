//! A purchase from beginning to end: ask, decide, pay, wait, redeem.

use std::{
    future::{Future, poll_fn},
    mem,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Body;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;
use tracing::Span;

use super::{
    Declined, Entry, Event, PayError, Proposal, PurchaseId, ReplayBody, ResponseBody, State, Step, Took, book::Claim,
    budget::Offer, layer::Shared, order::Order,
};
use crate::protocol::{Asset, Quote, TxHash, headers::PAY};

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How often one call pays, where other transactions take the place of its own: only ever one of them is mined.
const PAYMENTS_MAX: u32 = 3;

/// One call of the layer.
pub(super) struct Visit<S, B> {
    pub(super) shared: Arc<Shared>,
    pub(super) service: S,
    pub(super) order: Order<B>,
    /// What is bought now: a name of its own, until there is a purchase to go on with.
    pub(super) purchase: PurchaseId,
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
        let purchase = PurchaseId::random();
        Self { shared, service, order, purchase, attempts: 0, took: Took::default(), started: now, deadline }
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
        (self.purchase, self.deadline) = (PurchaseId::random(), Instant::now() + self.shared.settings.patience);
        let quote = match in_time(self.deadline, "the seller's first answer", self.ask()).await?? {
            Asked::Answered(response) => return Ok(response),
            Asked::Quoted(quote) => quote,
        };
        self.took.quote = self.lap();
        self.step(Step::Quoted(quote.clone()));
        if let Some(transaction) = self.order.paid() {
            let claim = self.paid_elsewhere(&quote, transaction).await;
            return self.finish(claim).await;
        }
        let age = self.shared.settings.payment_age.as_secs();
        self.shared.book.close_unspent(self.shared.clock.unix().saturating_sub(age)).await;
        if let Some(answer) = self.own_left_over(&quote).await? {
            return Ok(answer);
        }
        let assets = self.admit(&quote)?;
        if let Some(answer) = self.adopted(&quote).await? {
            return Ok(answer);
        }
        let claim = self.paid_now(&quote, assets).await?;
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
        self.goes_on_with(&claim);
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
        Ok(self.shared.budget.admit(&self.offer(quote))?)
    }

    /// Whether there is still time to pay: approval and turn take theirs.
    pub(super) fn is_in_time(&self, quote: &Quote) -> Result<(), Declined> {
        self.offer(quote).is_in_time()
    }

    fn offer<'a>(&'a self, quote: &'a Quote) -> Offer<'a> {
        Offer {
            quote,
            host: &self.order.host,
            plain_http: self.order.is_plain_http(),
            now: self.shared.clock.unix(),
            least_time: self.shared.settings.least_time_to_pay.as_secs(),
        }
    }

    async fn paid_elsewhere(&mut self, quote: &Quote, transaction: TxHash) -> Claim {
        let mut claim = self.shared.book.paid_elsewhere(self.entry(quote, self.purchase));
        claim.note(|entry| entry.is_paid_by(transaction)).await;
        claim
    }

    /// From the payment to the answer.
    pub(super) async fn finish(&mut self, mut claim: Claim) -> Result<Response<ResponseBody<R>>, PayError> {
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
            settled: None,
            delivered: false,
            billed: 0,
        }
    }

    fn proposal(&self, quote: &Quote, assets: Vec<Asset>) -> Proposal {
        Proposal {
            purchase: self.purchase,
            host: self.order.host.clone(),
            method: self.order.method().clone(),
            path: self.order.path().to_owned(),
            label: quote.label.clone(),
            recipient: quote.recipient,
            network: quote.network,
            amount: quote.amount,
            decimals: quote.decimals,
            assets,
        }
    }

    pub(super) fn step(&self, step: Step) {
        let purchase = self.purchase;
        tracing::debug!(%purchase, step = step.name(), "purchase");
        if let Some(on_event) = &self.shared.on_event {
            let Order { host, what, .. } = &self.order;
            on_event(&Event { purchase, host: host.clone(), request: what.clone(), step });
        }
    }

    /// The time since the last lap.
    pub(super) fn lap(&mut self) -> Duration {
        mem::replace(&mut self.started, Instant::now()).elapsed()
    }
}

/// What has to be over before any money moves.
pub(super) async fn in_time<T>(
    deadline: Instant,
    what: &'static str,
    work: impl Future<Output = T>,
) -> Result<T, PayError> {
    timeout_at(deadline, work).await.map_err(|_| PayError::TimedOut(what))
}

/// What a request without proof is answered with.
pub(super) enum Asked<R> {
    Answered(Response<ResponseBody<R>>),
    Quoted(Box<Quote>),
}
