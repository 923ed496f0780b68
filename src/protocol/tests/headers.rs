//! Headers: what the layer adds, and what handlers may not send in its name.

use http::{HeaderMap, HeaderName, HeaderValue, header::ACCESS_CONTROL_EXPOSE_HEADERS};

use crate::protocol::headers::{
    EXPOSED, EXPOSED_LINE, PAY, PAYMENT_RECEIPT, PAYMENT_REQUIRED, PAYMENT_RESPONSE, PAYMENT_SIGNATURE,
    X_PAYMENT_CONTRACTS, X_PAYMENT_RESPONSE, X_PRICE_INTENT, X402_ERROR, X402_PASS_REMAINING, X402_PAYMENT,
    X402_TICKET, expose, keep_preflight_headers, strip_payment_headers, strip_shared_caching,
};

#[test]
fn names_are_the_contracts() {
    assert_eq!(
        [PAY, X_PRICE_INTENT, X_PAYMENT_CONTRACTS, X402_PAYMENT, PAYMENT_RESPONSE, X402_ERROR]
            .map(|name| name.to_string()),
        ["pay", "x-price-intent", "x-payment-contracts", "x402-payment", "payment-response", "x402-error"]
    );
    assert_eq!(
        [PAYMENT_REQUIRED, PAYMENT_SIGNATURE].map(|name| name.to_string()),
        ["payment-required", "payment-signature"]
    );
}

#[test]
fn what_is_exposed_names_every_header_that_a_payer_reads() {
    let exposed = EXPOSED_LINE.to_str().unwrap().to_ascii_lowercase();
    let exposed: Vec<&str> = exposed.split(", ").collect();
    // Only answers to passes, of version 1 and of MPP have these; such answers expose them themselves.
    let rare = [X_PAYMENT_RESPONSE, PAYMENT_RECEIPT, http::header::WWW_AUTHENTICATE, X402_PASS_REMAINING, X402_TICKET];
    let every = EXPOSED;
    let others: Vec<_> = every.iter().filter(|name| !rare.contains(name)).map(HeaderName::as_str).collect();
    assert_eq!(exposed, others, "for a layer outside the same as in our own answers");
    assert_eq!(others.len() + rare.len(), EXPOSED.len());
    for name in [PAY, X_PRICE_INTENT, X_PAYMENT_CONTRACTS, PAYMENT_RESPONSE, X402_ERROR, http::header::RETRY_AFTER] {
        assert!(exposed.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn exposing_merges_with_what_is_there() {
    for (before, after) in [
        (&[] as &[&str], ""),
        (&[""], ""),
        (&["X-Total"], "X-Total, "),
        (&["X-Total, X-Page"], "X-Total, X-Page, "),
        (&["X-Total", "", "X-Page"], "X-Total, X-Page, "),
        (&["*"], "*, "),
    ] {
        let mut headers = HeaderMap::new();
        for line in before {
            headers.append(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(line));
        }
        expose(&mut headers);
        let lines: Vec<_> = headers.get_all(ACCESS_CONTROL_EXPOSE_HEADERS).iter().collect();
        assert_eq!(lines, [&format!("{after}{}", EXPOSED_LINE.to_str().unwrap())]);
    }
}

#[test]
fn exposing_keeps_values_beyond_ascii() {
    let mut headers = HeaderMap::new();
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_bytes(b"X-\xff").unwrap());
    expose(&mut headers);
    let merged = headers[ACCESS_CONTROL_EXPOSE_HEADERS].as_bytes();
    assert!(merged.starts_with(b"X-\xff, Pay"));
}

#[test]
fn a_handler_cannot_speak_in_the_layers_name() {
    let mut headers = HeaderMap::new();
    for name in [
        "Pay",
        "X-Price-Intent",
        "X-Payment-Contracts",
        "x402-error",
        "PAYMENT-RESPONSE",
        "Payment-Required",
        "payment-signature",
        "payment-anything-at-all",
    ] {
        let name: http::HeaderName = name.parse().unwrap();
        headers.append(&name, HeaderValue::from_static("forged"));
        headers.append(&name, HeaderValue::from_static("forged twice"));
    }
    for kept in ["x-payment", "paying", "x-request-id", "payments", "retry-after"] {
        headers.insert(kept, HeaderValue::from_static("kept"));
    }
    strip_payment_headers(&mut headers);
    let mut left: Vec<&str> = headers.keys().map(http::HeaderName::as_str).collect();
    left.sort_unstable();
    assert_eq!(left, ["paying", "payments", "retry-after", "x-payment", "x-request-id"]);
    assert!(headers.values().all(|value| value == "kept"));
}

/// Returns which of these names remain, after each was sent twice.
fn left(names: &[&str], strip: fn(&mut HeaderMap)) -> Vec<String> {
    let mut headers = HeaderMap::new();
    for name in names {
        let name: http::HeaderName = name.parse().unwrap();
        headers.append(&name, HeaderValue::from_static("one"));
        headers.append(&name, HeaderValue::from_static("two"));
    }
    strip(&mut headers);
    assert!(headers.keys().all(|name| headers.get_all(name).iter().count() == 2));
    headers.keys().map(ToString::to_string).collect()
}

/// The four of the contract, and others that some shared cache prefers to `Cache-Control`.
#[test]
fn no_shared_cache_is_told_to_keep_what_was_sold() {
    let caching = [
        "CDN-Cache-Control",
        "Surrogate-Control",
        "X-Accel-Expires",
        "Expires",
        "Cloudflare-CDN-Cache-Control",
        "Edge-Control",
    ];
    assert!(left(&caching, strip_shared_caching).is_empty());
    let others = ["cache-control", "etag", "vary", "last-modified", "x-accel-buffering", "content-type"];
    assert_eq!(left(&others, strip_shared_caching), others);
}

/// Anything besides the permission may be part of an unpaid answer.
#[test]
fn a_preflight_keeps_what_it_is_about() {
    let answers = ["Location", "Content-Location", "Upgrade", "Refresh", "Link", "Set-Cookie", "Content-Length", "Pay"];
    assert!(left(&answers, keep_preflight_headers).is_empty());
    let about = ["access-control-allow-origin", "access-control-max-age", "allow", "vary", "cache-control", "date"];
    assert_eq!(left(&about, keep_preflight_headers), about);
}
