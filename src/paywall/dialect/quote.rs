//! The quote: the answer to a request without payment, made from the sealing key alone.

use std::{borrow::Cow, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Response, header, request::Parts};
use serde_json::{Map, Value};

use crate::{
    paywall::{
        body::ResponseBody,
        door::{
            page::{dress_quote, vary},
            priced_request::PricedRequest,
            problem::{ASK_AGAIN, Fault, Problem, Rejection},
        },
        seller::{pricing::Price, route::Route},
        way::authorization::unsettled::Unsettled,
    },
    protocol::{
        Amount, Challenge, Challenged, IntentTerms, Origin, ProblemCode, QuoteTemplate, RedeemBy, RenderedQuote,
        ResourceUrl,
        headers::{PAYMENT_REQUIRED, PAYMENT_RESPONSE, X402_ERROR},
        v2::{PaymentPayload, PaymentRequired, Reason, SchemePayload, SettleResponse},
    },
};

/// Answers a request without proof whose price is known; `None` where it is free.
pub(crate) fn quote<ResB>(request: &PricedRequest, price: Price) -> Option<Response<ResponseBody<ResB>>> {
    let route = &*request.route;
    Some(match price {
        Price::Free => return None,
        Price::Refuse(refusal) => request.turn_away(refusal),
        // A bill that cannot be redeemed is not sent. A payment for an earlier one is considered all the same: it may have
        // been for something else behind this layer.
        _ if route.nested.is_known() => request.turn_away(Fault::NestedPrice),
        Price::Charge(amount) => answer(request, amount, &Bill::of(route)),
        Price::Labelled { amount, label } => answer(request, amount, &Bill::saying(route, &label)),
    })
}

/// The same for a price that must be waited for, or a merchant who has not started yet.
pub(crate) async fn quote_when_ready<ResB>(request: &PricedRequest) -> Option<Response<ResponseBody<ResB>>> {
    match ready(request).await {
        Ok(price) => quote(request, price),
        Err(rejection) => Some(request.turn_away(rejection)),
    }
}

async fn ready(request: &PricedRequest) -> Result<Price, Rejection> {
    let price = request.price().await?;
    if matches!(price, Price::Charge(_) | Price::Labelled { .. }) {
        request.route.merchant.started().await?;
    }
    Ok(price)
}

fn answer<ResB>(request: &PricedRequest, amount: Amount, bill: &Bill<'_>) -> Response<ResponseBody<ResB>> {
    if amount.is_zero() {
        return request.turn_away(Fault::ZeroPrice);
    }
    let route = &*request.route;
    if !bill.can_be_paid(route) {
        return request.turn_away(Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN));
    }
    let terms = request.intent_terms(route.seals.current(), amount);
    let quote =
        bill.render(route, &terms, request.redeem_by, &request.parts.method, || resource_url(route, &request.parts));
    let mut response = Response::new(ResponseBody::whole(quote.body));
    *response.status_mut() = ProblemCode::PaymentRequired.status();
    *response.headers_mut() = quote.headers;
    if let Some(page) = &route.page {
        response = dress_quote(page, request, &terms, &bill.label, response);
    }
    request.format().apply(&mut response, ProblemCode::PaymentRequired);
    tracing::debug!(resource = &*route.resource, %amount, "quoted");
    route.quotes.count();
    response
}

/// A quote in both dialects, but for what hangs on the request.
pub(crate) struct Bill<'a> {
    template: Cow<'a, QuoteTemplate>,
    challenge: Option<Cow<'a, Challenge>>,
    label: Cow<'a, str>,
}

impl<'a> Bill<'a> {
    pub(crate) fn of(route: &'a Route) -> Self {
        let label = Cow::Borrowed(route.description());
        Self { template: Cow::Borrowed(&route.template), challenge: route.challenge(), label }
    }

    fn saying(route: &'a Route, label: &'a str) -> Self {
        let label = route.fitting(label);
        let challenge = route.challenge_saying(&label).map(Cow::Owned);
        Self { template: Cow::Owned(route.template_saying(&label)), challenge, label }
    }

    /// Whether there is any way to pay: a transfer cannot be seen where nothing reads the chain.
    fn can_be_paid(&self, route: &Route) -> bool {
        self.challenge.is_some() || route.merchant.chain().is_some()
    }

