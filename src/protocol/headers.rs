//! The names of all headers on the wire, and functions that edit headers.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// The maximum length of the `x402-payment` header, in bytes, and the default for the headers of [`v2`](super::v2).
pub const HEADER_MAX: usize = 8 * 1024;

/// `Pay`, on a quote: recipient, chain, label, expiry and amount, as a JSON object.
pub const PAY: HeaderName = HeaderName::from_static("pay");
/// `X-Price-Intent`, on a quote, and on errors that carry a new one: the intent id.
pub const X_PRICE_INTENT: HeaderName = HeaderName::from_static("x-price-intent");
/// `X-Payment-Contracts`, on a quote: the accepted token contracts.
pub const X_PAYMENT_CONTRACTS: HeaderName = HeaderName::from_static("x-payment-contracts");
/// `x402-payment`, on a request: a redemption, as JSON or base64 of it.
pub const X402_PAYMENT: HeaderName = HeaderName::from_static("x402-payment");
/// `PAYMENT-REQUIRED`, on a 402: the standard's quote, a [`PaymentRequired`](super::v2::PaymentRequired).
pub const PAYMENT_REQUIRED: HeaderName = HeaderName::from_static("payment-required");
/// `PAYMENT-SIGNATURE`, on a request: the standard's payment, a [`PaymentPayload`](super::v2::PaymentPayload).
pub const PAYMENT_SIGNATURE: HeaderName = HeaderName::from_static("payment-signature");
/// `PAYMENT-RESPONSE`, on a paid answer: the payment that was consumed.
pub const PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("payment-response");

/// `X-PAYMENT`, on a request: the payment of the standard's first version, a [`PaymentPayload`](super::v1::PaymentPayload).
pub const X_PAYMENT: HeaderName = HeaderName::from_static("x-payment");
/// `X-PAYMENT-RESPONSE`, on the answer to an `X-PAYMENT`, beside [`PAYMENT_RESPONSE`]: the same content, with the
/// chain's name.
pub const X_PAYMENT_RESPONSE: HeaderName = HeaderName::from_static("x-payment-response");

/// `Payment-Authorization`, on a request: a payment of MPP, if its challenge asks for this header.
pub const PAYMENT_AUTHORIZATION: HeaderName = HeaderName::from_static("payment-authorization");
/// `Payment-Receipt`, on a paid answer to a payment of MPP, beside [`PAYMENT_RESPONSE`].
pub const PAYMENT_RECEIPT: HeaderName = HeaderName::from_static("payment-receipt");
/// `Accept-Payment`, on a request: which payments of MPP the client can make.
pub const ACCEPT_PAYMENT: HeaderName = HeaderName::from_static("accept-payment");
/// `Idempotency-Key`, on a request beside a payment of MPP: the client's [name](super::PurchaseName) for its purchase.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// `x402-pass`, on a request: the token of a [`Pass`](crate::Pass), or the ticket of an answer.
pub const X402_PASS: HeaderName = HeaderName::from_static("x402-pass");
/// `X402-Pass-Remaining`, on an answer to a call by a pass: what is left of the pass.
pub const X402_PASS_REMAINING: HeaderName = HeaderName::from_static("x402-pass-remaining");
/// `X402-Ticket`, on a sold answer: with this value in [`X402_PASS`], the same request is free for a while.
pub const X402_TICKET: HeaderName = HeaderName::from_static("x402-ticket");

/// `x402-error`, on every refusal, the quote included: its code, for clients that do not read the body (HEAD and gRPC have none).
pub const X402_ERROR: HeaderName = HeaderName::from_static("x402-error");

/// `x402-page`, on a request: the script of a page sends it, and receives a sold redirect in [`X402_LOCATION`] instead
/// of following it, and the `detail` of a problem in the visitor's language.
pub const X402_PAGE: HeaderName = HeaderName::from_static("x402-page");
/// `x402-location`, on a paid answer to the script of a page: the location of a redirect that was sold.
pub const X402_LOCATION: HeaderName = HeaderName::from_static("x402-location");

