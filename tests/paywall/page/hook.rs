//! A page of the service's own.

use bytes::Bytes;
use http::{Response, request::Parts};
use tower_x402::{Offer, protocol::Quote};

use super::{get, navigation, text};
use crate::support::{Counter, Shop, ask, echo, layered};

#[tokio::test]
async fn status_and_payment_headers_stay_those_of_the_quote() {
    let shop = Shop::open().await;
    let layer = shop.layer().label("A <label>").unwrap().quote_page(|head: &Parts, offer: &Offer| {
        let body = format!("{} costs {} {}", head.uri, offer.quote.amount.to_decimal(6), offer.quote.label);
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = http::StatusCode::OK;
        for (name, value) in [
            ("pay", "{}"),
            ("x-price-intent", "mine"),
            ("x-payment-contracts", "0x"),
            ("payment-response", "e30="),
            ("payment-required", "e30="),
            ("x402-error", "mine"),
            ("cache-control", "public, max-age=60"),
            ("content-length", "1"),
            ("transfer-encoding", "chunked"),
            ("vary", "Accept-Language, Cookie"),
            ("content-type", "text/plain"),
            ("x-own", "kept"),
            ("content-security-policy", "default-src 'self'"),
        ] {
            response.headers_mut().insert(name, value.parse().unwrap());
        }
        Some(response)
    });
    let service = layered(&layer, echo(Counter::default()));
    let (status, headers, body) = text(ask(&service, navigation("/answer?a=b")).await).await;
    assert_eq!((status, body.as_str()), (402, "/answer?a=b costs 0.49 A <label>"));
    let quote = Quote::from_headers(&headers).unwrap();
    assert_eq!((quote.label.as_str(), quote.amount.to_string().as_str()), ("A <label>", "490000"));
    for absent in ["payment-response", "payment-required", "transfer-encoding"] {
        assert!(!headers.contains_key(absent), "{absent}");
    }
    for (name, value) in [
        ("x402-error", "payment_required"),
        ("cache-control", "no-store"),
        ("content-type", "text/plain"),
        ("x-own", "kept"),
        ("content-security-policy", "default-src 'self'"),
    ] {
        assert_eq!(headers[name], value);
    }
    assert_eq!(headers["content-length"], body.len().to_string().as_str());
    let vary: Vec<_> = headers.get_all("vary").iter().collect();
    assert_eq!(vary, ["Accept-Language, Cookie", "Accept"]);
    // Others get the JSON as ever.
    let (_, headers, body) = text(ask(&service, get("/answer")).await).await;
    assert!(body.starts_with('{') && !headers.contains_key("x-own"));
}

#[tokio::test]
async fn a_page_that_is_none_leaves_the_json() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().quote_page(|_: &Parts, _: &Offer| None), echo(Counter::default()));
    let (status, headers, body) = text(ask(&service, navigation("/answer")).await).await;
    assert_eq!((status, headers["content-type"].as_bytes()), (402, &b"application/problem+json"[..]));
    assert!(body.starts_with('{'));
}

#[tokio::test]
async fn what_it_is_told_is_the_quote_of_the_headers() {
    let shop = Shop::open_with(|builder| builder.require_bound()).await;
    let layer = shop.layer().header_only().quote_page(|_: &Parts, offer: &Offer| {
        assert!(offer.takes_transfers && offer.bound_only && !offer.takes_forms && offer.required.is_none());
        assert_eq!(offer.issued.unix(), crate::support::NOW);
        Some(Response::new(Bytes::from(format!("{:?}", offer.quote))))
    });
    let service = layered(&layer, echo(Counter::default()));
    let (_, headers, body) = text(ask(&service, navigation("/answer")).await).await;
    assert_eq!(body, format!("{:?}", Quote::from_headers(&headers).unwrap()));
    assert_eq!(headers["content-type"], "text/html; charset=utf-8");
}

/// A label of the request's own reaches the page as it reaches the quote.
#[tokio::test]
async fn a_price_of_its_own_label_is_shown_with_it() {
    let shop = Shop::open().await;
    let layer = shop.merchant.price_with("answer", |parts, _| {
        tower_x402::Price::labelled(tower_x402::protocol::Amount::from_cents(12, 6), parts.uri.path())
    });
    let layer = layer.unwrap().quote_page(|_: &Parts, offer: &Offer| {
        Some(Response::new(Bytes::from(format!("{} {}", offer.quote.label, offer.quote.amount))))
    });
    let service = layered(&layer, echo(Counter::default()));
    let (_, _, body) = text(ask(&service, navigation("/twelve-pages")).await).await;
    assert_eq!(body, "/twelve-pages 120000");
}
