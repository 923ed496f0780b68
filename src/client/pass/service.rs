//! `UsePass`: the client that shows passes.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Extensions, HeaderMap, HeaderName, Method, Request, Response, StatusCode, header::RETRY_AFTER};
use http_body::Body;
use tokio::time::sleep;
use tower_service::Service;

use super::{
    buying::Offer,
    errand::{Errand, read},
    limits::Limits,
    offered::Wanted,
    order::PassOrder,
    purse::{SharedPurse, now},
    shop::Shop,
    showing::Showing,
    word::Word,
};
use crate::{
    client::{
        AlreadyPaid, AskAgain, QuoteOnly, ReplayBody, ResumeOnly,
        box_error::BoxError,
        http::replay_request::{has_proof, has_proof_members},
    },
    protocol::{
        Quote,
        headers::{X402_ERROR, X402_PASS},
    },
};

/// How often a call waits while other calls hold the same pass, and the longest wait each time.
const MOST_BUSY: u32 = 6;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An HTTP client that shows passes: the [`Service`] of a [`PassLayer`](super::PassLayer).
#[derive(Clone, Debug)]
pub struct UsePass<S> {
    service: S,
    passes: SharedPurse,
}

impl<S> UsePass<S> {
    pub(super) const fn new(service: S, passes: SharedPurse) -> Self {
        Self { service, passes }
    }
}

impl<S, B, R> Service<Request<B>> for UsePass<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: ReplayBody + Default + Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<BoxError>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // Call the instance that was polled.
        let unpolled = self.service.clone();
        let mut polled = mem::replace(&mut self.service, unpolled.clone());
        let (shop, wanted) = match goes_on_as_it_is(&request) {
            true => (None, None),
            false => self.passes.lock().for_request(request.uri()),
        };
        if shop.is_none() && wanted.is_none() {
            return Box::pin(polled.call(request));
        }
        let limits = Limits::of(&request);
        let errand = Errand { service: unpolled, polled: Some(polled), passes: self.passes.clone(), limits };
        Box::pin(errand.answer(request))
    }
}

/// Returns whether a request must be sent unchanged: it has its own pass or payment, asks for something other than its
/// answer at its price, or is a HEAD, where no pass counts.
fn goes_on_as_it_is<B>(request: &Request<B>) -> bool {
    let asks = |extensions: &Extensions| {
        extensions.get::<QuoteOnly>().is_some()
            || extensions.get::<ResumeOnly>().is_some()
            || extensions.get::<AskAgain>().is_some()
            || extensions.get::<AlreadyPaid>().is_some()
    };
    let headers = request.headers();
    let has_own = headers.contains_key(X402_PASS) || has_proof(headers);
    request.method() == Method::HEAD || has_own || asks(request.extensions())
}

