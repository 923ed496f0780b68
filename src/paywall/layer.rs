//! `X402Layer`: one priced route's configuration.

use std::{future::Future, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header, request::Parts};
use tower_layer::Layer;

use super::{error::BuildError, inner_service::CloneService, route::Route, service::X402, text};

/// Puts a price on a service. Made by [`Merchant`](crate::Merchant); a clone sells the same thing.
///
/// ```
/// # use tower_x402::{Merchant, X402Layer};
/// # fn layer(merchant: &Merchant) -> Result<X402Layer, tower_x402::BuildError> {
/// let layer = merchant
///     .charge("weather", "0.05 USDC")?
///     .label("Tomorrow's weather")?
///     .free_when(|method, _uri, _headers| method == http::Method::GET)
///     .body_limit(16 * 1024)?;
/// # Ok(layer)
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct X402Layer {
    route: Arc<Route>,
}

impl X402Layer {
    pub(crate) fn new(route: Route) -> Self {
        Self { route: Arc::new(route) }
    }

    fn set(mut self, change: impl FnOnce(&mut Route)) -> Self {
        change(Arc::make_mut(&mut self.route));
        self
    }

    /// What the quote says is sold, 1 to 100 characters; the resource's name unless set. One name has one label.
    ///
    /// # Errors
    /// [`BuildError::InvalidText`], and [`BuildError::ConflictingResource`] where this name has another label already,
    /// or another layer of this name, a clone included, goes without one.
    pub fn label(self, label: &str) -> Result<Self, BuildError> {
        text::check("a label", label)?;
        let label: Arc<str> = Arc::from(label);
        let Route { merchant, resource, namesakes, .. } = &*self.route;
        let alone = Arc::strong_count(&self.route) == 1 && Arc::strong_count(namesakes) == 2;
        merchant.catalog.label(resource, &label, alone)?;
        Ok(self.set(|route| route.set_label(label)))
    }

    /// Lets requests through for which this holds: the layer is not there for them, and their bodies are not touched.
    ///
    /// One thing stays: where a request shows a payment in its header, a 402 of the service's own becomes 502, for nobody
    /// who has paid is to be sent another bill.
    ///
    /// For what must be waited for, or hangs on what an outer layer found, there is
    /// [`free_when_async`](Self::free_when_async).
    pub fn free_when(self, free: impl Fn(&Method, &Uri, &HeaderMap) -> bool + Send + Sync + 'static) -> Self {
        self.set(|route| route.bypass.free_when = Some(Arc::new(free)))
    }

    /// Lets requests through for which this comes to hold, with an async closure that sees the whole head, extensions of outer
    /// layers included: who is logged in, say. What it needs it takes out of the head before it waits.
    ///
    /// It is asked once for each request that [`free_when`](Self::free_when) does not let through, before the body is
    /// touched. Where it takes longer than [`price_timeout`](Self::price_timeout), the answer is 503 `price_unavailable`.
    ///
    /// ```
    /// # use tower_x402::X402Layer;
    /// # #[derive(Clone)] struct Member { id: u64 }
    /// # async fn has_a_subscription(_: u64) -> bool { true }
    /// # fn of(layer: X402Layer) -> X402Layer {
    /// layer.free_when_async(|head| {
    ///     let member = head.extensions.get::<Member>().cloned();
    ///     async move {
    ///         match member {
    ///             Some(member) => has_a_subscription(member.id).await,
    ///             None => false,
    ///         }
    ///     }
    /// })
    /// # }
    /// ```
    pub fn free_when_async<F, Fut>(self, free: F) -> Self
    where
        F: Fn(&Parts) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = bool> + Send + 'static,
    {
        self.set(|route| route.bypass.free_when_async = Some(Arc::new(move |parts| Box::pin(free(parts)))))
    }

