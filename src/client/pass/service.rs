//! `UsePass`: the client that shows passes.

use std::{
    future::{Future, poll_fn},
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header::RETRY_AFTER,
};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use tokio::time::{Instant, sleep};
use tower_service::Service;

use super::{
    offered::Wanted,
    purse::{SharedPurse, now},
    shop::{Learned, Shop},
};
use crate::{
    client::{
        AlreadyPaid, AskAgain, Deadline, MaxPrice, Purchase, QuoteOnly, ReplayBody, ResumeOnly, box_error::BoxError,
    },
    protocol::{
        Amount, Quote,
        headers::{X402_ERROR, X402_PASS},
    },
};

/// The longest answer with a pass, and the longest quote, that is read, in bytes.
const LONGEST: usize = 64 * 1024;
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
            false => {
                let purse = self.passes.lock();
                (purse.shop_of(request.uri()), purse.looks_at(request.uri()))
            }
        };
        if shop.is_none() && wanted.is_none() {
            return Box::pin(polled.call(request));
        }
        let limits = Limits::of(&request);
        let errand = Errand { service: unpolled, polled: Some(polled), passes: self.passes.clone(), limits };
        Box::pin(errand.answer(request, shop, wanted))
    }
}

/// Whether a request has a pass of its own, or asks for something else than its answer at its price.
fn goes_on_as_it_is<B>(request: &Request<B>) -> bool {
    let asks = |extensions: &Extensions| {
        extensions.get::<QuoteOnly>().is_some()
            || extensions.get::<ResumeOnly>().is_some()
            || extensions.get::<AskAgain>().is_some()
            || extensions.get::<AlreadyPaid>().is_some()
    };
    request.headers().contains_key(X402_PASS) || asks(request.extensions())
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

/// What a pass for a request may take.
struct Limits {
    price: Option<Amount>,
    deadline: Option<Duration>,
    since: Instant,
}

impl Limits {
    fn of<B>(request: &Request<B>) -> Self {
        let (price, deadline) = (request.extensions().get::<MaxPrice>(), request.extensions().get::<Deadline>());
        Self { price: price.map(|max| max.0), deadline: deadline.map(|deadline| deadline.0), since: Instant::now() }
    }

    /// Whether the request has any.
    const fn are_set(&self) -> bool {
        self.price.is_some() || self.deadline.is_some()
    }

    /// Puts a purchase under these limits, at most at the price that a quote told, in what is left of the time.
    fn bind<B>(&self, purchase: &mut Request<B>, quoted: Option<Amount>) {
        let extensions = purchase.extensions_mut();
        if let Some(price) = self.price.into_iter().chain(quoted).min() {
            extensions.insert(MaxPrice(price));
        }
        if let Some(deadline) = self.deadline {
            extensions.insert(Deadline(deadline.saturating_sub(self.since.elapsed())));
        }
    }
}

/// One request on its way.
struct Errand<S> {
    service: S,
    /// The instance that was polled ready, until it is called.
    polled: Option<S>,
    passes: SharedPurse,
    limits: Limits,
}

impl<S> Errand<S> {
    async fn answer<B, R>(
        mut self,
        mut request: Request<B>,
        known: Option<Arc<Shop>>,
        wanted: Option<Wanted>,
    ) -> Result<Response<R>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: ReplayBody + Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let path = request.uri().path().to_owned();
        let (shop, quoted) = match (known, wanted) {
            (Some(shop), _) if !self.needs_quote(&shop, &path) => (Some(shop), None),
            (known, Some(wanted)) => match copy(&request) {
                Some(asked) => match self.look(asked, &wanted).await {
                    Ok(found) => found.unzip(),
                    Err(answer) => return Ok(*answer),
                },
                None => (known, None),
            },
            (known, None) => (known, None),
        };
        let Some(shop) = shop.filter(|shop| shop.counts_at(&path, now())) else { return self.send(request).await };
        let mut shown = shop.header(now());
        // By no older quote: the price may have risen since.
        let is_priced = !shop.is_quoted || quoted.is_some();
        if shown.is_none() && is_priced && shop.may_buy(now(), self.limits.are_set()) {
            shown = self.buy(&shop, quoted).await;
        }
        let Some(shown) = shown else { return self.send(request).await };
        let may_wait =
            request.extensions().get::<Deadline>().is_none_or(|deadline| deadline.0 > MOST_BUSY * LONGEST_PAUSE);
        request.headers_mut().insert(X402_PASS, shown.clone());
        let mut waits = 0;
        loop {
            let again = copy(&request);
            let answer = self.send(request).await?;
            let learned = shop.learn(&shown, &path, answer.status(), answer.headers());
            if learned != Learned::Nothing {
                let _ = self.passes.lock().save();
            }
            let Some(mut again) = again else { return Ok(answer) };
            // In neither case was anything done for it.
            match busy_for(answer.headers()) {
                _ if learned == Learned::Refused => {
                    again.headers_mut().remove(X402_PASS);
                    return self.send(again).await;
                }
                Some(pause) if may_wait && waits < MOST_BUSY => sleep(pause).await,
                _ => return Ok(answer),
            }
            waits += 1;
            request = again;
        }
    }

    /// Whether a pass is bought there for a request to this path, once a quote has told its price of now.
    fn needs_quote(&self, shop: &Shop, path: &str) -> bool {
        let holds_one = shop.header(now()).is_some();
        let may_buy = shop.counts_at(path, now()) && shop.may_buy(now(), self.limits.are_set());
        shop.is_quoted && !holds_one && may_buy
    }

    /// Sends a request by the instance that was polled, or by another one.
    async fn send<B, R>(&mut self, request: Request<B>) -> Result<Response<R>, S::Error>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
    {
        let mut service = match self.polled.take() {
            Some(polled) => polled,
            None => {
                let mut service = self.service.clone();
                poll_fn(|cx| service.poll_ready(cx)).await?;
                service
            }
        };
        service.call(request).await
    }

    /// Asks for the quote of this request, and chooses a pass in it; gives its price as well.
    ///
    /// # Errors
    /// The answer, where the request has none of a price.
    async fn look<B, R>(
        &mut self,
        mut asked: Request<B>,
        wanted: &Wanted,
    ) -> Result<Option<(Arc<Shop>, Amount)>, Box<Response<R>>>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: ReplayBody,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        let uri = asked.uri().clone();
        asked.extensions_mut().insert(QuoteOnly);
        // The request itself tells what is wrong, or goes on with what was begun.
        let Ok(answer) = self.send(asked).await else { return Ok(None) };
        if answer.status() != StatusCode::PAYMENT_REQUIRED {
            return Err(Box::new(answer));
        }
        let quote = answer.extensions().get::<Quote>().cloned();
        let offered = match (quote, read(answer.into_body()).await) {
            (Some(quote), Some(body)) => {
                wanted.choose(&body, &quote).and_then(|offered| Some((offered.price_in(&quote)?, offered)))
            }
            _ => None,
        };
        let mut purse = self.passes.lock();
        let found = offered.and_then(|(price, offered)| Some((purse.found(&uri, offered)?, price)));
        if found.is_none() {
            purse.looked(&uri);
        }
        Ok(found)
    }

    /// Buys a pass, unless another request just did, or this one may not pay what a quote asks for it.
    async fn buy<B, R>(&mut self, shop: &Shop, quoted: Option<Amount>) -> Option<HeaderValue>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        B: Default,
        R: Body<Data = Bytes>,
        R::Error: Into<BoxError>,
    {
        // Idle, it would keep its readiness from its clones.
        self.polled = None;
        let _turn = shop.buying.lock().await;
        if let Some(held) = shop.header(now()) {
            return Some(held);
        }
        let within_limits = self.limits.are_set();
        let is_too_dear = self.limits.price.zip(quoted).is_some_and(|(most, price)| price > most);
        if is_too_dear || !shop.may_buy(now(), within_limits) {
            return None;
        }
        let mut request = Request::new(B::default());
        (*request.method_mut(), *request.uri_mut()) = (Method::POST, shop.url.clone());
        self.limits.bind(&mut request, quoted);
        let (purchase, sold) = match self.send(request).await {
            Ok(answer) if answer.status() == StatusCode::OK => {
                let purchase = answer.extensions().get::<Purchase>().map(|purchase| purchase.id);
                (purchase, read(answer.into_body()).await)
            }
            _ => (None, None),
        };
        let Some(sold) = sold else {
            tracing::warn!(url = %shop.url, "no pass was bought; requests go on without one");
            shop.pause(within_limits);
            return None;
        };
        let is_pass = shop.take(&sold);
        let held = shop.header(now());
        if held.is_none() {
            let purchase = purchase.map(tracing::field::display);
            tracing::warn!(url = %shop.url, purchase, "what was sold as a pass is none, or is over by this clock: no other is bought for a day");
            shop.set_aside(now());
        }
        let mut purse = self.passes.lock();
        if purse.save() && is_pass {
            purse.bought.extend(purchase);
        }
        held
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

/// All of a short body.
async fn read<R: Body<Data = Bytes>>(body: R) -> Option<Bytes>
where
    R::Error: Into<BoxError>,
{
    Some(Limited::new(pin!(body), LONGEST).collect().await.ok()?.to_bytes())
}
