//! `RequestCopy`: the kept parts of a request while it waits for its first answer.

use http::{Method, Request, StatusCode, request::Parts};

use crate::client::{
    ReplayBody,
    http::replay_request::{has_directives, has_proof},
};

/// A request that can be sent again.
pub(crate) struct RequestCopy<B> {
    parts: Parts,
    body: B,
}

impl<B: ReplayBody> RequestCopy<B> {
    /// Keeps a request: cheaply, for most answers are free. `None` where it cannot be sent again, or asks for more than to be
    /// sent.
    pub(crate) fn of(request: &Request<B>) -> Option<Self> {
        let extensions = request.extensions();
        if has_directives(extensions) || has_proof(request.headers()) {
            return None;
        }
        let body = request.body().replay()?;
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = request.method().clone();
        parts.uri = request.uri().clone();
        parts.version = request.version();
        parts.headers = request.headers().clone();
        parts.extensions = extensions.clone();
        Some(Self { parts, body })
    }

    /// Whether this status asks for a payment: a HEAD gets the price, and can redeem nothing.
    pub(crate) fn is_billed(&self, status: StatusCode) -> bool {
        status == StatusCode::PAYMENT_REQUIRED && self.parts.method != Method::HEAD
    }

    /// Returns the request.
    pub(crate) fn into_request(self) -> Request<B> {
        Request::from_parts(self.parts, self.body)
    }
}
