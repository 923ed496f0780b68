//! `AnswerFilter`: filters the answers to free requests.

use http::{HeaderMap, Method, Request, Response, StatusCode, header};

use crate::{
    paywall::{
        body::ResponseBody,
        door::{format::ReplyFormat, refuse::write_problem},
        priced_request::strip::shows_payment,
        seller::{bypass::Passage, route::Route},
    },
    protocol::{
        Media, ProblemCode,
        headers::{
            PAY, PAYMENT_REQUIRED, PRIVATE_NO_STORE, keep_preflight_headers, strip_payment_headers,
            strip_shared_caching,
        },
    },
};

/// How the answer to a request that bypassed the paywall leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnswerFilter {
    Untouched,
    /// Without a bill, because the request showed a proof.
    WithoutBill(ReplyFormat),
    /// For a CORS preflight: without a body, so that nothing is sold by it.
    Preflight,
}

impl AnswerFilter {
    /// Returns how the answer to this request leaves, if it bypasses the paywall at once; `None` if it is priced.
    pub(crate) fn of<B>(route: &Route, request: &Request<B>) -> Option<Self> {
        Some(match route.bypass.decide(request)? {
            Passage::Free => Self::free(route, request.method(), request.headers()),
            Passage::Preflight => Self::Preflight,
        })
    }

    /// Returns how the answer to a free request leaves.
    pub(crate) fn free(route: &Route, method: &Method, headers: &HeaderMap) -> Self {
        if shows_payment(headers, route.merchant.mpp.as_ref()) {
            Self::WithoutBill(ReplyFormat::of(method, Media::of(headers)))
        } else {
            Self::Untouched
        }
    }

    pub(crate) fn apply<ResB>(self, response: Response<ResponseBody<ResB>>) -> Response<ResponseBody<ResB>> {
        match self {
            Self::Untouched => response,
            Self::WithoutBill(format) => without_bill(response, format),
            Self::Preflight => without_answer(response),
        }
    }
}

/// Returns the answer to a preflight without anything that is for sale: no body, no switch of protocols, no address of an answer, no bill.
/// Browsers need none of these. Only the CORS headers are kept, because any other header may be part of a sold answer.
fn without_answer<ResB>(response: Response<ResponseBody<ResB>>) -> Response<ResponseBody<ResB>> {
    let mut response = response.map(|_| ResponseBody::default());
    let status = response.status();
    if status.is_informational() || status.is_redirection() || status == StatusCode::PAYMENT_REQUIRED {
        *response.status_mut() = StatusCode::FORBIDDEN;
    }
    keep_preflight_headers(response.headers_mut());
    response
}

/// Returns the handler's answer to a request that shows a proof and is served for free. It is never a bill, not even the handler's own.
pub(crate) fn without_bill<ResB>(
    mut answer: Response<ResponseBody<ResB>>,
    format: ReplyFormat,
) -> Response<ResponseBody<ResB>> {
    if answer.status() == StatusCode::PAYMENT_REQUIRED {
        return write_problem(ProblemCode::UpstreamPaymentRequired.into(), format);
    }
    answer.headers_mut().remove(PAY);
    answer.headers_mut().remove(PAYMENT_REQUIRED);
    answer
}

/// Returns the answer to a request with a ticket. It was sold before, and no shared cache may give it to others.
pub(crate) fn sold_before<ResB>(
    answer: Response<ResponseBody<ResB>>,
    format: ReplyFormat,
) -> Response<ResponseBody<ResB>> {
    let mut answer = without_bill(answer, format);
    if answer.extensions().get::<ProblemCode>().is_some() {
        return answer;
    }
    let headers = answer.headers_mut();
    strip_payment_headers(headers);
    headers.insert(header::CACHE_CONTROL, PRIVATE_NO_STORE);
    strip_shared_caching(headers);
    answer
}
