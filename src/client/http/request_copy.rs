//! `RequestCopy`: the kept parts of a request while it waits for its first answer.

use http::{Method, Request, StatusCode};

use crate::client::{
    ReplayBody,
    http::{
        kept_head::KeptHead,
        replay_request::{has_directives, has_proof},
    },
};

/// A request that can be sent again.
pub(crate) struct RequestCopy<B> {
    head: KeptHead,
    body: B,
}

impl<B: ReplayBody> RequestCopy<B> {
    /// Keeps a request: cheaply, for most answers are free. `None` where it cannot be sent again, or asks for more than to be
    /// sent.
    pub(crate) fn of(request: &Request<B>) -> Option<Self> {
        if has_directives(request.extensions()) || has_proof(request.headers()) {
            return None;
        }
        let body = request.body().replay()?;
        Some(Self { head: KeptHead::of(request), body })
    }

    /// Whether this status asks for a payment: a HEAD gets the price, and can redeem nothing.
    pub(crate) fn is_billed(&self, status: StatusCode) -> bool {
        status == StatusCode::PAYMENT_REQUIRED && self.head.method != Method::HEAD
    }

    /// Returns the request.
    pub(crate) fn into_request(self) -> Request<B> {
        Request::from_parts(self.head.into_parts(), self.body)
    }
}
