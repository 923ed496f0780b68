//! `PricedRequest`: one request to a priced route, with its head and, if it was read, its body.

pub(crate) mod strip;

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use http::{HeaderName, Method, Request, header, request::Parts, uri::Authority};
use tokio::time::timeout;

use crate::{
    paywall::{
        body::{RequestBody, Trailers},
        priced_request::strip::{mark_sensitive, strip_headers, strip_members},
        refusal::{ASK_AGAIN, Fault, Problem, Rejection, Requote},
        seller::{
            pass::ticket::Tickets,
            pricing::{Cost, Price, Prices, Tariff},
            route::Route,
        },
    },
    protocol::{
        Amount, DigestedHeaders, IntentTerms, Media, Origin, ProblemCode, ProofMembers, Receipt, RedeemBy,
        RequestDigest, ResourceUrl, RouteSeal, digest_request, headers::X402_PASS, query_names_proof,
    },
};

/// A request apart from the service that answers it.
pub(crate) struct PricedRequest {
    pub(crate) route: Arc<Route>,
    pub(crate) parts: Parts,
    pub(crate) media: Media,
    read: Option<ReadBody>,
    /// Where a quote asks the client to put its proof.
    pub(crate) redeem_by: RedeemBy,
    /// Whether its head shows a proof. The body is then not searched for one, and all of its members belong to the service.
    proof_in_head: bool,
    /// Why the pass that the request shows buys nothing.
    pub(crate) pass_spent: Option<&'static str>,
    /// What is priced in place of the request, if the request only carries it.
    #[cfg(feature = "mcp")]
    call: Option<Box<Call>>,
}

/// A call that a request carries, such as that of a tool: what is priced, in place of the request.
#[cfg(feature = "mcp")]
pub(crate) struct Call {
    /// Its address: what comes before the path, and the path.
    pub(crate) address: (String, String),
    /// What an intent is bound to.
    pub(crate) bound: Bytes,
    /// What its price is computed from.
    pub(crate) arguments: serde_json::Map<String, serde_json::Value>,
}

/// A whole body that was read, and its trailers.
struct ReadBody {
    data: Bytes,
    trailers: Trailers,
}

impl PricedRequest {
    #[inline]
    pub(crate) fn new(route: Arc<Route>, parts: Parts) -> Self {
        let redeem_by = if route.header_only { RedeemBy::Header } else { RedeemBy::Any };
        Self {
            media: Media::of(&parts.headers),
            route,
            parts,
            read: None,
            redeem_by,
            proof_in_head: false,
            pass_spent: None,
            #[cfg(feature = "mcp")]
            call: None,
        }
    }

    /// Returns the same for a call that a request carries.
    #[cfg(feature = "mcp")]
    pub(crate) fn of_call(route: Arc<Route>, parts: Parts, call: Call) -> Self {
        let mut request = Self::new(route, parts);
        request.media = Media::Other;
        request.set_body(call.bound.clone(), None);
        request.call = Some(Box::new(call));
        request
    }

    /// Keeps the body that was read: prices and digests are computed from it, and it goes to the handler.
    #[inline]
    pub(crate) fn set_body(&mut self, data: Bytes, trailers: Trailers) {
        self.read = Some(ReadBody { data, trailers });
    }

    /// Notes that a proof was found in the head.
    #[inline]
    pub(crate) fn proof_is_in_head(&mut self) {
        self.proof_in_head = true;
    }

