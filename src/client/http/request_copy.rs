//! `RequestCopy`: the kept parts of a request while it waits for its first answer.

use http::{Method, Request, StatusCode};

use crate::client::{
    ReplayBody,
    http::{
        kept_head::KeptHead,
        replay_request::{has_directives, has_proof},
    },
};

/// A copy of a request that can be sent again.
pub(crate) struct RequestCopy<B> {
    head: KeptHead,
    body: B,
}

impl<B: ReplayBody> RequestCopy<B> {
    /// Copies a request, cheaply, because most answers are free. Returns `None` if the request cannot be sent again, or
    /// has directives or a proof of its own.
    pub(crate) fn of(request: &Request<B>) -> Option<Self> {
        if has_directives(request.extensions()) || has_proof(request.headers()) {
            return None;
        }
        let body = request.body().replay()?;
        Some(Self { head: KeptHead::of(request), body })
    }

    /// Returns whether this status asks for a payment. A HEAD request gets the price, but cannot redeem anything.
    pub(crate) fn is_billed(&self, status: StatusCode) -> bool {
        status == StatusCode::PAYMENT_REQUIRED && self.head.method != Method::HEAD
    }

    /// Returns the request.
    pub(crate) fn into_request(self) -> Request<B> {
        Request::from_parts(self.head.into_parts(), self.body)
    }
}
