//! [`Receipt`] as an axum extractor, and [`Charge`] as a part of an axum response.

use axum_core::{
    extract::{FromRequestParts, OptionalFromRequestParts},
    response::{IntoResponse, IntoResponseParts, Response, ResponseParts},
};
use http::{StatusCode, request::Parts};

use crate::{Charge, protocol::Receipt};

/// The rejection of a handler that takes a [`Receipt`] on a request that no [`X402Layer`](crate::X402Layer) sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no receipt: this route has no X402Layer around it, or the layer let the request through for free")]
#[non_exhaustive]
pub struct MissingReceipt;

impl IntoResponse for MissingReceipt {
    /// Returns a 500 that names the missing layer: the service lacks an [`X402Layer`](crate::X402Layer) here.
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.to_string()).into_response()
    }
}

impl<S: Sync> FromRequestParts<S> for Receipt {
    type Rejection = MissingReceipt;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, MissingReceipt> {
        parts.extensions.get().cloned().ok_or(MissingReceipt)
    }
}

/// `Option<Receipt>`: for handlers that also serve requests that the layer lets through for free.
impl<S: Sync> OptionalFromRequestParts<S> for Receipt {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Option<Self>, Self::Rejection> {
        Ok(parts.extensions.get().cloned())
    }
}

/// `(Charge(amount), body)`: an answer, and its charge.
impl IntoResponseParts for Charge {
    type Error = std::convert::Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Self::Error> {
        response.extensions_mut().insert(self);
        Ok(response)
    }
}
