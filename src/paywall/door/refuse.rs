//! Writes refusals: the one place where a value becomes the text of an answer.

use std::{io::Write as _, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::{
    metrics,
    paywall::{
        body::ResponseBody,
        door::{format::ReplyFormat, refused_payment::write_refused_payment},
        priced_request::PricedRequest,
        refusal::{Fault, Problem, Rejection},
        seller::nested,
    },
    protocol::{
        ProblemCode,
        headers::{EXPOSED_LINE, NO_STORE, PAYMENT_RESPONSE, PROBLEM_JSON, X_PRICE_INTENT, X402_ERROR},
    },
};

/// The longest wait that a client is asked for, in seconds.
const LONGEST_WAIT: u64 = 24 * 60 * 60;

/// Refuses a request before any payment was considered.
pub(crate) fn turn_away<ResB>(
    request: &PricedRequest,
    rejection: impl Into<Rejection>,
) -> Response<ResponseBody<ResB>> {
    let rejection = rejection.into();
    metrics::refused(&request.route.resource, rejection.outcome());
    write(rejection, ReplyFormat::of_request(request), &request.route.resource)
}

/// Refuses a request that shows a payment.
pub(crate) fn deny<ResB>(request: &PricedRequest, rejection: impl Into<Rejection>) -> Response<ResponseBody<ResB>> {
    let rejection = rejection.into();
    metrics::redeemed(&request.route.resource, rejection.outcome());
    write(rejection, ReplyFormat::of_request(request), &request.route.resource)
}

/// Writes a refusal.
pub(crate) fn write<ResB>(rejection: Rejection, format: ReplyFormat, resource: &str) -> Response<ResponseBody<ResB>> {
    match rejection {
        Rejection::Problem(problem) => {
            tracing::debug!(resource, error = %problem.code, "refused");
            write_problem(problem, format)
        }
        Rejection::Refusal(refusal) => refusal.into_response().map(ResponseBody::whole),
        Rejection::Fault(fault) => write_fault(fault, resource),
        Rejection::Replay(answer) => {
            tracing::info!(resource, "delivered again");
            answer.map(ResponseBody::whole)
        }
        Rejection::GivenBack(answer) => {
            tracing::info!(resource, "given back to the payer of a channel");
            answer.map(ResponseBody::whole)
        }
        Rejection::Quoted(refused) => write_refused_payment(&refused, format),
    }
}

/// Returns the problem's body as JSON.
fn json(problem: &Problem) -> Vec<u8> {
    let Problem { code, short, .. } = problem;
    let (title, status, error) = (code.title(), code.status().as_u16(), code.as_str());
    let mut body = Vec::with_capacity(code.detail().len() + 256);
    // Writing to memory cannot fail, and the texts of a code need no escapes.
    let _ = write!(body, r#"{{"title":"{title}","status":{status},"detail":"#);
    let _ = match problem.detail {
        None => write!(body, r#""{}""#, code.detail()),
        Some(detail) => serde_json::to_writer(&mut body, detail).map_err(Into::into),
    };
    let _ = write!(body, r#","error":"{error}""#);
    add(&mut body, "intentId", problem.intent.as_deref());
    add(&mut body, "paid", short.map(|(paid, _)| paid));
    add(&mut body, "required", short.map(|(_, required)| required));
    add(&mut body, "contact", problem.contact.as_deref());
    add(&mut body, "message", problem.message.as_deref());
    body.push(b'}');
    body
}

/// Writes a problem.
pub(crate) fn write_problem<ResB>(problem: Problem, format: ReplyFormat) -> Response<ResponseBody<ResB>> {
    let code = problem.code;
    let body = Bytes::from(json(&problem));
    let mut response = own(code, body);
    let headers = response.headers_mut();
    if let Some(wait) = problem.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
    }
    if let Some(intent) = problem.intent.and_then(|intent| HeaderValue::try_from(intent).ok()) {
        headers.insert(X_PRICE_INTENT, intent);
    }
    if let Some(settlement) = problem.settlement {
        headers.insert(PAYMENT_RESPONSE, settlement.to_header());
    }
    format.apply(&mut response, code);
    response
}

fn write_fault<ResB>(fault: Fault, resource: &str) -> Response<ResponseBody<ResB>> {
    let mut response = Response::new(ResponseBody::default());
    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
    response.headers_mut().insert(header::CACHE_CONTROL, NO_STORE);
    match fault {
        Fault::ZeroPrice => tracing::error!(resource, "the service set a price of zero; answering 500"),
        Fault::NestedPrice => {
            tracing::error!(
                resource,
                "a price inside a price: another X402Layer is inside or outside this one, or the same one twice; answering 500"
            );
            nested::mark(response.extensions_mut());
        }
        Fault::Charge(fault) => tracing::error!(
            resource,
            %fault,
            "the handler's charge is none that can be taken; answering 500, and nothing is sold or taken"
        ),
    }
    response
}

/// Adds a member to a JSON object that is not closed yet.
fn add(object: &mut Vec<u8>, name: &str, value: Option<impl Serialize>) {
    let Some(value) = value else { return };
    // Writing to memory cannot fail, and strings and numbers are JSON.
    let _ = write!(object, r#","{name}":"#);
    let _ = serde_json::to_writer(object, &value);
}

/// Rounds a wait up, to at least one second and at most a day: a longer wait can only be a mistake.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)).clamp(1, LONGEST_WAIT)
}

/// Returns a refusal with the headers that all answers of the layer have.
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
