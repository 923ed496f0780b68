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

/// How often a call waits for others by the same pass, and how long at most each time.
const MOST_BUSY: u32 = 6;
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// An HTTP client that shows passes: the [`Service`] that [`PassLayer`](super::PassLayer) makes.
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
        // The instance that was polled is the one that is called.
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

/// Whether a request has a pass or a payment of its own, or asks for something else than its answer at its price. No pass counts for a HEAD.
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

/// A request like this one; `None` if its body cannot be sent twice.
fn copy<B: ReplayBody>(request: &Request<B>) -> Option<Request<B>> {
    let mut copy = Request::new(request.body().replay()?);
    copy.method_mut().clone_from(request.method());
    copy.uri_mut().clone_from(request.uri());
    *copy.version_mut() = request.version();
    copy.headers_mut().clone_from(request.headers());
    copy.extensions_mut().clone_from(request.extensions());
    Some(copy)
}

/// What a pass counts for, or not: a method and a path. One path may have two prices.
fn route<B>(request: &Request<B>) -> String {
    format!("{} {}", request.method(), request.uri().path())
}

/// Whether a payment of the caller's own is in the body of a request.
fn is_paid_in_body<B: ReplayBody>(request: &Request<B>) -> bool {
    request.body().bytes().is_some_and(|bytes| has_proof_members(request.headers(), &bytes))
}

/// How a request goes on.
enum Step<R> {
    /// With a pass.
    Shown(Showing),
    /// Without one.
    Plain,
    /// It has its answer.
    Answered(R),
}

/// What a look at the quote of a request has found.
enum Looked<R> {
    Offer(Arc<Shop>, Offer),
    Nothing,
    /// The request has no price, or was paid for before.
    Answered(R),
}

/// What came of a request with a pass.
enum Outcome<B, R> {
    Answered(R),
    /// Nothing was done for it. The pass does not count for it, or is over.
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
        // Once more where a pass turns out to be over.
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

    /// Finds a pass for a request, or buys one.
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
        // What was paid for comes first, whatever the quotes of now say, and whether they can be asked for.
        if let Some(shop) = known.as_ref().filter(|shop| shop.counts_at(&route, now()) && self.may_fetch(shop))
            && let Some(showing) = self.fetch(shop).await
        {
            self.limits.bind(request);
            return Ok(Step::Shown(showing));
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
        // By no older quote: the price may have risen since.
        let is_priced = !shop.is_quoted || offer.is_some();
        let showing = match self.held(&shop) {
            Some(showing) => Some(showing),
            None if is_priced && shop.may_buy(now(), self.limits.are_set()) => self.buy(&shop, offer).await,
            None => None,
        };
        // A pass that was bought for it is a part of what it may cost.
        self.limits.bind(request);
        Ok(showing.map_or(Step::Plain, Step::Shown))
    }

    /// Whether a pass is bought there for a request of this route, once a quote has told its price of now.
    fn needs_quote(&self, shop: &Shop, route: &str) -> bool {
        let may_buy = shop.counts_at(route, now()) && shop.may_buy(now(), self.limits.are_set());
        shop.is_quoted && !shop.holds_one(now()) && may_buy
    }

    /// Sends a request with a pass, and waits while others hold what is left of it.
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
            // It was paid for before, and says nothing of the pass.
            if order.has_resumed() {
                return Ok(Outcome::Answered(answer));
            }
            let Some(mut again) = again else {
                // It cannot be sent again, and gets the bill; the next request may get another pass.
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
                    // The payment is the one in its body.
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

    /// Asks for the quote of a request, and chooses a pass in it. What the request has paid for before goes on instead.
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
            // It asked for the price, so nothing was done for it: the request itself tells what is wrong.
            Err(_) if order.is_billed() && !order.has_resumed() => return Ok(Looked::Nothing),
            // Sent again, it might act twice.
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

/// How long to wait where what is left of a pass is held by other calls.
fn busy_for(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok();
    if text(X402_ERROR)? != "pass_busy" {
        return None;
    }
    let seconds = text(RETRY_AFTER).and_then(|seconds| seconds.parse().ok()).unwrap_or(1);
    Some(Duration::from_secs(seconds).min(LONGEST_PAUSE))
}
