//! `X402Layer`: the configuration of one priced route.

use std::{future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header, request::Parts};
use tower_layer::Layer;

use crate::{
    discovery::{Bazaar, Endpoint},
    ledger::BookedSale,
    paywall::{
        error::BuildError,
        inner_service::CloneService,
        seller::{
            consumption::BodyRule,
            inner::MerchantInner,
            pass::{terms::PassTerms, ticket::Tickets},
            pricing::PriceTag,
            quote_page::{PageHook, QuotePage},
            redelivery::Redelivery,
            route::Route,
            sold_hook::SoldHook,
            text,
        },
        service::X402,
    },
};

/// Puts a price on a service.
///
/// Created by [`Merchant::charge`](crate::Merchant::charge) and its siblings. A clone sells the same thing, so that several routes
/// can share one price. The service inside takes [`RequestBody`](crate::RequestBody)s and must be `Clone`.
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
///
/// [`label`](Self::label), [`describe`](Self::describe) and [`on_sold`](Self::on_sold) belong to the *name* of the resource: they take effect
/// at once, for all layers of that name. Every other setting belongs to this layer and to the clones that are made of it afterwards.
///
/// A service that is not `Clone` is a compile error; put a `tower::buffer::Buffer` around it:
///
/// ```compile_fail
/// # use tower::Layer;
/// # fn with(paid: tower_x402::X402Layer) {
/// struct NotClone;
/// let service = paid.layer(NotClone);
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

    /// Sets the description in the quote, 1 to 100 characters; the resource's name by default.
    ///
    /// One name has one label, for every layer of that name. It can be set until the first quote.
    ///
    /// # Errors
    /// [`BuildError::InvalidText`]; and [`BuildError::ConflictingResource`] if this name has another label already, or was quoted
    /// without one.
    pub fn label(self, label: &str) -> Result<Self, BuildError> {
        text::check("a label", label)?;
        self.route.set_label(label)?;
        Ok(self)
    }

    /// Lets requests that match this predicate bypass the paywall, unbuffered.
    ///
    /// With one exception: if such a request shows a payment in its header, a 402 of the service's own becomes 502, because a
    /// payer must never be sent another bill.
    ///
    /// For a decision that takes time, or that depends on an outer layer, use
    /// [`free_when_async`](Self::free_when_async).
    pub fn free_when(self, free: impl Fn(&Method, &Uri, &HeaderMap) -> bool + Send + Sync + 'static) -> Self {
        self.set(|route| route.bypass.free_when = Some(Arc::new(free)))
    }

    /// Lets requests bypass the paywall by an async closure.
    ///
    /// It sees the whole head, with the extensions of outer layers, such as the user of a session, and has to copy the
    /// parts that its future needs. It runs once for each request that [`free_when`](Self::free_when) does not let
    /// pass, before the body is read. If it takes longer than [`price_timeout`](Self::price_timeout), the answer is 503
    /// `price_unavailable`.
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

    /// Sets how long an async price, or [`free_when_async`](Self::free_when_async), may take; 10 seconds by default.
    ///
    /// After that the answer is 503 `price_unavailable`, and nothing is taken.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn price_timeout(self, timeout: Duration) -> Result<Self, BuildError> {
        if timeout.is_zero() {
            return Err(BuildError::OutOfRange { what: "price_timeout" });
        }
        Ok(self.set(|route| route.price_timeout = timeout))
    }

    /// Lets CORS preflights pass to the service.
    ///
    /// The handler runs for them, unpaid. Their responses leave without a body, and keep only the headers of a
    /// preflight: `Access-Control-*`, `Vary`, `Allow`, `Cache-Control`, `Date` and `Server`.
    ///
    /// Prefer a CORS layer outside this one, where preflights never reach it.
    pub fn allow_preflight(self) -> Self {
        self.set(|route| route.bypass.preflight = true)
    }

    /// Sets the largest body that is read, in bytes; 64 KiB by default.
    ///
    /// If the price, a binding or a ticket depends on the body, a larger one is refused. So is that of a call by pass where the
    /// body may hold a proof: not on a [`header_only`](Self::header_only) route, nor beside a proof in a header. At a fixed
    /// price any other is quoted, and the quote asks for its payment in the `x402-payment` header. Such a body is refused only
    /// if it names `intentId` or `txHash` anywhere, because the layer does not read a proof there.
    ///
    /// JSON and forms are read uncompressed and in UTF-8. If they may hold a price or a proof, other encodings are refused with 415
    /// `unsupported_encoding`: the handler could see another request than the one that was priced.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn body_limit(self, bytes: usize) -> Result<Self, BuildError> {
        if bytes == 0 {
            return Err(BuildError::OutOfRange { what: "body_limit" });
        }
        Ok(self.set(|route| route.body_limit = bytes))
    }

    /// Sets how long a body that is read before the handler runs may take to arrive; 10 seconds by default.
    ///
    /// The layer reads a body that may contain a proof, which a call by pass then waits for in full; a body that decides
    /// about the price, a binding or a ticket; and the body of a redemption by header with an announced length within
    /// [`body_limit`](Self::body_limit). Any other body of a redemption streams to the handler while the payment is held.
    /// For those, this is how long the handler waits for the next byte before the hold ends with 408 `body_timeout`; see
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

    /// Sets the lowest rate, in bytes per second, of a body that the handler reads while a payment is held; 8 KiB by
    /// default.
    ///
    /// A handler may wait for such a body for [`body_timeout`](Self::body_timeout), and for one more second for each
    /// this many bytes that arrived. After that it is dropped, its payment is released, and the answer is 408
    /// `body_timeout`; the attempt counts, because the handler was started. Without this limit a client that sends a
    /// body slowly could hold the payment of another, since transaction hashes are public. Time without reads by the
    /// handler does not count, and there is no limit after the head of its response.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn body_rate(self, bytes_per_second: u32) -> Result<Self, BuildError> {
        if bytes_per_second == 0 {
            return Err(BuildError::OutOfRange { what: "body_rate" });
        }
        Ok(self.set(|route| route.body_rate = bytes_per_second))
    }

    /// Accepts proofs in the `x402-payment` header only.
    ///
    /// Bodies are never scanned, and may use the names of the two members themselves. The quote says so in its
    /// `detail`. A client that still puts its proof into the body gets another quote, so document this for your
    /// clients.
    pub fn header_only(self) -> Self {
        self.set(|route| route.header_only = true)
    }

    /// Removes the proof of payment from the request that the service sees.
    ///
    /// Set it on every route that forwards requests: otherwise the upstream, and its logs, see `x402-payment` and
    /// `PAYMENT-SIGNATURE`, and the latter may hold a signed payment that is not settled yet. By default the headers stay and are
    /// marked [sensitive](http::HeaderValue::set_sensitive), which keeps their values out of `Debug` output.
    ///
    /// The headers are removed from free requests, too. If the proof is in the body, its members (`intentId`, `txHash`,
    /// `paymentSecret`, `paymentSignature`) are removed, so that a service with strict members works; the other members
    /// keep their order and their values. `Content-Length` is corrected, and digests of the body such as
    /// `Content-Digest` are removed. With a proof in the header the body stays as it is.
    pub fn strip_proof(self) -> Self {
        self.set(|route| route.strip_proof = true)
    }

    /// Leaves `Range` and `If-Range` in paid requests.
    ///
    /// By default both are removed from a request that is redeemed, because the whole answer is sold, and a part would
    /// cost as much. With this setting a 206 is a sale like any other, and both headers belong to the request's digest.
    /// Listing either of them in [`bind_headers`](Self::bind_headers) has the same effect.
    pub fn keep_ranges(self) -> Self {
        self.bind_headers([header::RANGE, header::IF_RANGE])
    }

    /// Adds request headers to the digest that makes two requests the same, for the price of a closure and for
    /// [`bind_request`](Self::bind_request).
    ///
    /// If the price depends on a header, list it here; otherwise a quote for a cheap value can be redeemed for an expensive one. `Host`
    /// adds the host in the request's target as well, which is all that HTTP/2 has.
    ///
    /// Listing `Range` or `If-Range` implies [`keep_ranges`](Self::keep_ranges): a handler that did not see the header that the
    /// price depends on would return the whole answer at the price of a part.
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

    /// Honours an intent only for the same request that was quoted: the same method, path, query, content type and encoding,
    /// body, and headers of [`bind_headers`](Self::bind_headers).
    pub fn bind_request(self) -> Self {
        self.set(|route| route.bind = true)
    }

    /// Sets which responses are sold, by status and headers.
    ///
    /// By default 101, 2xx, and 3xx other than 304, but no response whose `grpc-status` header is other than 0. A gRPC
    /// failure in the trailers comes too late: that answer is sold. Failures of JSON-RPC and MCP have status 200 and
    /// are sold, too, unless [`consume_when_body`](Self::consume_when_body) decides otherwise.
    ///
    /// A handler overrides the rule for one response by a [`Consumption`](crate::Consumption) in the response's extensions. A
    /// 402 of the handler's own is never sold.
    pub fn consume_when(self, rule: impl Fn(StatusCode, &HeaderMap) -> bool + Send + Sync + 'static) -> Self {
        self.set(|route| route.consumes = Arc::new(rule))
    }

    /// Sets which responses are sold, by status, headers and the whole body.
    ///
    /// The rule decides about each response that [`consume_when`](Self::consume_when) would sell. Use it if a failure
    /// has the head of a success, as in JSON-RPC and MCP:
    ///
    /// ```
    /// # fn of(layer: tower_x402::X402Layer) -> tower_x402::X402Layer {
    /// layer.consume_when_body(tower_x402::json_rpc_succeeded)
    /// # }
    /// ```
    ///
    /// Such a response is read to its end before it leaves, streams included, so nothing of it arrives early. It must end within
    /// [`max_hold`](crate::MerchantBuilder::max_hold), which also covers the handler; otherwise the client gets 504
    /// `answer_timeout`. A body longer than [`answer_limit`](Self::answer_limit) cannot be judged: it is neither sold nor
    /// delivered, and the client gets 502 `answer_too_large`. The payment stays good in both cases.
    ///
    /// A response that the rule does not sell is still delivered, and counts as an attempt, like any failure. The rule
    /// sees the body as it leaves: put compression outside this layer. A [`Consumption`](crate::Consumption) in the
    /// response's extensions overrides both rules, and then nothing is read.
    pub fn consume_when_body(
        self,
        rule: impl Fn(StatusCode, &HeaderMap, &Bytes) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.set(|route| route.consumes_body = Some(BodyRule::new(rule)))
    }

    /// Sets the longest response body, in bytes, that [`consume_when_body`](Self::consume_when_body) judges; 1 MiB by default.
    ///
    /// Each redemption under way may hold that much memory.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for zero.
    pub fn answer_limit(self, bytes: usize) -> Result<Self, BuildError> {
        if bytes == 0 {
            return Err(BuildError::OutOfRange { what: "answer_limit" });
        }
        Ok(self.set(|route| route.answer_limit = bytes))
    }
}