/// `grpc-status`, of gRPC: `0` if a call succeeded.
pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// The content type of every body that the layer writes (RFC 9457).
pub const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The headers that a browser's script may read, as tower-http's `CorsLayer::expose_headers` accepts them.
pub const EXPOSED: [HeaderName; 12] = [
    PAY,
    X_PRICE_INTENT,
    X_PAYMENT_CONTRACTS,
    PAYMENT_REQUIRED,
    PAYMENT_RESPONSE,
    X_PAYMENT_RESPONSE,
    header::WWW_AUTHENTICATE,
    PAYMENT_RECEIPT,
    X402_ERROR,
    header::RETRY_AFTER,
    X402_PASS_REMAINING,
    X402_TICKET,
];

/// The headers that a browser's script may send, as tower-http's `CorsLayer::allow_headers` accepts them. The
/// standard's official client sends the last one. A `*` does not cover `Authorization`.
pub const ALLOWED: [HeaderName; 10] = [
    header::CONTENT_TYPE,
    X402_PAYMENT,
    PAYMENT_SIGNATURE,
    X_PAYMENT,
    X402_PASS,
    header::AUTHORIZATION,
    PAYMENT_AUTHORIZATION,
    ACCEPT_PAYMENT,
    IDEMPOTENCY_KEY,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
];

/// [`EXPOSED`] as one line, without the headers that only answers to passes and to payments of version 1 and MPP
/// have.
pub(crate) const EXPOSED_LINE: HeaderValue = HeaderValue::from_static(
    "Pay, X-Price-Intent, X-Payment-Contracts, PAYMENT-REQUIRED, PAYMENT-RESPONSE, x402-error, Retry-After",
);

/// The headers that the answer to a pass exposes. An answer with a ticket exposes the ticket as well.
pub(crate) const EXPOSED_BY_PASS: HeaderValue =
    HeaderValue::from_static("X402-Pass-Remaining, x402-error, Retry-After");

pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");
pub(crate) const PRIVATE_NO_STORE: HeaderValue = HeaderValue::from_static("private, no-store");

/// Removes the headers that only the layer may send, so that no handler can imitate it.
pub(crate) fn strip_payment_headers(headers: &mut HeaderMap) {
    // Checks each name that is present: a lookup would have to hash the name.
    remove_where(headers, |name| {
        name.starts_with("payment-")
            || name.starts_with("x402-pass")
            // A service's charge, which it tells the layer.
            || name == "settlement-overrides"
            || [PAY, X_PRICE_INTENT, X_PAYMENT_CONTRACTS, X_PAYMENT_RESPONSE, X402_ERROR, X402_TICKET]
                .iter()
                .any(|ours| name == ours)
    });
}

/// Removes headers that let shared caches store an answer: some caches prefer them to `Cache-Control`.
pub(crate) fn strip_shared_caching(headers: &mut HeaderMap) {
    remove_where(headers, |name| {
        matches!(name, "expires" | "surrogate-control" | "edge-control" | "x-accel-expires")
            || name.ends_with("cdn-cache-control")
    });
}

/// Removes all headers but those of a CORS preflight's answer: any other may be part of a sold answer.
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

/// Adds [`EXPOSED`] to the headers that the answer already exposes, on one line.
pub(crate) fn expose(headers: &mut HeaderMap) {
    expose_line(headers, EXPOSED_LINE);
}

/// Adds these names to the headers that the answer already exposes, on one line.
pub(crate) fn expose_line(headers: &mut HeaderMap, line: HeaderValue) {
    let mut merged = Vec::new();
    for line in headers.get_all(header::ACCESS_CONTROL_EXPOSE_HEADERS).iter().filter(|line| !line.is_empty()) {
        merged.extend_from_slice(line.as_bytes());
        merged.extend_from_slice(b", ");
    }
    let exposed = if merged.is_empty() {
        line
    } else {
        merged.extend_from_slice(line.as_bytes());
        // Values joined by a comma are a valid value, so the fall-back is unreachable.
        HeaderValue::from_bytes(&merged).unwrap_or(line)
    };
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
}
