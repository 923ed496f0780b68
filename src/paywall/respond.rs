//! The layer's own answers: quotes and problems.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Response, header};
use serde::Serialize;

use super::{body::ResponseBody, layer::Route};
use crate::protocol::{
    Amount, IntentTerms, ProblemCode, RequestDigest, RouteSeal,
    headers::{EXPOSED, NO_STORE, PROBLEM_JSON, X_PRICE_INTENT},
};

/// When to ask again where a backend did not answer, or another redemption is under way.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(5);

/// In seconds: the longest wait that a client is asked for.
const LONGEST_WAIT: u64 = 24 * 60 * 60;

/// What a refusal says beside its code.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) code: ProblemCode,
    pub(crate) retry_after: Option<Duration>,
    /// A fresh intent for this very request.
    pub(crate) intent: Option<String>,
    /// What was paid, and what was asked.
    pub(crate) short: Option<(Amount, Amount)>,
    pub(crate) contact: Option<String>,
}

impl From<ProblemCode> for Problem {
    fn from(code: ProblemCode) -> Self {
        Self { code, retry_after: None, intent: None, short: None, contact: None }
    }
}

impl Problem {
    pub(crate) fn after(code: ProblemCode, wait: Duration) -> Self {
        Self { retry_after: Some(wait), ..code.into() }
    }

    pub(crate) fn into_response<ResB>(self, method: &Method) -> Response<ResponseBody<ResB>> {
        let code = self.code;
        let body = Body {
            title: code.title(),
            status: code.status().as_u16(),
            detail: code.detail(),
            error: code.as_str(),
            intent_id: self.intent.as_deref(),
            paid: self.short.map(|(paid, _)| paid),
            required: self.short.map(|(_, required)| required),
            contact: self.contact.as_deref(),
        };
        // A struct of strings and numbers always serialises.
        let body = Bytes::from(serde_json::to_vec(&body).unwrap_or_default());
        let mut response = own(method, body);
        *response.status_mut() = code.status();
        response.extensions_mut().insert(code);
        let headers = response.headers_mut();
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        if let Some(intent) = self.intent.and_then(|intent| HeaderValue::try_from(intent).ok()) {
            headers.insert(X_PRICE_INTENT, intent);
        }
        response
    }
}

#[derive(Serialize)]
struct Body<'a> {
    title: &'a str,
    status: u16,
    detail: &'a str,
    error: &'a str,
    #[serde(rename = "intentId", skip_serializing_if = "Option::is_none")]
    intent_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    required: Option<Amount>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contact: Option<&'a str>,
}

/// At least one second, and never less than was meant, but for waits of more than a day: they are somebody's mistake.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).clamp(1, LONGEST_WAIT)
}

/// The quote: made from the key alone.
pub(crate) fn quote<ResB>(
    route: &Route,
    method: &Method,
    amount: Amount,
    digest: Option<RequestDigest>,
) -> Response<ResponseBody<ResB>> {
    let terms = intent_terms(route, amount, digest);
    let price = route.price_text(amount);
    let quote = route.template.render(&price, terms.expiry(), |out| route.seals.seal_into(&terms, out));
    let mut response = Response::new(body_for(method, quote.body));
    *response.status_mut() = ProblemCode::PaymentRequired.status();
    *response.headers_mut() = quote.headers;
    tracing::debug!(resource = &*route.resource, %amount, "quoted");
    response
}

/// An intent for this very request, without the bill: for those who have paid already.
pub(crate) fn fresh_intent(route: &Route, seal: &RouteSeal, amount: Amount, digest: Option<RequestDigest>) -> String {
    let mut intent = Vec::new();
    seal.seal_into(&intent_terms(route, amount, digest), &mut intent);
    // Base64url is ASCII.
    String::from_utf8(intent).unwrap_or_default()
}

fn intent_terms(route: &Route, amount: Amount, digest: Option<RequestDigest>) -> IntentTerms {
    // At most thirty days: checked when building.
    let lifetime = u32::try_from(route.merchant.quote_ttl.as_secs()).unwrap_or(u32::MAX);
    IntentTerms { amount, issued: route.merchant.clock.unix(), lifetime, digest }
}

/// A refusal with the headers that all of ours have.
fn own<ResB>(method: &Method, body: Bytes) -> Response<ResponseBody<ResB>> {
    let length = body.len();
    let mut response = Response::new(body_for(method, body));
    let headers = response.headers_mut();
    headers.reserve(8);
    headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    response
}

/// To HEAD an answer goes without its body.
fn body_for<ResB>(method: &Method, body: Bytes) -> ResponseBody<ResB> {
    ResponseBody::whole(if method == Method::HEAD { Bytes::new() } else { body })
}