impl X402Layer {
    /// Settles a signed payment before the handler runs, instead of after it.
    ///
    /// Set it if the handler has effects outside its answer: a top-up, an order, a mail. By default the handler runs
    /// first, and its payer may have emptied the wallet by the time the payment is settled. With this setting each
    /// [`Receipt`](crate::Receipt) of the route has a [`transaction`](crate::Receipt::transaction), and a payment that
    /// cannot be settled runs no handler.
    ///
    /// In return, the payment precedes the answer. If the handler then fails, the payment is unspent. The response has `PAYMENT-RESPONSE`
    /// with `success: false`, `settlement_pending` and the transaction. The same `PAYMENT-SIGNATURE`, shown again, buys the answer, and so
    /// does the intent with the transaction's hash. A payment that names no quote then needs its payer's signature, because its header can
    /// be copied from the chain.
    ///
    /// A merchant without a [verifier](crate::MerchantBuilder::verifier) accepts no such signature and no hash. The same
    /// `PAYMENT-SIGNATURE` buys the answer, by the ledger's record of the settler's report, and a payment without a quote is refused before
    /// it is settled.
    ///
    /// Transfers that the payer sends itself are made before the handler runs in any case. A permit of the scheme `upto` is always settled
    /// after the handler: before that, the [charge](crate::Charge) is not known.
    pub fn settle_first(self) -> Self {
        self.set(|route| route.settle_first = true)
    }