/// Returns a copy of the request; `None` if its body cannot be sent twice.
fn copy<B: ReplayBody>(request: &Request<B>) -> Option<Request<B>> {
    let mut copy = Request::new(request.body().replay()?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    *copy.version_mut() = request.version();
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}

/// Returns the unit for which a pass counts or not: a method and a path. One path may have two prices.
fn route<B>(request: &Request<B>) -> String {
    format!("{} {}", request.method(), request.uri().path())
}

/// Returns whether a request's body contains the caller's own payment.
fn is_paid_in_body<B: ReplayBody>(request: &Request<B>) -> bool {
    request.body().bytes().is_some_and(|bytes| has_proof_members(request.headers(), &bytes))
}

/// How a request continues.
enum Step<R> {
    /// It is sent with a pass.
    Shown(Showing),
    /// It is sent without one.
    Plain,
    /// It already has its answer.
    Answered(R),
}

/// The result of asking for a request's quote.
enum Looked<R> {
    Offer(Arc<Shop>, Offer),
    Nothing,
    /// The request has no price, or was paid for before.
    Answered(R),
}

/// The result of a request with a pass.
enum Outcome<B, R> {
    Answered(R),
    /// The request had no effect. The pass does not count for it, or is over.
    Again(Request<B>, Shortfall),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shortfall {
    NotHere,
    IsOver,
}

impl<S> Errand<S> {
    async fn answer<B, R>(mut self, mut request: Request<B>) -> Result<Response<R>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: ReplayBody + Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        // Try a second time if a pass turns out to be over.
        for _ in 0..2 {
            let showing = match self.prepare(&mut request).await? {
                Step::Shown(showing) => showing,
                Step::Plain => break,
                Step::Answered(answer) => return Ok(answer),
            };
            let (again, shortfall) = match self.show(request, showing).await? {
                Outcome::Answered(answer) => return Ok(answer),
                Outcome::Again(again, shortfall) => (again, shortfall),
            };
            request = again;
            if shortfall != Shortfall::IsOver {
                break;
            }
        }
        self.send(request).await
    }

    /// Finds or buys a pass for a request.
    async fn prepare<B, R>(&mut self, request: &mut Request<B>) -> Result<Step<Response<R>>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: ReplayBody + Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let route = route(request);
        let (known, wanted) = self.passes.lock().for_request(request.uri());
        let ends = |shop: &Arc<Shop>| {
            let is_sent_once = request.body().replay().is_none();
            shop.ends(now()) || is_sent_once && shop.gives_up_empty(now())
        };
        if known.as_ref().is_some_and(ends) {
            self.passes.lock().save();
        }
        // A paid pass comes first, whatever current quotes say, and whether or not one can be requested.
        if let Some(shop) = known.as_ref().filter(|shop| shop.counts_at(&route, now()) && self.may_fetch(shop)) {
            let showing = self.fetch(shop).await;
            // The money is spent, whether or not a pass came.
            self.limits.bind(request);
            if let Some(showing) = showing {
                return Ok(Step::Shown(showing));
            }
        }
        let (shop, offer) = match (known, wanted) {
            (Some(shop), _) if !self.needs_quote(&shop, &route) => (shop, None),
            (_, Some(wanted)) => match copy(request) {
                Some(asked) => match self.look(asked, &wanted).await? {
                    Looked::Offer(shop, offer) => (shop, Some(offer)),
                    Looked::Nothing => return Ok(Step::Plain),
                    Looked::Answered(answer) => return Ok(Step::Answered(answer)),
                },
                None => return Ok(Step::Plain),
            },
            _ => return Ok(Step::Plain),
        };
        if !shop.counts_at(&route, now()) {
            return Ok(Step::Plain);
        }
        // Buy by a current quote only: the price may have risen.
        let is_priced = !shop.is_quoted || offer.is_some();
        let showing = match self.held(&shop) {
            Some(showing) => Some(showing),
            None if is_priced && shop.may_buy(now(), self.limits.are_set()) => self.buy(&shop, offer).await,
            None => None,
        };
        // A pass bought for the request counts against its price limit.
        self.limits.bind(request);
        Ok(showing.map_or(Step::Plain, Step::Shown))
    }

    /// Returns whether a pass would be bought there for this route, but first needs a quote with the current price.
    fn needs_quote(&self, shop: &Shop, route: &str) -> bool {
        let may_buy = shop.counts_at(route, now()) && shop.may_buy(now(), self.limits.are_set());
        shop.is_quoted && !shop.holds_one(now()) && may_buy
    }

    /// Sends a request with a pass, and waits while other calls hold what is left of it.
    async fn show<B, R>(
        &mut self,
        mut request: Request<B>,
        mut showing: Showing,
    ) -> Result<Outcome<B, Response<R>>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: ReplayBody,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let route = route(&request);
        let may_wait = self.limits.left().is_none_or(|left| left > MOST_BUSY * LONGEST_PAUSE);
        request.headers_mut().insert(X402_PASS, showing.value());
        let mut waits = 0;
        loop {
            let (again, order) = (copy(&request), showing.order());
            request.extensions_mut().insert(order.clone());
            let answer = self.send(request).await?;
            // An earlier payment bought this answer, so it says nothing about the pass.
            if order.has_resumed() {
                return Ok(Outcome::Answered(answer));
            }
            let Some(mut again) = again else {
                // It cannot be sent again, so the caller gets the bill. The next request may get another pass.
                showing.learn(&route, Word::of(answer.status(), answer.headers(), order.bill().as_deref()));
                return Ok(Outcome::Answered(answer));
            };
            if let Some(pause) = busy_for(answer.headers()).filter(|_| may_wait && waits < MOST_BUSY) {
                sleep(pause).await;
                waits += 1;
                request = again;
                continue;
            }
            if answer.status() != StatusCode::PAYMENT_REQUIRED {
                let word = match Word::of(answer.status(), answer.headers(), None) {
                    // The confirmation is for the payment in its body.
                    Word::Billed if is_paid_in_body(&again) => Word::Nothing,
                    word => word,
                };
                let is_refused = word == Word::Invalid;
                showing.learn(&route, word);
                if !is_refused {
                    return Ok(Outcome::Answered(answer));
                }
                again.headers_mut().remove(X402_PASS);
                return Ok(Outcome::Again(again, Shortfall::NotHere));
            }
            let (parts, body) = answer.into_parts();
            let body = read(body).await;
            let is_over = showing.learn(&route, Word::of(parts.status, &parts.headers, body.as_deref()));
            again.headers_mut().remove(X402_PASS);
            return Ok(Outcome::Again(again, if is_over { Shortfall::IsOver } else { Shortfall::NotHere }));
        }
    }

    /// Requests a quote, and chooses a pass in it. If the request was paid for before, it gets that answer instead.
    async fn look<B, R>(&mut self, mut asked: Request<B>, wanted: &Wanted) -> Result<Looked<Response<R>>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: ReplayBody,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let (uri, order) = (asked.uri().clone(), PassOrder::nothing_new());
        asked.extensions_mut().insert(QuoteOnly);
        asked.extensions_mut().insert(order.clone());
        let answer = match self.send(asked).await {
            Ok(answer) => answer,
            // The failed request only asked for the price, so nothing was done. The request itself will show the error.
            Err(_) if order.is_billed() && !order.has_resumed() => return Ok(Looked::Nothing),
            // Sending it again might act twice.
            Err(error) => return Err(error),
        };
        if order.has_resumed() || answer.status() != StatusCode::PAYMENT_REQUIRED {
            return Ok(Looked::Answered(answer));
        }
        let quote = answer.extensions().get::<Quote>().cloned();
        let offered = match (quote, read(answer.into_body()).await) {
            (Some(quote), Some(body)) => wanted.choose(&body, &quote).and_then(|offered| {
                let promise = wanted.promise(&offered, &quote, now());
                Some((offered.price_in(&quote)?, promise, offered))
            }),
            _ => None,
        };
        let mut purse = self.passes.lock();
        let found = offered.and_then(|(price, promise, offered)| {
            let (shop, address) = purse.found(&uri, offered)?;
            Some((shop, Offer { address, price, promise }))
        });
        Ok(match found {
            Some((shop, offer)) => Looked::Offer(shop, offer),
            None => {
                purse.looked(&uri);
                Looked::Nothing
            }
        })
    }
}

/// Returns how long to wait if other calls hold what is left of a pass.
fn busy_for(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    if text(X402_ERROR)? != "pass_busy" {
        return None;
    }
    let seconds = text(RETRY_AFTER).and_then(|seconds| seconds.parse().ok()).unwrap_or(1);
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}
