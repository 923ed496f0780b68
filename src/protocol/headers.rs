//! Every header name of the contract, and the small writers that belong to no other value.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// On a quote: recipient, chain, label, expiry and amount, as one JSON object.
pub const PAY: HeaderName = HeaderName::from_static("pay");
/// On a quote, and on errors that carry a fresh one: the intent id.
pub const X_PRICE_INTENT: HeaderName = HeaderName::from_static("x-price-intent");
/// On a quote: the accepted token contracts.
pub const X_PAYMENT_CONTRACTS: HeaderName = HeaderName::from_static("x-payment-contracts");
/// On a request: a redemption, as JSON or base64 of it.
pub const X402_PAYMENT: HeaderName = HeaderName::from_static("x402-payment");
/// On an answer that was sold: what was taken.
pub const PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("payment-response");

/// On every refusal, the quote included: its short code, for whoever reads no body (HEAD has none, gRPC neither).
pub const X402_ERROR: HeaderName = HeaderName::from_static("x402-error");

/// The media type of every body the layer writes (RFC 9457).
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// What a browser may read of our answers, as tower-http's `CorsLayer::expose_headers` takes it.
pub const EXPOSED: [HeaderName; 6] =
    [PAY, X_PRICE_INTENT, X_PAYMENT_CONTRACTS, PAYMENT_RESPONSE, X402_ERROR, header::RETRY_AFTER];

/// The same as one line.
pub(crate) const EXPOSED_LINE: HeaderValue =
    HeaderValue::from_static("Pay, X-Price-Intent, X-Payment-Contracts, PAYMENT-RESPONSE, x402-error, Retry-After");

pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
pub(crate) const PRIVATE_NO_STORE: HeaderValue = HeaderValue::from_static("private, no-store");

/// Removes what only the layer may say, so that no handler can speak in its name.
pub(crate) fn strip_payment_headers(headers: &mut HeaderMap) {
    for name in [PAY, X_PRICE_INTENT, X_PAYMENT_CONTRACTS, X402_ERROR] {
        headers.remove(name);
    }
    remove_where(headers, |name| name.starts_with("payment-"));
}

/// Removes what tells shared caches to keep an answer: to some of them these count for more than `Cache-Control`.
pub(crate) fn strip_shared_caching(headers: &mut HeaderMap) {
    remove_where(headers, |name| {
        matches!(name, "expires" | "surrogate-control" | "edge-control" | "x-accel-expires")
            || name.ends_with("cdn-cache-control")
    });
}

/// Removes all headers but those that make a CORS preflight's answer: whatever else stands there may be what is sold.
pub(crate) fn keep_preflight_headers(headers: &mut HeaderMap) {
    remove_where(headers, |name| {
        !name.starts_with("access-control-") && !matches!(name, "allow" | "cache-control" | "date" | "server" | "vary")
    });
}

fn remove_where(headers: &mut HeaderMap, unwanted: impl Fn(&str) -> bool) {
    let unwanted: Vec<HeaderName> = headers.keys().filter(|name| unwanted(name.as_str())).cloned().collect();
    for name in unwanted {
        headers.remove(name);
    }
}

/// Adds our headers to what the answer exposes already, on however many lines that stands.
pub(crate) fn expose(headers: &mut HeaderMap) {
    let mut merged = Vec::new();
    for line in headers.get_all(header::ACCESS_CONTROL_EXPOSE_HEADERS).iter().filter(|line| !line.is_empty()) {
        merged.extend_from_slice(line.as_bytes());
        merged.extend_from_slice(b", ");
    }
    let exposed = if merged.is_empty() {
        EXPOSED_LINE
    } else {
        merged.extend_from_slice(EXPOSED_LINE.as_bytes());
        // Values joined by a comma are a value; the fall-back cannot be reached.
        HeaderValue::from_bytes(&merged).unwrap_or(EXPOSED_LINE)
    };
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}
