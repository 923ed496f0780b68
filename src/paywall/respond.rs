//! The layer's own answers: quotes and problems.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, header};
use serde::Serialize;

use super::{body::ResponseBody, layer::Route, media::Media};
use crate::protocol::{
    Amount, IntentTerms, ProblemCode, QuoteTemplate, RedeemBy, RequestDigest, RetryRule, RouteSeal,
    headers::{EXPOSED_LINE, NO_STORE, PAY, PROBLEM_JSON, X_PRICE_INTENT, X402_ERROR},
};

/// When to ask again where a backend did not answer, or another redemption is under way.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(5);

/// In seconds: the longest wait that a client is asked for.
const LONGEST_WAIT: u64 = 24 * 60 * 60;

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// In what form the layer's own answer reaches who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    Whole,
    /// To HEAD an answer goes without its body.
    Head,
    /// To gRPC it goes in its headers alone, under this content type.
    TrailersOnly(&'static str),
}

impl Form {
    pub(crate) fn of(method: &Method, media: Media) -> Self {
        match media {
            _ if *method == Method::HEAD => Self::Head,
            Media::Grpc(content_type) => Self::TrailersOnly(content_type),
            Media::Json | Media::Form | Media::Other => Self::Whole,
        }
    }

    fn give<ResB>(self, response: &mut Response<ResponseBody<ResB>>, code: ProblemCode) {
        match self {
            Self::Whole => {}
            Self::Head => *response.body_mut() = ResponseBody::default(),
            Self::TrailersOnly(content_type) => {
                *response.status_mut() = StatusCode::OK;
                *response.body_mut() = ResponseBody::default();
                let headers = response.headers_mut();
                headers.remove(header::CONTENT_LENGTH);
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
                headers.insert(GRPC_STATUS, HeaderValue::from_static(grpc_status(code)));
                headers.insert(GRPC_MESSAGE, HeaderValue::from_static(code.as_str()));
            }
        }
    }
}

/// UNAVAILABLE, which clients retry by themselves, where asking again is the way; else FAILED_PRECONDITION.
fn grpc_status(code: ProblemCode) -> &'static str {
    if code.retry() == RetryRule::AskAgain { "14" } else { "9" }
}

/// Whether an answer says that it is a failure of gRPC, which is HTTP 200 all the same.
pub(crate) fn is_grpc_failure(headers: &http::HeaderMap) -> bool {
    headers.get_all(GRPC_STATUS).iter().any(|status| status != "0")
}

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

    pub(crate) fn into_response<ResB>(self, form: Form) -> Response<ResponseBody<ResB>> {
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
        let mut response = own(code, body);
        let headers = response.headers_mut();
        if let Some(wait) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        if let Some(intent) = self.intent.and_then(|intent| HeaderValue::try_from(intent).ok()) {
            headers.insert(X_PRICE_INTENT, intent);
        }
        form.give(&mut response, code);
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
    template: &QuoteTemplate,
    form: Form,
    redeem_by: RedeemBy,
    amount: Amount,
    digest: Option<RequestDigest>,
) -> Response<ResponseBody<ResB>> {
    let terms = intent_terms(route, amount, digest);
    let price = route.price_text(amount);
    let quote = template.render(&price, terms.expiry(), redeem_by, |out| route.seals.seal_into(&terms, out));
    let mut response = Response::new(ResponseBody::whole(quote.body));
    *response.status_mut() = ProblemCode::PaymentRequired.status();
    *response.headers_mut() = quote.headers;
    form.give(&mut response, ProblemCode::PaymentRequired);
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
fn own<ResB>(code: ProblemCode, body: Bytes) -> Response<ResponseBody<ResB>> {
    let length = body.len();
    let mut response = Response::new(ResponseBody::whole(body));
    *response.status_mut() = code.status();
    response.extensions_mut().insert(code);
    let headers = response.headers_mut();
    headers.reserve(8);
    headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_LINE);
    headers.insert(X402_ERROR, HeaderValue::from_static(code.as_str()));
    response
}

/// What somebody hears who shows a proof and is served for nothing: never a bill, the handler's own neither.
pub(crate) fn without_bill<ResB>(mut answer: Response<ResponseBody<ResB>>, form: Form) -> Response<ResponseBody<ResB>> {
    if answer.status() == StatusCode::PAYMENT_REQUIRED {
        return Problem::from(ProblemCode::UpstreamPaymentRequired).into_response(form);
    }
    answer.headers_mut().remove(PAY);
    answer
}
