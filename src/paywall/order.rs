//! One priced request: its route, its head and, where it was read, its body.

use std::{future::Future, sync::Arc};

use bytes::Bytes;
use http::{Response, StatusCode, header, request::Parts};
use tokio::time::timeout;

use super::{
    body::ResponseBody,
    layer::Route,
    media::Media,
    nested,
    pricing::{Price, Prices, Refusal},
    respond::{ASK_AGAIN, Form, Problem, fresh_intent, quote},
};
use crate::protocol::{
    Address, Amount, DigestedHeaders, ProblemCode, ProofMembers, QuoteTemplate, Receipt, RedeemBy, RequestDigest,
    RouteSeal, digest_request, headers::NO_STORE, query_names_proof,
};

/// What is asked for, apart from the service that answers it.
pub(crate) struct Order {
    pub(crate) route: Arc<Route>,
    pub(crate) parts: Parts,
    pub(crate) media: Media,
    /// The whole body, where it was read.
    pub(crate) bytes: Option<Bytes>,
    /// Where a quote asks for the proof.
    pub(crate) redeem_by: RedeemBy,
}

impl Order {
    #[inline]
    pub(crate) fn new(route: Arc<Route>, parts: Parts) -> Self {
        let redeem_by = if route.header_only { RedeemBy::Header } else { RedeemBy::Any };
        Self { media: Media::of(&parts.headers), route, parts, bytes: None, redeem_by }
    }

    /// In what form the layer itself answers.
    pub(crate) fn form(&self) -> Form {
        Form::of(&self.parts.method, self.media)
    }

    pub(crate) fn problem<ResB>(&self, problem: impl Into<Problem>) -> Response<ResponseBody<ResB>> {
        let problem = problem.into();
        tracing::debug!(resource = &*self.route.resource, error = %problem.code, "refused");
        problem.into_response(self.form())
    }

    /// The price, where it is known without waiting.
    pub(crate) fn price_now(&self) -> Option<Price> {
        match &self.route.prices {
            Prices::Fixed(amount) => Some(Price::Charge(*amount)),
            Prices::Now(price) => Some(price(&self.parts, &self.body())),
            Prices::Later(_) => None,
        }
    }

    /// The price, waited for.
    ///
    /// # Errors
    /// The problem to answer with where it does not come in time.
    pub(crate) async fn price(&self) -> Result<Price, Problem> {
        match &self.route.prices {
            Prices::Fixed(amount) => Ok(Price::Charge(*amount)),
            Prices::Now(price) => Ok(price(&self.parts, &self.body())),
            Prices::Later(pricing) => self.in_time(pricing.price(&self.parts, &self.body())).await,
        }
    }

    /// Whether the gate lets this request through, where it must be asked.
    ///
    /// # Errors
    /// As for [`price`](Self::price).
    pub(crate) async fn is_free(&self) -> Result<bool, Problem> {
        match self.route.gate.ask(&self.parts) {
            Some(free) => self.in_time(free).await,
            None => Ok(false),
        }
    }

    async fn in_time<T>(&self, word: impl Future<Output = T>) -> Result<T, Problem> {
        timeout(self.route.price_timeout, word).await.map_err(|_| {
            tracing::warn!(
                resource = &*self.route.resource,
                "the service did not tell its price in time; answering 503"
            );
            Problem::after(ProblemCode::PriceUnavailable, ASK_AGAIN)
        })
    }

    /// Whether another layer, outside this one, sold this request already.
    pub(crate) fn is_paid_already(&self) -> bool {
        self.parts.extensions.get::<Receipt>().is_some()
    }

    /// The whole body, or nothing where it was not read.
    pub(crate) fn body(&self) -> Bytes {
        self.bytes.clone().unwrap_or_default()
    }

    /// The digest of this request, where its body was read.
    pub(crate) fn digest(&self, seal: &RouteSeal) -> Option<RequestDigest> {
        let bytes = self.bytes.as_ref()?;
        let proof_members = if self.route.header_only { ProofMembers::Service } else { ProofMembers::Payer };
        let Parts { method, uri, headers, .. } = &self.parts;
        let headers = DigestedHeaders { all: headers, bound: &self.route.bound_headers };
        Some(digest_request(seal, method, uri, headers, bytes, proof_members))
    }

    /// What binds a new intent to this request, where the route binds them.
    fn binding(&self, seal: &RouteSeal) -> Option<RequestDigest> {
        self.route.binds().then(|| self.digest(seal)).flatten()
    }

    /// An intent for this very request, for those who have paid already.
    pub(crate) fn fresh(&self, code: ProblemCode, amount: Amount) -> Problem {
        self.fresh_under(self.route.seals.present(), code, amount)
    }

    /// The same for a payment to this recipient, who may be a former one.
    pub(crate) fn fresh_for(&self, recipient: Address, code: ProblemCode, amount: Amount) -> Problem {
        self.fresh_under(self.route.seals.of(recipient), code, amount)
    }

    fn fresh_under(&self, seal: &RouteSeal, code: ProblemCode, amount: Amount) -> Problem {
        Problem { intent: Some(fresh_intent(&self.route, seal, amount, self.binding(seal))), ..code.into() }
    }

    /// The answer to a request without proof; `None` where it is free.
    pub(crate) fn quoted<ResB>(&self, price: Price) -> Option<Response<ResponseBody<ResB>>> {
        match price {
            Price::Free => None,
            Price::Refuse(refusal) => Some(refused(refusal)),
            // Nobody is sent a bill that cannot be redeemed. Who paid one before is heard all the same: it may have been for
            // something else behind this layer.
            _ if self.route.nested.is_known() => Some(self.priced_twice()),
            Price::Charge(amount) if amount.is_zero() => Some(self.mispriced()),
            Price::Labelled { amount, .. } if amount.is_zero() => Some(self.mispriced()),
            Price::Charge(amount) => Some(self.quote(&self.route.template, amount)),
            Price::Labelled { amount, label } => Some(self.quote(&self.route.template_saying(&label), amount)),
        }
    }

    fn quote<ResB>(&self, template: &QuoteTemplate, amount: Amount) -> Response<ResponseBody<ResB>> {
        let digest = self.binding(self.route.seals.present());
        quote(&self.route, template, self.form(), self.redeem_by, amount, digest)
    }

    /// Whether a proof stands in the query, where none is read: nobody is sent a bill for that slip.
    pub(crate) fn query_shows_proof(&self) -> bool {
        !self.route.header_only && self.parts.uri.query().is_some_and(query_names_proof)
    }

    /// A price of nothing is no price: the service's fault, and nobody is served or charged by it.
    pub(crate) fn mispriced<ResB>(&self) -> Response<ResponseBody<ResB>> {
        tracing::error!(resource = &*self.route.resource, "the service set a price of zero; answering 500");
        fault()
    }

    /// Two layers around one service ask for two payments, and neither honours the other's intents.
    pub(crate) fn priced_twice<ResB>(&self) -> Response<ResponseBody<ResB>> {
        tracing::error!(
            resource = &*self.route.resource,
            "a price inside a price: another X402Layer is inside or outside this one, or the same one twice; answering 500"
        );
        let mut response = fault();
        nested::mark(response.extensions_mut());
        response
    }
}

/// The service is put together wrongly: nobody is served or charged.
fn fault<ResB>() -> Response<ResponseBody<ResB>> {
    let mut response = Response::new(ResponseBody::whole(Bytes::new()));
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
    response
}

pub(crate) fn refused<ResB>(refusal: Refusal) -> Response<ResponseBody<ResB>> {
    refusal.into_response().map(ResponseBody::whole)
}
