//! What the service behind the layer sees of a proof of payment.

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use serde_json::json;
use tower_x402::{RequestBody, X402Layer};

use crate::support::{Handler, Shop, ask, by_header, intent_of, layered, post, quoted, read, redemption};

/// A service that answers with the request that it saw: headers as `Debug` shows them, and the body.
fn mirror() -> impl Handler {
    tower::service_fn(|request: Request<RequestBody<Body>>| async move {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let headers = format!("{:?}", parts.headers);
        let length = parts.headers.get(header::CONTENT_LENGTH).map(|length| length.to_str().unwrap().to_owned());
        let names: Vec<_> = parts.headers.keys().map(ToString::to_string).collect();
        let seen =
            json!({ "headers": headers, "names": names, "length": length, "body": String::from_utf8_lossy(&body) });
        Ok(Response::new(Body::from(seen.to_string())))
    })
}

async fn seen(
    layer: &X402Layer,
    shop: &Shop,
    request: impl FnOnce(&str, tower_x402::protocol::TxHash) -> Request<Body>,
) -> serde_json::Value {
    let service = layered(layer, mirror());
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let (status, seen) = read(ask(&service, request(&intent, tx)).await).await;
    assert_eq!(status, 200, "{seen}");
    assert!(!seen["headers"].as_str().unwrap().contains(&intent), "{seen}");
    seen
}

#[tokio::test]
async fn a_proof_in_the_header_is_marked_sensitive() {
    let shop = Shop::open().await;
    let seen = seen(&shop.layer(), &shop, |intent, tx| by_header("GET", intent, tx)).await;
    assert!(seen["headers"].as_str().unwrap().contains(r#""x402-payment": Sensitive"#), "{seen}");
}

#[tokio::test]
async fn a_stripped_request_has_no_proof_in_its_header() {
    let shop = Shop::open().await;
    let layer = shop.layer().strip_proof();
    let body = r#"{"txHash": "the service's own"}"#;
    let request = |intent: &str, tx| by_header("POST", intent, tx).map(|_| Body::from(body));
    let seen = seen(&layer, &shop, request).await;
    assert_eq!(seen["names"], json!([]));
    assert_eq!(seen["body"], body, "beside a proof in the header, members of the body mean nothing");
}

#[tokio::test]
async fn a_stripped_request_has_no_proof_in_its_body() {
    let shop = Shop::open().await;
    for (bound, digested) in
        [(false, shop.layer()), (true, shop.layer().bind_request())].map(|(bound, layer)| (bound, layer.strip_proof()))
    {
        let request = |intent: &str, tx: tower_x402::protocol::TxHash| {
            let body = match bound {
                true => format!(r#"{{"query":"why","txHash":"{tx}","intentId":"{intent}"}}"#),
                false => format!(
                    r#"{{ "b": 1.50 , "intentId":"{intent}", "query" : {{"txHash": "1e400", "\u0041":[ ]}},"txH\u0061sh":"{tx}","paymentSecret":null,"a":"\u00e9"}}"#
                ),
            };
            let mut request = post(body.clone());
            request.headers_mut().insert(header::CONTENT_LENGTH, body.len().into());
            request.headers_mut().insert("content-digest", "sha-256=:AA==:".parse().unwrap());
            request
        };
        let seen = seen(&digested, &shop, request).await;
        let expected = match bound {
            true => r#"{"query":"why"}"#,
            false => r#"{"b":1.50,"query":{"txHash": "1e400", "\u0041":[ ]},"a":"\u00e9"}"#,
        };
        assert_eq!(seen["body"], expected);
        assert_eq!(seen["length"], expected.len().to_string());
        assert_eq!(seen["names"], json!(["content-type", "content-length"]));
    }
}

/// A proof may come alone in its body.
#[tokio::test]
async fn nothing_but_a_proof_leaves_an_empty_object() {
    let shop = Shop::open().await;
    let request = |intent: &str, tx| post(format!(r#"{{"intentId":"{intent}","txHash":"{tx}"}}"#));
    assert_eq!(seen(&shop.layer().strip_proof(), &shop, request).await["body"], "{}");
}

#[tokio::test]
async fn the_handler_sees_the_original_bytes_unless_they_are_stripped() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer(), mirror());
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let body = redemption(&intent, tx).into_body().collect().await.unwrap().to_bytes();
    let seen = read(ask(&service, redemption(&intent, tx)).await).await.1;
    assert_eq!(seen["body"], std::str::from_utf8(&body).unwrap());
    // On a route that reads proofs in the header only, the members are the service's own.
    let layer = shop.layer().header_only().strip_proof();
    let service = layered(&layer, mirror());
    let quote = ask(&service, post("{}")).await;
    let proof = by_header("POST", &intent_of(&quote), shop.pay(490_000));
    let request = proof.map(|_| Body::from(Bytes::from_static(br#"{"intentId":"ours"}"#)));
    assert_eq!(read(ask(&service, request).await).await.1["body"], r#"{"intentId":"ours"}"#);
}

#[tokio::test]
async fn free_requests_are_stripped_too() {
    let shop = Shop::open().await;
    let free = [
        shop.layer().free_when(|_, _, _| true),
        shop.layer().free_when_async(|_| async { true }),
        shop.merchant.price_with("free", |_, _| tower_x402::Price::Free).unwrap(),
    ];
    for layer in free {
        let service = layered(&layer.strip_proof(), mirror());
        let mut request = by_header("GET", "an-intent", shop.pay(490_000));
        request.headers_mut().insert("accept", "*/*".parse().unwrap());
        let seen = read(ask(&service, request).await).await.1;
        assert_eq!(seen["names"], json!(["accept"]));
    }
}