    /// How long a price, or [`free_when_async`](Self::free_when_async), may be waited for; 10 seconds unless set. Then the
    /// answer is 503 `price_unavailable`, and nothing is taken.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn price_timeout(self, timeout: Duration) -> Result<Self, BuildError> {
        if timeout.is_zero() {
            return Err(BuildError::OutOfRange { what: "price_timeout" });
        }
        Ok(self.set(|route| route.price_timeout = timeout))
    }

    /// Lets CORS preflights through to the service.
    ///
    /// The handler runs for them, unpaid. Their responses leave without a body, and of the headers only those that a
    /// preflight is about do: `Access-Control-*`, `Vary`, `Allow`, `Cache-Control`, `Date` and `Server`.
    ///
    /// Better: put CORS outside the layer, where preflights never reach it.
    pub fn allow_preflight(self) -> Self {
        self.set(|route| route.bypass.preflight = true)
    }

    /// Sets the largest body that is read, in bytes; 64 KiB unless set.
    ///
    /// Where the price or a binding hangs on the body, a larger one is refused. At a fixed price it is quoted, and the
    /// quote says that its payment is to be shown in the `x402-payment` header; only where such a body names `intentId`
    /// or `txHash` anywhere is it refused, because a payment that is shown there is not read.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn body_limit(self, bytes: usize) -> Result<Self, BuildError> {
        if bytes == 0 {
            return Err(BuildError::OutOfRange { what: "body_limit" });
        }
        Ok(self.set(|route| route.body_limit = bytes))
    }

    /// How long a body that is read before the handler runs may take to arrive; 10 seconds unless set.
    ///
    /// Such a body is one that is looked at, or one of a redemption by header whose announced length is within
    /// [`body_limit`](Self::body_limit). Any other body of a redemption streams to the handler while the payment is held.
    /// There this is how long the handler waits for the next byte before the hold ends with 408 `body_timeout`; see
    /// [`body_rate`](Self::body_rate).
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn body_timeout(self, timeout: Duration) -> Result<Self, BuildError> {
        if timeout.is_zero() {
            return Err(BuildError::OutOfRange { what: "body_timeout" });
        }
        Ok(self.set(|route| route.body_timeout = timeout))
    }

    /// How fast, in bytes per second, a body must arrive that the handler reads while a payment is held; 8 KiB unless set.
    ///
    /// A handler may wait for such a body for [`body_timeout`](Self::body_timeout), and for one second more for each so many
    /// bytes that arrived. Then it is dropped, its payment is free again, and the answer is 408 `body_timeout`; the attempt
    /// counts, since the handler was started. Otherwise whoever sends a body slowly could hold a payment that is not
    /// theirs: transaction hashes are public. Time in which the handler does not read is not counted, and once its response's
    /// head is there the body may take any time.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn body_rate(self, bytes_per_second: u32) -> Result<Self, BuildError> {
        if bytes_per_second == 0 {
            return Err(BuildError::OutOfRange { what: "body_rate" });
        }
        Ok(self.set(|route| route.body_rate = bytes_per_second))
    }

    /// Takes proofs from the `x402-payment` header only: bodies are never looked at, and may use the two member names
    /// themselves. The quote says so in its `detail`.
    ///
    /// A payer who puts the proof into the body all the same is quoted again: tell yours.
    pub fn header_only(self) -> Self {
        self.set(|route| route.header_only = true)
    }

    /// Lets the handler of a paid request see `Range` and `If-Range`.
    ///
    /// Without this setting both are removed from a request that is redeemed, because what is sold is the whole answer:
    /// a part costs as much. With it a 206 is a sale like any other, and both headers belong to what makes two requests the
    /// same. Naming either of them in [`bind_headers`](Self::bind_headers) has the same effect.
    pub fn keep_ranges(self) -> Self {
        self.bind_headers([header::RANGE, header::IF_RANGE])
    }

    /// Adds request headers to what makes two requests the same, where that matters: under a closure's price, and with
    /// [`bind_request`](Self::bind_request). A price that hangs on a header must name it here, or a quote for a cheap
    /// value of it counts for a dear one.
    ///
    /// Naming `Range` or `If-Range` implies [`keep_ranges`](Self::keep_ranges): a handler that did not see what the price
    /// hangs on would answer with the whole at the price of a part.
    pub fn bind_headers(self, names: impl IntoIterator<Item = HeaderName>) -> Self {
        const RANGES: [HeaderName; 2] = [header::RANGE, header::IF_RANGE];
        self.set(|route| {
            route.bound_headers.extend(names);
            if route.bound_headers.iter().any(|name| RANGES.contains(name)) {
                route.keep_ranges = true;
                route.bound_headers.extend(RANGES);
            }
            route.bound_headers.sort_by(|a, b| a.as_str().cmp(b.as_str()));
            route.bound_headers.dedup();
        })
    }

    /// Honours an intent only for the very request that was quoted, by method, path, query, content type and encoding, body,
    /// and the headers of [`bind_headers`](Self::bind_headers).
    pub fn bind_request(self) -> Self {
        self.set(|route| route.bind = true)
    }

    /// Which responses are sold, by status and headers; unless set 101, 2xx, and 3xx other than 304, but none whose
    /// `grpc-status` header is other than 0. A gRPC failure that only the trailers tell comes too late: it was sold.
    ///
    /// A handler overrides it for one response with [`Consumption`](crate::Consumption) in the response's extensions.
    /// A 402 of the handler's own is never sold.
    pub fn consume_when(self, rule: impl Fn(StatusCode, &HeaderMap) -> bool + Send + Sync + 'static) -> Self {
        self.set(|route| route.consumes = Arc::new(rule))
    }
}

impl<S: CloneService> Layer<S> for X402Layer {
    type Service = X402<S>;

    fn layer(&self, inner: S) -> X402<S> {
        X402::new(Arc::clone(&self.route), inner)
    }
}
