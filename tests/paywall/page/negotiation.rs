//! Who gets the page, and what the answer has in any case.

use http::{HeaderMap, Request};
use tower_x402::{
    page::Page,
    protocol::{Quote, v2::PaymentRequired},
    testing::ScriptedSettler,
};

use super::{CHROME, get, navigation, text, varying};
use crate::support::{Counter, Shop, ask, echo, layered, post};

fn is_page(headers: &HeaderMap) -> bool {
    headers["content-type"] == "text/html; charset=utf-8"
}

/// What differs from quote to quote, and what belongs to the body, left out.
fn payment(headers: &HeaderMap) -> Vec<(String, String)> {
    let body = ["content-type", "content-length", "content-security-policy", "vary"];
    let page = ["x-content-type-options", "x-frame-options", "referrer-policy"];
    let named = headers.iter().filter(|(name, _)| {
        !body.contains(&name.as_str()) && !page.contains(&name.as_str()) && !name.as_str().starts_with("cross-origin")
    });
    let mut all: Vec<_> = named
        .map(|(name, value)| {
            let changes = ["x-price-intent", "payment-required"].contains(&name.as_str());
            (name.to_string(), if changes { "…".to_owned() } else { value.to_str().unwrap().to_owned() })
        })
        .collect();
    all.sort();
    all
}

#[tokio::test]
async fn a_browser_that_opens_a_page_gets_one_with_the_same_status_and_payment_headers() {
    let shop = Shop::open_on(|builder, chain| builder.settler(ScriptedSettler::new(chain.clone()))).await;
    let service = layered(&shop.layer().page(Page::new()), echo(Counter::default()));
    let (status, page, document) = text(ask(&service, navigation("/answer")).await).await;
    assert!(is_page(&page) && document.starts_with("<!doctype html>"));
    let (json_status, json, body) = text(ask(&service, get("/answer")).await).await;
    assert!(json["content-type"] == "application/problem+json" && body.starts_with('{'));
    assert_eq!((status, json_status), (402, 402));
    assert_eq!(payment(&page), payment(&json));
    assert_eq!((varying(&page), varying(&json)), (vec!["Accept-Language", "Accept"], vec!["Accept"]));
    assert_eq!(
        (page["cache-control"].as_bytes(), page["x402-error"].as_bytes()),
        (&b"no-store"[..], &b"payment_required"[..])
    );
    assert_eq!(page["content-length"], document.len().to_string().as_str());
    // The page is about the very quote of its headers, in both dialects.
    let (quote, told) = (Quote::from_headers(&page).unwrap(), super::data(&document));
    assert_eq!(told["intent"], quote.intent.as_str());
    assert_eq!(told["expiry"], quote.expiry.unix());
    let required = PaymentRequired::from_headers(&page).unwrap().unwrap();
    assert_eq!(told["chains"][0]["signed"]["accepted"], serde_json::to_value(&required.accepts[0]).unwrap());
}

#[tokio::test]
async fn head_has_the_headers_of_get_and_no_body() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().page(Page::new()), echo(Counter::default()));
    let mut request = navigation("/answer");
    *request.method_mut() = http::Method::HEAD;
    let (status, head, body) = text(ask(&service, request).await).await;
    let (_, page, _) = text(ask(&service, navigation("/answer")).await).await;
    assert_eq!((status, body.as_str()), (402, ""));
    assert_eq!(payment(&head), payment(&page));
    for name in ["content-type", "content-length", "content-security-policy", "vary"] {
        assert_eq!(head[name], page[name], "{name}");
    }
}

#[tokio::test]
async fn who_does_not_open_a_page_gets_json() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().page(Page::new()), echo(Counter::default()));
    for (method, headers) in [
        ("GET", &[][..]),
        ("GET", &[("accept", "*/*")]),
        ("GET", &[("accept", "application/json, text/html")]),
        // A script of the page itself.
        ("GET", &[("accept", CHROME), ("sec-fetch-mode", "cors")]),
        ("GET", &[("accept", CHROME), ("sec-fetch-mode", "same-origin")]),
        ("POST", &[("accept", CHROME), ("sec-fetch-mode", "navigate")]),
        ("PUT", &[("accept", CHROME)]),
    ] {
        let mut request = Request::builder().method(method).uri("/answer");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (status, found, body) = text(ask(&service, request.body(axum::body::Body::empty()).unwrap()).await).await;
        assert_eq!(status, 402);
        assert!(!is_page(&found) && body.starts_with('{'), "{method} {headers:?}");
        assert_eq!(found["vary"], "Accept", "{method}: every 402 of the route says so");
    }
    // To gRPC it stays what it is.
    let grpc = Request::get("/answer").header("content-type", "application/grpc").header("accept", CHROME);
    let (status, found, body) = text(ask(&service, grpc.body(axum::body::Body::empty()).unwrap()).await).await;
    assert_eq!((status, found["content-type"].as_bytes(), body.as_str()), (200, &b"application/grpc"[..], ""));
}

#[tokio::test]
async fn a_route_without_a_page_answers_as_ever() {
    let shop = Shop::open_with(|builder| builder.page(Page::new())).await;
    let plain = Shop::open().await;
    for layer in [shop.layer().without_page(), plain.layer()] {
        let service = layered(&layer, echo(Counter::default()));
        for request in [navigation("/answer"), post(r#"{"query":"why"}"#)] {
            let (status, headers, body) = text(ask(&service, request).await).await;
            assert_eq!(status, 402);
            assert!(!headers.contains_key("vary") && !headers.contains_key("content-security-policy"));
            assert_eq!(headers["content-type"], "application/problem+json");
            assert!(body.starts_with('{'));
        }
    }
}

#[tokio::test]
async fn the_merchants_page_is_that_of_its_routes_unless_they_have_another() {
    let shop = Shop::open_with(|builder| builder.page(Page::new().title("The merchant's"))).await;
    let own = shop.merchant.charge("other", "1 USDC").unwrap().page(Page::new().title("The route's"));
    for (layer, title) in [(shop.layer(), "The merchant&#39;s"), (own, "The route&#39;s")] {
        let service = layered(&layer, echo(Counter::default()));
        let (_, headers, page) = text(ask(&service, navigation("/answer")).await).await;
        assert!(is_page(&headers) && page.contains(title), "{title}");
    }
}

/// A service whose chain is not there yet cannot quote, whoever asks.
#[tokio::test]
async fn what_is_no_quote_is_no_page() {
    let shop = Shop::open().await;
    let layer = shop.merchant.price_with("refused", |_, _| {
        tower_x402::Price::Refuse(http::Response::builder().status(404).body("nothing".into()).unwrap().into())
    });
    let service = layered(&layer.unwrap().page(Page::new()), echo(Counter::default()));
    let (status, headers, body) = text(ask(&service, navigation("/answer")).await).await;
    assert_eq!((status, body.as_str()), (404, "nothing"));
    assert!(!headers.contains_key("content-security-policy"));
}
