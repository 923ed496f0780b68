//! `PassLayer` and `UsePass`: the layer that shows passes, and its service.

use std::{
    fmt,
    future::{Future, poll_fn},
    mem,
    path::Path,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Limited};
use tower_layer::Layer;
use tower_service::Service;

use super::{
    held::{HeldPass, PassError},
    purse::{Purse, now},
    shop::Shop,
};
use crate::protocol::headers::X402_PASS;

/// The longest answer with a pass that is read, in bytes.
const LONGEST: usize = 16 * 1024;

/// A client layer that shows a pass with each request to a shop, and buys one where it has none.
///
/// Put it outside a [`PayLayer`](crate::client::PayLayer), which pays for the passes, within its budget, and for each request that no pass
/// covers. A pass is bought before the first request to the origin of its address, and again once it is used up, expired, or
/// refused, and one of an amount once it does not cover a price; after an attempt that failed, not for a minute. Meanwhile requests go on without one. A purchase that is interrupted is
/// finished by the same request, like any other of the `PayLayer`: the seller answers with the same pass.
///
/// ```
/// # #[cfg(feature = "reqwest")]
/// # fn client(pay: tower_x402::client::PayLayer) -> Result<(), Box<dyn std::error::Error>> {
/// use tower::ServiceBuilder;
/// use tower_x402::client::{PassLayer, ReqwestClient};
///
/// let passes = PassLayer::new().buying("https://shop.example/pass")?;
/// let client = ServiceBuilder::new().layer(passes).layer(pay).service(ReqwestClient::new(reqwest::Client::builder())?);
/// # drop(client);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use]
pub struct PassLayer {
    /// Locked to build it, and to write its file.
    purse: Arc<Mutex<Purse>>,
}

impl PassLayer {
    /// Creates a layer without passes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Buys passes at this address, for all requests to its origin.
    ///
    /// # Errors
    /// [`PassError::Url`] and [`PassError::ShopTwice`].
    pub fn buying(self, url: &str) -> Result<Self, PassError> {
        self.with(|purse| purse.add(Shop::new(url)?))
    }

    /// Reads the passes in this file, if it is there, and keeps them in it from now on, readable by its owner alone on Unix. Call it after
    /// [`buying`](Self::buying): passes of other addresses are dropped. One process uses the file at a time.
    ///
    /// # Errors
    /// [`PassError::File`] if it cannot be read or written, or is not such a file.
    pub fn kept_in(self, path: impl AsRef<Path>) -> Result<Self, PassError> {
        self.with(|purse| purse.keep_in(path.as_ref()))
    }

    /// Returns the passes that are held.
    #[must_use]
    pub fn passes(&self) -> Vec<HeldPass> {
        self.purse.lock().unwrap_or_else(PoisonError::into_inner).held()
    }

    fn with(self, change: impl FnOnce(&mut Purse) -> Result<(), PassError>) -> Result<Self, PassError> {
        change(&mut self.purse.lock().unwrap_or_else(PoisonError::into_inner))?;
        Ok(self)
    }

    fn save(&self) {
        self.purse.lock().unwrap_or_else(PoisonError::into_inner).save();
    }
}

impl<S> Layer<S> for PassLayer {
    type Service = UsePass<S>;

    fn layer(&self, service: S) -> UsePass<S> {
        UsePass { service, passes: self.clone() }
    }
}

impl fmt::Debug for PassLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassLayer").field("passes", &self.passes()).finish()
    }
}

/// An HTTP client that shows passes: the [`Service`] that [`PassLayer`] makes.
#[derive(Clone, Debug)]
pub struct UsePass<S> {
    service: S,
    passes: PassLayer,
}

impl<S, B, R> Service<Request<B>> for UsePass<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Default + Send + 'static,
    R: Body<Data = Bytes> + Send,
    R::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // The instance that was polled is the one that is called.
        let unpolled = self.service.clone();
        let mut polled = mem::replace(&mut self.service, unpolled.clone());
        let shop = self.passes.purse.lock().unwrap_or_else(PoisonError::into_inner).shop_of(request.uri());
        let Some(shop) = shop.filter(|_| !request.headers().contains_key(X402_PASS)) else {
            return Box::pin(polled.call(request));
        };
        let passes = self.passes.clone();
        Box::pin(async move {
            let mut shown = shop.header(now());
            if shown.is_none() && shop.may_buy() {
                // Idle, it would keep its readiness from its clones.
                drop(polled);
                shown = buy(unpolled.clone(), &shop, &passes).await;
                polled = unpolled;
                poll_fn(|cx| polled.poll_ready(cx)).await?;
            }
            if let Some(value) = &shown {
                request.headers_mut().insert(X402_PASS, value.clone());
            }
            let answer = polled.call(request).await?;
            if shown.is_some_and(|shown| shop.learn(&shown, answer.status(), answer.headers())) {
                passes.save();
            }
            Ok(answer)
        })
    }
}

/// Buys a pass, unless another request just did.
async fn buy<S, B, R>(mut service: S, shop: &Shop, passes: &PassLayer) -> Option<HeaderValue>
where
    S: Service<Request<B>, Response = Response<R>>,
    B: Default,
    R: Body<Data = Bytes>,
    R::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let _turn = shop.buying.lock().await;
    if let Some(held) = shop.header(now()) {
        return Some(held);
    }
    if !shop.may_buy() {
        return None;
    }
    let mut request = Request::new(B::default());
    (*request.method_mut(), *request.uri_mut()) = (Method::POST, shop.url.clone());
    let answer = async {
        poll_fn(|cx| service.poll_ready(cx)).await.ok()?;
        let answer = service.call(request).await.ok().filter(|answer| answer.status() == StatusCode::OK)?;
        let body = Limited::new(pin!(answer.into_body()), LONGEST).collect().await.ok()?;
        shop.take(&body.to_bytes()).then_some(())
    };
    if answer.await.is_none() {
        tracing::warn!(url = %shop.url, "no pass was bought; requests go on without one");
        shop.pause();
        return None;
    }
    passes.save();
    shop.header(now())
}