    /// Offers payments of the whole maximum as well, on a route that charges [up to](crate::Merchant::charge_up_to) an amount: transfers
    /// and signed payments of fixed amounts, for clients that cannot pay by `upto`. They are taken in full, whatever the handler charges.
    ///
    /// A route with a fixed price offers them in any case.
    pub fn or_fixed(self) -> Self {
        self.set(Route::offer_fixed)
    }

    /// Reads the handler's charge from the header `Settlement-Overrides` of its response, if there is no [`Charge`](crate::Charge) in the
    /// extensions: for services behind a proxy, or in another language. Off by default.
    ///
    /// Its value is JSON, `{"amount":"1858"}` in base units, or a share of the maximum (`"50%"`, `"33.33%"`, rounded down), or in the
    /// currency of the price (`"$0.05"`). Anything else is an error of the service: 500, and nothing is sold or taken. The header is
    /// removed from every answer to a priced request, with or without this setting.
    pub fn charge_by_header(self) -> Self {
        self.set(|route| route.charge_header = true)
    }

    /// Runs a hook after each sale is recorded: for work that needs received money, such as a credit or a mail.
    ///
    /// Its sale has a transaction. The hook runs in a separate task, so the answer does not wait for it, and it runs
    /// even if the client has left. All routes of this name have the hook.
    ///
    /// The ledger marks the sale when it records it, and drops the mark once the hook has ended. If the process ends in between, the hook
    /// stays undone until [`Merchant::replay_sales`](crate::Merchant::replay_sales) is called at the next start. The same holds for a hook
    /// that panicked, and for a sale that was recorded although the ledger's answer was lost (`outcome_unknown`). With that call, each hook
    /// runs *at least* once for each sale, so key its effects by [`payment`](crate::ledger::BookedSale::payment). The memory ledger loses
    /// its marks with the process, like its sales.
    ///
    /// # Errors
    /// [`BuildError::ConflictingResource`] if this name has a hook already; [`BuildError::NoAnnouncements`] if the ledger marks no
    /// sales.
    pub fn on_sold<F, Fut>(self, hook: F) -> Result<Self, BuildError>
    where
        F: Fn(BookedSale) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        if self.route.merchant.ledger.announcements().is_none() {
            return Err(BuildError::NoAnnouncements);
        }
        let set = self.route.listing.on_sold.set(SoldHook::new(hook));
        set.map_err(|_| BuildError::ConflictingResource { resource: self.route.resource.to_string() })?;
        Ok(self)
    }

    /// Keeps sold answers, so that an answer that is lost on its way can be delivered again.
    ///
    /// By default answers are not kept, unless the route's page [asks for it](QuotePage::redelivery): a sold answer that is lost on its way
    /// is gone. See [`Redelivery`] for the content, the place and the time of the storage. If a ledger of your own [keeps no
    /// answers](crate::ledger::Ledger::answer_space), none is kept, and a warning is logged.
    pub fn redeliver(self, redelivery: Redelivery) -> Self {
        if redelivery.is_on() && !self.route.merchant.ledger.keeps_answers() {
            tracing::warn!(resource = &*self.route.resource, "the ledger keeps no answers: none is delivered again");
        }
        self.set(|route| route.set_redelivery(redelivery))
    }
}