    /// Seals an intent of these terms, and writes the quote for it.
    pub(crate) fn render<'u>(
        &self,
        route: &Route,
        terms: &IntentTerms,
        redeem_by: RedeemBy,
        method: &Method,
        url: impl FnOnce() -> ResourceUrl<'u>,
    ) -> RenderedQuote {
        let price = route.price_text(terms.amount);
        let standard = self.challenge.as_deref().map(|challenge| Challenged { challenge, method, url: url() });
        let seal = |out: &mut Vec<u8>| route.seals.seal_into(terms, out);
        let mut quote = self.template.render(&price, terms.expiry(), redeem_by, standard.as_ref(), seal);
        if route.merchant.chain().is_none() {
            quote.ask_for_signature();
        }
        quote
    }
}

/// The URL that is paid for, as far as the request tells it.
pub(crate) fn resource_url<'a>(route: &'a Route, parts: &'a Parts) -> ResourceUrl<'a> {
    let origin = match &route.merchant.public_url {
        Some(url) => Origin::Public(url),
        None => host(parts).map_or(Origin::Unknown, Origin::Host),
    };
    ResourceUrl { origin, path: parts.uri.path() }
}

/// The host that the client named, with its port.
fn host(parts: &Parts) -> Option<&str> {
    let Parts { uri, headers, .. } = parts;
    uri.authority().map(http::uri::Authority::as_str).or_else(|| host_header(headers))
}

fn host_header(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::HOST)?.to_str().ok()
}

/// What a new quote for a request is made of, once the request itself is the handler's.
pub(crate) struct Requote {
    route: Arc<Route>,
    terms: IntentTerms,
    redeem_by: RedeemBy,
    method: Method,
    url: String,
}

impl Requote {
    pub(crate) fn of(request: &PricedRequest, amount: Amount) -> Self {
        let route = Arc::clone(&request.route);
        let terms = request.intent_terms(route.seals.current(), amount);
        let url = resource_url(&route, &request.parts).to_string();
        Self { terms, redeem_by: request.redeem_by, method: request.parts.method.clone(), url, route }
    }

    /// Refuses a payment that is certainly not used, with a new quote.
    pub(crate) fn refuse(&self, reason: Reason, refused: &Unsettled) -> Rejection {
        let authorization = &refused.payment.authorization.authorization;
        let told = SettleResponse::failed(reason.clone(), self.route.merchant.network).with_payer(authorization.from);
        self.refuse_with(&reason, told)
    }

    /// Refuses a payment that is none of those that are offered.
    pub(crate) fn refuse_unmatched(&self, reason: Reason, payload: &PaymentPayload) -> Rejection {
        let told = SettleResponse::failed(reason.clone(), self.route.merchant.network);
        let told = match &payload.payload {
            SchemePayload::Authorization(signed) => told.with_payer(signed.authorization.from),
            _ => told,
        };
        self.refuse_with(&reason, told)
    }

    fn refuse_with(&self, reason: &Reason, told: SettleResponse) -> Rejection {
        let code = ProblemCode::AuthorizationRefused;
        tracing::debug!(resource = &*self.route.resource, %reason, "authorization refused");
        let url = ResourceUrl { origin: Origin::Unknown, path: &self.url };
        let RenderedQuote { body, mut headers, .. } =
            Bill::of(&self.route).render(&self.route, &self.terms, self.redeem_by, &self.method, || url);
        if let Ok(Some(required)) = PaymentRequired::from_headers(&headers) {
            headers.insert(PAYMENT_REQUIRED, required.with_error(reason).to_header());
        }
        headers.insert(PAYMENT_RESPONSE, told.to_header());
        headers.insert(X402_ERROR, HeaderValue::from_static(code.as_str()));
        let body = explained(&body, code, reason);
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        if self.route.page.is_some() {
            vary(&mut headers);
        }
        let mut response = Response::new(body);
        *response.status_mut() = code.status();
        *response.headers_mut() = headers;
        response.extensions_mut().insert(code);
        Rejection::Quoted(Box::new(response))
    }
}

/// A quote's body that says why the payment was refused.
fn explained(quote: &Bytes, code: ProblemCode, reason: &Reason) -> Bytes {
    // A quote is an object; the fall-back cannot be reached.
    let mut body: Map<String, Value> = serde_json::from_slice(quote).unwrap_or_default();
    for (name, text) in
        [("title", code.title()), ("detail", code.detail()), ("error", code.as_str()), ("reason", reason.as_str())]
    {
        body.insert(name.to_owned(), text.into());
    }
    serde_json::to_vec(&body).unwrap_or_default().into()
}
