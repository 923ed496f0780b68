//! `Bypass`: which requests pass without a price, and how their answers leave.

use std::{fmt, future::Future, pin::Pin, sync::Arc};

use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, header, request::Parts};

use crate::{
    paywall::{
        body::ResponseBody,
        door::problem::{ReplyFormat, without_bill},
    },
    protocol::{
        Media,
        headers::{X402_PAYMENT, keep_preflight_headers},
    },
};

type FreeWhen = dyn Fn(&Method, &Uri, &HeaderMap) -> bool + Send + Sync;
/// A decision that must be waited for.
pub(crate) type Decision = Pin<Box<dyn Future<Output = bool> + Send>>;
type FreeWhenAsync = dyn Fn(&Parts) -> Decision + Send + Sync;

/// Which requests bypass the paywall.
#[derive(Clone, Default)]
pub(crate) struct Bypass {
    pub(crate) free_when: Option<Arc<FreeWhen>>,
    pub(crate) free_when_async: Option<Arc<FreeWhenAsync>>,
    pub(crate) preflight: bool,
}

/// How the answer to a request leaves that bypassed the paywall.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnswerFilter {
    Untouched,
    /// A proof was shown.
    WithoutBill(ReplyFormat),
    /// A CORS preflight: its answer leaves without a body, so that nothing is sold by it.
    Preflight,
}

impl Bypass {
    /// How the answer to this request leaves, if it bypasses the paywall at once; `None` if it is priced.
    pub(crate) fn decide<B>(&self, request: &Request<B>) -> Option<AnswerFilter> {
        let (method, headers) = (request.method(), request.headers());
        if let Some(free_when) = &self.free_when
            && free_when(method, request.uri(), headers)
        {
            Some(AnswerFilter::free(method, headers))
        } else if self.preflight && is_preflight(method, headers) {
            Some(AnswerFilter::Preflight)
        } else {
            None
        }
    }

    /// Whether a priced request may be free all the same, by a decision that must be waited for.
    pub(crate) const fn asks(&self) -> bool {
        self.free_when_async.is_some()
    }

    pub(crate) fn ask(&self, parts: &Parts) -> Option<Decision> {
        self.free_when_async.as_ref().map(|free| free(parts))
    }
}

impl AnswerFilter {
    /// For the answer to a free request.
    pub(crate) fn free(method: &Method, headers: &HeaderMap) -> Self {
        if headers.contains_key(X402_PAYMENT) {
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

/// As the [Fetch standard](https://fetch.spec.whatwg.org/#cors-preflight-request) sends it.
fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS
        && headers.contains_key(header::ORIGIN)
        && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight, with nothing in it that is sold: neither a body, nor a switch of protocols, the address of an
/// answer, or a bill. Browsers take none of these for a permission. Only the headers that a preflight is about are kept, for
/// any other may hold what is sold.
fn without_answer<ResB>(response: Response<ResponseBody<ResB>>) -> Response<ResponseBody<ResB>> {
    let mut response = response.map(|_| ResponseBody::default());
    let status = response.status();
    if status.is_informational() || status.is_redirection() || status == StatusCode::PAYMENT_REQUIRED {
        *response.status_mut() = StatusCode::FORBIDDEN;
    }
    keep_preflight_headers(response.headers_mut());
    response
}

impl fmt::Debug for Bypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bypass")
            .field("free_when", &self.free_when.is_some())
            .field("free_when_async", &self.free_when_async.is_some())
            .field("preflight", &self.preflight)
            .finish()
    }
}