impl X402Layer {
    /// Issues a ticket with each sold answer, in the header `X402-Ticket`. Until the ticket expires, the same request is free with the
    /// ticket in the header `x402-pass`, so that a broken download can resume with `Range`.
    ///
    /// The same request is one with the same method, path, query, body, content type and encoding, and headers of
    /// [`bind_headers`](Self::bind_headers). Its `Range` does not matter, unless [`keep_ranges`](Self::keep_ranges) is set. It is free any
    /// number of times, for everyone who has the ticket. The handler then runs as for a free request, without a
    /// [`Receipt`](crate::Receipt), and sees `Range`; in axum it takes an `Option<Receipt>`. Its answer stays out of shared caches. A call
    /// by pass comes with a ticket, too; an answer that cost nothing does not. Bodies of such a route are read before its handler runs, up
    /// to [`body_limit`](Self::body_limit).
    ///
    /// Without a ticket, or [`keep_ranges`](Self::keep_ranges), a sold answer leaves without `Accept-Ranges`.
    ///
    /// # Errors
    /// [`BuildError::OutOfRange`] for less than a second.
    pub fn ticket(self, lasts: Duration) -> Result<Self, BuildError> {
        if lasts < Duration::from_secs(1) {
            return Err(BuildError::OutOfRange { what: "ticket" });
        }
        Ok(self.set(|route| {
            let merchant = &route.merchant;
            route.tickets = Some(Tickets::new(&merchant.keys, &merchant.realm, &route.resource, lasts));
        }))
    }

