//! `PurchaseFlow`: a purchase from beginning to end. Ask, decide, pay, wait, redeem; or ask, decide, sign, show.
//!
//! The flow decides about the next step; [`Seller`], [`TransferDriver`] and [`Conversation`] perform it, independently
//! of each other and of the flow.

use std::{future::Future, mem, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode, response::Parts};
use http_body::Body;
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;
use tracing::Span;

use crate::{
    client::{
        Failure, JournalEntry, PaymentMethod, ProofIn, Proposal, Purchase, PurchaseEvent, PurchaseId, ReplayBody,
        ResponseBody, Timings,
        box_error::BoxError,
        dialect::{AuthorizationTerms, Bill, ChannelTerms, PermitTerms, TransferTerms, reply},
        flow::{
            Conversation, LeftOver, Offered, Outcome, Progress, PurchaseGuard, Seller,
            conversation::unanswered,
            from_quote,
            left_over::{self, TooOld},
        },
        http::{Peek, ReplayRequest, RequestIdentity},
        inner::ClientInner,
        pass::{BILL_MAX, Ending, PassOrder, PassSale},
        way::{
            Asking, Authorizing, ChannelPlan, Followed, Permitting, TransferDriver, Vouching, Way, charge,
            transfer::in_time,
        },
    },
    protocol::{Amount, Asset, ChainTime, Quote, TokenDomain, TxHash},
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

impl<S, B, R> PurchaseFlow<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: ReplayBody,
    R: Body<Data = Bytes>,
{
    /// `service` was polled ready, or the request has its first answer.
    pub(crate) fn new(inner: Arc<ClientInner>, service: S, request: ReplayRequest<B>, started: Instant) -> Self {
        let limit = request.limit(started);
        let deadline = within(limit, started + inner.settings.patience);
        let RequestIdentity { host, what, .. } = &request.identity;
        let progress = Progress::new(PurchaseId::random(), host, what, inner.on_progress.clone());
        let seller = Seller::new(service, request);
        Self { inner, seller, progress, attempts: 0, timings: Timings::default(), started, deadline, limit }
    }

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

    fn request(&self) -> &ReplayRequest<B> {
        self.seller.request()
    }

    /// How the order of a pass ended, for its money.
    fn ending<T>(&self, came: &Result<Response<T>, Failure>) -> Ending {
        let (registry, is_callers) = (&self.inner.registry, self.inner.settings.acknowledged_by_caller);
        let is_open = self.request().identity.fingerprint.as_deref().is_some_and(|print| registry.has_open(print));
        Ending::of(came, is_open, |id| PassSale { registry: registry.clone(), id, is_callers })
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

    /// Finds an unfinished purchase of this request that was left while this call was on its way to paying for another.
    fn left_meanwhile(&self) -> Result<Option<PurchaseGuard>, Failure> {
        match self.request().identity.fingerprint.as_deref() {
            Some(fingerprint) => self.inner.registry.left(fingerprint),
            None => Ok(None),
        }
    }

    /// Does the same where the next step is to pay, and tells the order of a pass that.
    fn left_or_pays(&self, quote: &Quote) -> Result<Option<PurchaseGuard>, Failure> {
        let left = self.left_meanwhile()?;
        if let Some(order) = self.request().pass_order().filter(|_| left.is_none()) {
            order.pays(quote.amount);
        }
        Ok(left)
    }

    /// Finds an unfinished purchase of this request.
    fn resumed(&mut self) -> Result<Option<PurchaseGuard>, Failure> {
        let (registry, request) = (&self.inner.registry, self.seller.request());
        let resumes = !request.is_quote_only() || request.pays_nothing_new();
        let fingerprint = request.identity.fingerprint.as_deref().filter(|_| resumes);
        let guard = fingerprint.and_then(|fingerprint| match request.paid() {
            Some(transaction) => registry.paid_with(fingerprint, transaction),
            None => registry.resume(fingerprint, request.resumes_only()),
        });
        if let Some(guard) = &guard {
            // A client that was polled ready must not hold its readiness while the chain is asked.
            self.seller.drop_readiness();
            self.resumes_with(guard)?;
        }
        Ok(guard)
    }

    /// Begins a purchase of this request, which has no earlier one.
    async fn begin(&mut self, first: Option<Response<R>>) -> Result<Response<ResponseBody<R>>, Failure> {
        if self.request().resumes_only() {
            return Err(Failure::NothingToResume);
        }
        if let Some(order) = self.request().pass_order() {
            order.resumes(false);
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
        let too_old = TooOld { before: self.accepted_since(), is_certain: self.is_clock_confirmed(&bill) };
        if too_old.is_certain {
            self.inner.registry.close_old(too_old.before).await;
        }
        let _ = timeout_at(self.deadline, left_over::close_lapsed(&inner, too_old)).await;
        Box::pin(charge::confirm_earlier(&inner)).await;
        while let Some(mut own) = left_over::own(&inner, &self.request().identity, &bill).await? {
            // What was delivered for it may have been a page of some proxy. For a pass that its seller refuses, none is paid again at once.
            own.may_pay_anew &= !self.request().pass_order().is_some_and(PassOrder::buys_a_pass);
            if let Some(answer) = self.put(own, &bill).await? {
                return Ok(answer);
            }
        }
        // A seller may name hundreds of ways, and the payer asks its nodes about each.
        let way = in_time(self.deadline, "choosing a way to pay", self.asking(&inner).choose(&bill)).await??;
        self.progress.report(PurchaseEvent::Quoted(Box::new(way.quote().clone())));
        while let Some(other) =
            left_over::adoptable(&inner.registry, &self.request().identity, &bill, self.request().max_price())
        {
            if let Some(answer) = self.put(other, &bill).await? {
                return Ok(answer);
            }
        }
        // The seller's 402 may have taken its time.
        let guard = match (self.left_meanwhile()?, way) {
            (Some(left), _) => left,
            (None, Way::Transfer(terms, assets)) => self.paid_now(terms, assets).await?,
            (None, Way::Authorization(terms, asset, domain)) => self.authorized_now(terms, asset, domain).await?,
            (None, Way::Permit(terms, asset)) => self.permitted_now(terms, asset).await?,
            (None, Way::Channel(terms, asset, plan)) => Box::pin(self.vouched_now(terms, asset, plan)).await?,
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

    /// Whether a fresh quote is not over by this machine's clock. Otherwise the clock may be fast, and no payment is too old by it: a quote
    /// that is over says so, and a bill that tells no time says nothing.
    fn is_clock_confirmed(&self, bill: &Bill) -> bool {
        let now = self.inner.now();
        bill.transfers.iter().any(|terms| terms.quote.expiry > now)
    }

    /// The earliest moment at which a payment was made that a seller still accepts.
    fn accepted_since(&self) -> ChainTime {
        let age = self.inner.settings.payment_age.as_secs();
        ChainTime::from_unix(self.inner.now().unix().saturating_sub(age))
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
                // A payment from here on is another purchase.
                self.progress.turn_to(PurchaseId::random());
                Ok(None)
            }
            // Its answer was delivered before, and the settlement since then buys nothing more.
            Err(Failure::BilledAgain { transaction, .. }) if may_pay_anew && is_signed => {
                tracing::warn!(%transaction, "an authorization that was left over is of no use");
                let _ = self.inner.registry.abandon(purchase).await;
                self.progress.turn_to(PurchaseId::random());
                Ok(None)
            }
            // It can never be used.
            Err(Failure::Lapsed { .. }) => {
                self.progress.turn_to(PurchaseId::random());
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Turns to a purchase that is resumed, unless it may yet cost more than the request allows.
    fn resumes_with(&mut self, guard: &PurchaseGuard) -> Result<(), Failure> {
        let is_own = self.request().identity.fingerprint.as_ref() == Some(&guard.entry().fingerprint);
        match self.request().pass_order() {
            Some(order) if is_own => {
                order.resumes(true);
                let entry = guard.entry();
                if !entry.is_settled() && !entry.is_sold() {
                    order.owes(entry.amount);
                }
            }
            // What another request has paid buys something new here.
            Some(order) => order.pays(guard.entry().amount),
            None => {}
        }
        let (entry, limit) = (guard.entry(), self.request().max_price_of_resumed());
        if let Some(limit) = limit.filter(|_| entry.may_cost_more_than(limit)) {
            let shown = |amount: Amount| amount.to_decimal(entry.decimals);
            let (price, limit) = (shown(entry.amount), shown(limit));
            return Err(Failure::AboveMaxPrice {
                purchase: entry.id,
                price,
                limit,
                valid_before: entry.valid_before(),
            });
        }
        self.turns_to(guard);
        Ok(())
    }

    fn turns_to(&mut self, guard: &PurchaseGuard) {
        let entry = guard.entry();
        self.progress.turn_to(entry.id);
        self.progress.report(PurchaseEvent::Resumed { purchase: entry.id, transaction: entry.transaction() });
    }

    /// Makes a new payment, unless another purchase of the same request is left meanwhile: then that one is returned.
    async fn paid_now(&mut self, terms: &TransferTerms, assets: Vec<Asset>) -> Result<PurchaseGuard, Failure> {
        let inner = Arc::clone(&self.inner);
        let quote = &terms.quote;
        let entry = JournalEntry { is_elsewhere: terms.is_elsewhere, ..self.entry(quote) };
        let proposal = from_quote::proposal(self.request(), quote, entry.id, assets, PaymentMethod::Transfer, None);
        let guard = inner.registry.reserve(entry, &inner.budget)?;
        let payment = from_quote::payment(&proposal, quote);
        self.approved(proposal).await?;
        if let Some(left) = self.left_or_pays(quote)? {
            return Ok(left);
        }
        let driver = TransferDriver::new(inner.dispatch_context(), guard, self.progress.clone(), self.deadline);
        let guard = driver.pay(&payment, quote).await?;
        self.timings.pay = self.lap();
        Ok(guard)
    }

    /// Signs a new authorization, with the same exception.
    async fn authorized_now(
        &mut self,
        terms: &AuthorizationTerms,
        asset: Asset,
        domain: TokenDomain,
    ) -> Result<PurchaseGuard, Failure> {
        let inner = Arc::clone(&self.inner);
        let mut entry = self.entry(&terms.quote);
        entry.intent = terms.intent.as_ref().map(|intent| intent.as_str().to_owned()).unwrap_or_default();
        let valid_for = terms.valid_for().min(inner.settings.patience);
        let method = PaymentMethod::Authorization;
        let proposal =
            from_quote::proposal(self.request(), &terms.quote, entry.id, vec![asset], method, Some(valid_for));
        let guard = inner.registry.reserve(entry, &inner.budget)?;
        self.approved(proposal).await?;
        if let Some(left) = self.left_or_pays(&terms.quote)? {
            return Ok(left);
        }
        let authorizing = Authorizing { inner: &inner, progress: &self.progress, deadline: self.deadline, valid_for };
        let guard = authorizing.sign(guard, terms, domain).await?;
        self.timings.pay = self.lap();
        Ok(guard)
    }

    /// Signs a new permit, with the same exception.
    async fn permitted_now(&mut self, terms: &PermitTerms, asset: Asset) -> Result<PurchaseGuard, Failure> {
        let inner = Arc::clone(&self.inner);
        let entry = JournalEntry { intent: String::new(), ..self.entry(&terms.quote) };
        let valid_for = terms.valid_for().min(inner.settings.patience);
        let (assets, method) = (vec![asset], PaymentMethod::Permit);
        let proposal = from_quote::proposal(self.request(), &terms.quote, entry.id, assets, method, Some(valid_for));
        let guard = inner.registry.reserve(entry, &inner.budget)?;
        self.approved(proposal).await?;
        if let Some(left) = self.left_or_pays(&terms.quote)? {
            return Ok(left);
        }
        let permitting = Permitting { inner: &inner, progress: &self.progress, deadline: self.deadline, valid_for };
        let guard = permitting.sign(guard, terms).await?;
        self.timings.pay = self.lap();
        Ok(guard)
    }

    /// Signs a voucher, and a deposit where the channel holds too little, with the same exception.
    async fn vouched_now(
        &mut self,
        terms: &ChannelTerms,
        asset: Asset,
        plan: ChannelPlan,
    ) -> Result<PurchaseGuard, Failure> {
        let inner = Arc::clone(&self.inner);
        let entry = JournalEntry { intent: String::new(), ..self.entry(&terms.quote) };
        let valid_for = terms.valid_for().min(inner.settings.patience);
        let deposit = plan.deposited();
        let is_deposited = !deposit.is_zero();
        let (assets, method) = (vec![asset], PaymentMethod::Channel);
        let ends = is_deposited.then_some(valid_for);
        let proposal = from_quote::proposal(self.request(), &terms.quote, entry.id, assets, method, ends);
        let proposal = Proposal {
            deposit: is_deposited.then_some(deposit),
            withdraw_delay: is_deposited.then(|| terms.withdraw_delay()),
            ..proposal
        };
        let guard = inner.registry.reserve_deposit(entry, deposit, &inner.budget)?;
        self.approved(proposal).await?;
        if let Some(left) = self.left_or_pays(&terms.quote)? {
            return Ok(left);
        }
        let (progress, deadline, place) = (&self.progress, self.deadline, self.request().place());
        let vouching = Vouching { inner: &inner, progress, deadline, valid_for, place };
        let guard = vouching.sign(guard, terms, plan).await?;
        self.timings.pay = self.lap();
        Ok(guard)
    }

    /// Asks for approval. How long a human takes is no matter of patience.
    async fn approved(&mut self, proposal: Proposal) -> Result<(), Failure> {
        let asked = Instant::now();
        self.inner.budget.approve(proposal).await?;
        if let Some(order) = self.request().pass_order() {
            order.approved_after(asked.elapsed());
        }
        self.deadline += asked.elapsed();
        self.limit = self.limit.and_then(|limit| limit.checked_add(asked.elapsed()));
        Ok(())
    }

    async fn paid_elsewhere(&mut self, quote: &Quote, transaction: TxHash) -> PurchaseGuard {
        let mut guard = self.inner.registry.paid_elsewhere(self.entry(quote));
        guard.note(|entry| entry.is_paid_by(transaction)).await;
        guard
    }

    fn entry(&self, quote: &Quote) -> JournalEntry {
        from_quote::entry(self.request(), quote, self.progress.purchase(), self.inner.now())
    }

    /// What decides about a bill for this request.
    fn asking<'a>(&'a self, inner: &'a ClientInner) -> Asking<'a> {
        let request = self.request();
        let (identity, plain_http, max_price) = (&request.identity, request.is_plain_http(), request.max_price());
        Asking { inner, identity, plain_http, max_price, is_authorized: request.is_authorized() }
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

    fn conversation<'a>(&self, inner: &'a ClientInner) -> Conversation<'a> {
        let in_body = inner.settings.proof_in == ProofIn::Body && self.request().takes_proof_in_body();
        let place = if in_body { ProofIn::Body } else { ProofIn::Header };
        Conversation::new(inner, self.progress.clone(), self.deadline, place, self.attempts)
    }

    /// The response for the caller.
    fn answered(&mut self, guard: PurchaseGuard, parts: Parts, body: ResponseBody<R>) -> Response<ResponseBody<R>> {
        self.timings.redeem = self.lap();
        let purchase = self.bought(guard.outcome(), &parts);
        let is_callers = self.inner.settings.acknowledged_by_caller;
        // A pass closes its purchase once it is kept.
        let is_pass = self.request().pass_order().is_some_and(PassOrder::buys_a_pass);
        let body = match guard.deliver() {
            Some(delivery) if !is_callers && !is_pass => body.delivering(delivery),
            _ => body,
        };
        let mut response = Response::from_parts(parts, body);
        response.extensions_mut().insert(purchase);
        response
    }

    fn bought(&self, entry: &JournalEntry, parts: &Parts) -> Purchase {
        let (transaction, paid_with) = (entry.transaction, entry.paid_with());
        let confirmed = match entry.paid_by() {
            PaymentMethod::Authorization | PaymentMethod::Permit | PaymentMethod::Channel => {
                reply::claims_success(parts)
            }
            PaymentMethod::Transfer => transaction.is_some_and(|transaction| reply::confirms(parts, transaction)),
        };
        Purchase {
            id: entry.id,
            state: entry.state,
            paid_by: entry.paid_by(),
            standard: entry.standard(),
            confirmed,
            recipient: entry.recipient,
            network: entry.network,
            token: paid_with.map(|(token, _)| token),
            payer: paid_with.map(|(_, payer)| payer),
            amount: entry.amount,
            charged: entry.charge(),
            decimals: entry.decimals,
            transaction,
            sent: entry.signed().map_or(entry.transfers().len(), |_| 1),
            attempts: self.attempts,
            timings: self.timings,
        }
    }

    /// The time since the last lap.
    fn lap(&mut self) -> Duration {
        mem::replace(&mut self.started, Instant::now()).elapsed()
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

#[cfg(test)]
#[cfg(feature = "test-util")]
mod tests;