    /// Turns the request of a page's form into the one that it redeems: a GET of the same URL, without a body.
    pub(crate) fn become_get(&mut self) {
        self.parts.method = Method::GET;
        for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING, header::TRANSFER_ENCODING]
        {
            self.parts.headers.remove(name);
        }
        self.media = Media::of(&self.parts.headers);
        self.set_body(Bytes::new(), None);
    }

    /// Returns the request for the handler, with the body that was read, or else with the unread one.
    pub(crate) fn into_request<B>(mut self, unread: Option<B>) -> Request<RequestBody<B>> {
        let strip = self.route.strip_proof;
        if self.route.takes_passes() {
            self.parts.headers.remove(X402_PASS);
        }
        let mpp = self.route.merchant.mpp.as_ref();
        let in_header = match strip {
            true => strip_headers(&mut self.parts.headers, mpp),
            false => {
                mark_sensitive(&mut self.parts.headers, mpp);
                false
            }
        };
        // With a proof in the header, or on a route that reads none elsewhere, the members are the service's own.
        let strip_members_too = strip && !in_header && !self.route.header_only;
        let body = match (self.read, unread) {
            (Some(ReadBody { data, trailers }), _) if strip_members_too => {
                RequestBody::whole(strip_members(&mut self.parts, data), trailers)
            }
            (Some(ReadBody { data, trailers }), _) => RequestBody::whole(data, trailers),
            (None, Some(body)) => RequestBody::streaming(body),
            (None, None) => RequestBody::whole(Bytes::new(), None),
        };
        Request::from_parts(self.parts, body)
    }

    /// Returns the price, if it is known without waiting.
    pub(crate) fn price_now(&self) -> Option<Price> {
        match &self.route.prices {
            Prices::Fixed(amount) => Some(Price::Charge(*amount)),
            Prices::UpTo(amount) => Some(Price::UpTo(*amount)),
            Prices::Now(price) => Some(price(&self.parts, self.body())),
            #[cfg(feature = "mcp")]
            Prices::OfArguments(price) => self.call.as_ref().map(|call| price(&call.arguments)),
            Prices::Later(_) => None,
        }
    }

    /// Waits for the price.
    ///
    /// # Errors
    /// The problem to answer with if the price does not come in time.
    pub(crate) async fn price(&self) -> Result<Price, Problem> {
        match &self.route.prices {
            Prices::Later(pricing) => self.in_time(pricing.price(&self.parts, self.body())).await,
            // A tool is priced by its call alone: without one there is no price, and nothing is given away.
            _ => self.price_now().ok_or_else(|| Problem::after(ProblemCode::PriceUnavailable, ASK_AGAIN)),
        }
    }

    /// Returns what this request costs; `None` if it is free.
    ///
    /// # Errors
    /// As for [`price`](Self::price), and for requests that the service refuses or prices at zero.
    pub(crate) async fn cost(&self) -> Result<Option<Cost>, Rejection> {
        let (amount, tariff) = match self.price().await? {
            Price::Free => return Ok(None),
            Price::Refuse(refusal) => return Err(refusal.into()),
            Price::Charge(amount) | Price::Labelled { amount, .. } => (amount, Tariff::Fixed),
            Price::UpTo(amount) => (amount, self.route.up_to()),
        };
        match amount.is_zero() {
            true => Err(Fault::ZeroPrice.into()),
            false => Ok(Some(Cost { amount, tariff })),
        }
    }

    /// Returns whether this request bypasses the paywall by a rule that must be awaited.
    ///
    /// # Errors
    /// As for [`price`](Self::price).
    pub(crate) async fn is_free(&self) -> Result<bool, Problem> {
        match self.route.bypass.ask(&self.parts) {
            Some(free) => self.in_time(free).await,
            None => Ok(false),
        }
    }

    async fn in_time<T>(&self, decision: impl Future<Output = T>) -> Result<T, Problem> {
        timeout(self.route.price_timeout, decision).await.map_err(|_| {
            tracing::warn!(
                resource = &*self.route.resource,
                "the service did not tell its price in time; answering 503"
            );
            Problem::after(ProblemCode::PriceUnavailable, ASK_AGAIN)
        })
    }

    /// Returns whether another layer, outside this one, sold this request already.
    pub(crate) fn is_paid_already(&self) -> bool {
        self.parts.extensions.get::<Receipt>().is_some()
    }

    /// Returns the whole body, or nothing if it was not read.
    fn body(&self) -> &Bytes {
        static UNREAD: Bytes = Bytes::new();
        self.read.as_ref().map_or(&UNREAD, |read| &read.data)
    }

    /// Returns the digest of this request, if its body was read.
    pub(crate) fn digest(&self, seal: &RouteSeal) -> Option<RequestDigest> {
        self.read.is_some().then(|| self.digest_as_read(seal))
    }

    /// Returns the digest of this request with its whole body if that was read, and without it otherwise.
    pub(crate) fn digest_as_read(&self, seal: &RouteSeal) -> RequestDigest {
        #[cfg(feature = "mcp")]
        if let Some(call) = &self.call {
            return crate::protocol::digest_call(seal, &call.bound);
        }
        let Parts { method, uri, headers, .. } = &self.parts;
        let headers = DigestedHeaders { all: headers, bound: &self.route.bound_headers };
        digest_request(seal.digest_key(), method, uri, headers, self.body(), self.proof_members())
    }

    /// Returns who owns the members of its body that have the names of a proof's.
    fn proof_members(&self) -> ProofMembers {
        match self.proof_in_head {
            _ if self.route.header_only => ProofMembers::Service,
            true => ProofMembers::Filled,
            false => ProofMembers::Payer,
        }
    }

    /// Returns whether it shows a pass or a ticket. HEAD buys nothing.
    pub(crate) fn shows_pass(&self) -> bool {
        self.route.takes_passes() && self.parts.method != Method::HEAD && self.parts.headers.contains_key(X402_PASS)
    }

    /// Returns the digest that a ticket covers: the request with its body, whatever part of the answer it asks for.
    pub(crate) fn ticket_digest(&self, tickets: &Tickets) -> RequestDigest {
        let bound = &self.route.bound_headers;
        let is_part = |name: &HeaderName| [header::RANGE, header::IF_RANGE].contains(name);
        // If the handler sees the requested range, a bound range is part of what was paid for.
        let bound: Vec<_> = bound.iter().filter(|name| self.route.keep_ranges || !is_part(name)).cloned().collect();
        let Parts { method, uri, headers, .. } = &self.parts;
        let headers = DigestedHeaders { all: headers, bound: &bound };
        digest_request(tickets.digest_key(), method, uri, headers, self.body(), self.proof_members())
    }

    /// Returns the terms that a new intent for this request seals, with the request's digest if the route binds it.
    #[inline]
    pub(crate) fn intent_terms(&self, seal: &RouteSeal, amount: Amount) -> IntentTerms {
        let merchant = &self.route.merchant;
        // At most thirty days: checked when building.
        let lifetime = u32::try_from(merchant.quote_ttl.as_secs()).unwrap_or(u32::MAX);
        let digest = self.route.binds().then(|| self.digest(seal)).flatten();
        IntentTerms { amount, issued: merchant.clock.unix(), lifetime, digest }
    }

    /// Returns a refusal with a new intent for this very request and no bill, because its payer has paid already.
    pub(crate) fn with_new_intent(&self, code: ProblemCode, seal: &RouteSeal, amount: Amount) -> Problem {
        Problem { intent: Some(self.new_intent(seal, amount)), ..code.into() }
    }

    /// Returns a new intent for this very request.
    pub(crate) fn new_intent(&self, seal: &RouteSeal, amount: Amount) -> String {
        let mut intent = Vec::new();
        seal.seal_into(&self.intent_terms(seal, amount), &mut intent);
        // Base64url is ASCII.
        String::from_utf8(intent).unwrap_or_default()
    }

    /// Returns the URL that is paid for, as far as the request tells it.
    pub(crate) fn url(&self) -> ResourceUrl<'_> {
        #[cfg(feature = "mcp")]
        if let Some(call) = &self.call {
            let (origin, path) = &call.address;
            return ResourceUrl { origin: Origin::Public(origin), path };
        }
        let origin = match &self.route.merchant.public_url {
            Some(url) => Origin::Public(url),
            None => host(&self.parts).map_or(Origin::Unknown, Origin::Host),
        };
        ResourceUrl { origin, path: self.parts.uri.path() }
    }

    /// Returns what a new quote for this request is made of.
    pub(crate) fn requote(&self, cost: Cost) -> Requote {
        Requote {
            terms: self.intent_terms(self.route.seals.current(), cost.amount),
            tariff: cost.tariff,
            redeem_by: self.redeem_by,
            method: self.parts.method.clone(),
            url: self.url().text(),
            route: Arc::clone(&self.route),
        }
    }

    /// Returns whether the query names a proof. It is not read there, but that mistake must not cost the payer another bill.
    pub(crate) fn query_shows_proof(&self) -> bool {
        !self.route.header_only && self.parts.uri.query().is_some_and(query_names_proof)
    }
}

/// Returns the host that the client named, with its port.
pub(crate) fn host(parts: &Parts) -> Option<&str> {
    let of_header = || parts.headers.get(header::HOST)?.to_str().ok();
    parts.uri.authority().map(Authority::as_str).or_else(of_header)
}