    /// Adds a pass that this route takes.
    pub(crate) fn taking(self, pass: Arc<PassTerms>) -> Self {
        self.set(|route| route.accept_pass(pass))
    }

    /// Sets the pass that this route sells.
    pub(crate) fn selling(self, pass: Arc<PassTerms>) -> Self {
        self.set(|route| route.sells_pass = Some(pass))
    }

    /// Returns whether the layer belongs to this merchant.
    pub(crate) fn is_of(&self, merchant: &Arc<MerchantInner>) -> bool {
        Arc::ptr_eq(&self.route.merchant, merchant)
    }
}

impl X402Layer {
    /// Sets the page that browsers get instead of the quote's JSON; see [`QuotePage`]. By default it is the
    /// [merchant's](crate::MerchantBuilder::quote_page), if that has one.
    ///
    /// The route then also takes the form of such a page, for browsers without script: a POST of
    /// `application/x-www-form-urlencoded` whose fields `intentId` and `txHash` (and `paymentSecret`,
    /// `paymentSignature`) are a redemption. The service sees a GET of the same URL without a body, and its answer is
    /// the page that the browser shows. Other forms pass as before, and an incomplete proof in a form is refused.
    ///
    /// So the service must answer for both methods: in axum, `get(handler).post(handler).route_layer(paid)`.
    pub fn quote_page(self, page: impl QuotePage) -> Self {
        self.set(|route| route.page = Some(PageHook::new(page)))
    }

    /// Answers browsers like all other clients, without the merchant's page for all routes.
    pub fn without_page(self) -> Self {
        self.set(|route| route.page = None)
    }
}

impl X402Layer {
    /// Describes where this route is and how it is called, for [`Merchant::discovery`](crate::Merchant::discovery) and, if there is a
    /// settler, for `PAYMENT-REQUIRED` (the standard's extension `bazaar`, as much of it as the header has room for).
    ///
    /// Describe a route with several methods once for each. Clone a layer before you mount it at several paths: a
    /// request is matched with the first endpoint of its method.
    ///
    /// ```
    /// # use tower_x402::{BuildError, Merchant};
    /// use serde_json::json;
    /// use tower_x402::discovery::Endpoint;
    ///
    /// # fn layer(merchant: &Merchant) -> Result<(), BuildError> {
    /// let layer = merchant.charge("forecast", "0.05 USDC")?.label("Tomorrow's weather")?.describe(
    ///     Endpoint::get("/forecast")
    ///         .input(json!({ "type": "object", "properties": { "city": { "type": "string" } } }))
    ///         .example(json!({ "city": "Lisbon" })),
    /// )?;
    /// # let _ = layer;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`BuildError::InvalidEndpoint`]; [`BuildError::ConflictingEndpoint`] if this method and path are described for another resource;
    /// [`BuildError::InvalidPrice`] and [`BuildError::WrongSymbol`] for an invalid bound of the price.
    pub fn describe(self, endpoint: Endpoint) -> Result<Self, BuildError> {
        if !endpoint.is_valid() {
            return Err(BuildError::InvalidEndpoint { path: endpoint.path });
        }
        let Route { merchant, resource, .. } = &*self.route;
        let amount = |price: &PriceTag| price.amount(merchant.decimals(), merchant.symbol());
        let range = match &endpoint.price_range {
            Some((lowest, highest)) => Some((amount(lowest)?, amount(highest)?)),
            None => None,
        };
        merchant.catalog.describe(resource, &endpoint, range)?;
        Ok(match Bazaar::of(&endpoint) {
            Some(bazaar) => self.set(|route| route.add_bazaar(bazaar)),
            None => self,
        })
    }
}

impl<S: CloneService> Layer<S> for X402Layer {
    type Service = X402<S>;

    fn layer(&self, inner: S) -> X402<S> {
        X402::new(Arc::clone(&self.route), inner)
    }
}
