//! The answers to requests that cannot be served: `application/problem+json`.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header, request::Parts};

use super::web;

/// A refusal: a short code for programs, a sentence for people.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    title: &'static str,
    error: &'static str,
    detail: String,
}

impl Problem {
    /// Returns a refusal of an invalid request.
    pub(crate) fn bad_request(error: &'static str, detail: impl Into<String>) -> Self {
        let title = match error {
            "invalid_filters" => "Invalid filters",
            "invalid_query" => "Invalid query",
            _ => "Invalid body",
        };
        Self { status: StatusCode::BAD_REQUEST, title, error, detail: detail.into() }
    }

    /// Returns a refusal for an internal error; its reason is logged but not told.
    pub(crate) fn internal(reason: &sqlx::Error) -> Self {
        tracing::error!(%reason, "answer failed");
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            title: "Internal error",
            error: "internal_error",
            detail: "The answer could not be made. Nothing was taken: send the same request again.".to_owned(),
        }
    }

    /// Returns the refusal in the form for this client: a page for a browser.
    pub(crate) fn into_http_for(self, head: &Parts) -> http::Response<Bytes> {
        if head.method != Method::GET || !web::wants_html(&head.headers) {
            return self.into_http();
        }
        let mut page = web::refusal(self.title, &self.detail);
        *page.status_mut() = self.status;
        page
    }

    /// Returns the refusal as a response with a plain body, which the pricing of a route can return too.
    pub(crate) fn into_http(self) -> http::Response<Bytes> {
        let body = serde_json::json!({
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
            "error": self.error,
        });
        let mut response = http::Response::new(Bytes::from(body.to_string()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.into_http().map(axum::body::Body::from)
    }
}
