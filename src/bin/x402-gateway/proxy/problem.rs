//! The gateway's own answers: `application/problem+json`.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use tower_x402::protocol::headers::PROBLEM_JSON;

/// Returns a refusal: a short code for programs, a sentence for people.
pub(crate) fn problem(status: StatusCode, error: &str, detail: &str) -> Response<Full<Bytes>> {
    let body = serde_json::json!({
        "title": status.canonical_reason().unwrap_or("Error"),
        "status": status.as_u16(),
        "detail": detail,
        "error": error,
    });
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
