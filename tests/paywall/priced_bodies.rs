//! Bodies whose price follows from what they say: the handler reads the request that was priced, wherever the proof is.

use axum::body::Body;
use http::{Request, header};
use tower_x402::{Price, X402, X402Layer, protocol::Amount};

use crate::support::{Counter, Handler, Shop, ask, assert_problem, echo, intent_of, layered, proof};

const SMALL: &str = r#"{"model":"small"}"#;
/// What a layer behind the paywall, or an upstream, makes into other text than the closure sees.
const ZIPPED: [u8; 4] = [0x1f, 0x8b, 8, 0];

/// A large model is dear; anything else is cheap.
fn by_model(shop: &Shop, resource: &str) -> X402Layer {
    let price = |body: &[u8]| {
        let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        Amount::from_base_units(if body["model"] == "large" { 490_000 } else { 1_000 })
    };
    shop.merchant.price_with(resource, move |_, body| Price::Charge(price(body))).unwrap()
}

fn send(content_type: &str, encoding: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post("/answer").header(header::CONTENT_TYPE, content_type);
    request.header(header::CONTENT_ENCODING, encoding).body(body.into()).unwrap()
}

fn paid(paid: &str, mut request: Request<Body>) -> Request<Body> {
    request.headers_mut().insert("x402-payment", paid.parse().unwrap());
    request
}

/// A proof in the header, by a transfer of the cheap price.
async fn cheap(shop: &Shop, service: &X402<impl Handler>) -> String {
    let quote = ask(service, send("application/json", "identity", SMALL)).await;
    proof(&intent_of(&quote), shop.pay(1_000))
}

/// A layer behind the paywall inflates what the closure saw compressed: a dear request for the price of one that cannot be read.
#[tokio::test]
async fn a_compressed_body_buys_nothing_where_its_price_follows_from_it() {
    let shop = Shop::open().await;
    let layer = by_model(&shop, "models");
    for layer in [layer.clone(), layer.header_only()] {
        let counter = Counter::default();
        let service = layered(&layer, echo(counter.clone()));
        let cheap = cheap(&shop, &service).await;
        for content_type in ["application/json", "application/problem+json", "application/x-www-form-urlencoded"] {
            for encoding in ["gzip", "br", "identity, gzip", "x-unknown"] {
                let request = || send(content_type, encoding, ZIPPED.to_vec());
                // Where the proof is changes nothing, so the header is no way out.
                for request in [request(), paid(&cheap, request())] {
                    let told = assert_problem(ask(&service, request).await, 415, "unsupported_encoding").await;
                    assert_eq!(told["detail"], "Send the body uncompressed.");
                }
            }
        }
        assert_eq!(counter.runs(), 0);
        // Nothing is compressed where there is nothing.
        assert_eq!(ask(&service, paid(&cheap, send("application/json", "gzip", ""))).await.status(), 200);
    }
}

/// Other types are priced as they were sent, and a price that no body changes takes any.
#[tokio::test]
async fn a_compressed_body_is_sold_where_its_text_decides_nothing() {
    let (shop, counter) = (Shop::open().await, Counter::default());
    let service = layered(&by_model(&shop, "models"), echo(counter.clone()));
    let cheap = cheap(&shop, &service).await;
    let answer = ask(&service, paid(&cheap, send("application/octet-stream", "gzip", ZIPPED.to_vec()))).await;
    assert_eq!(answer.status(), 200);
    let metered = shop.merchant.charge_up_to("metered", "0.49 USDC").unwrap().or_fixed().header_only();
    let answer =
        ask(&layered(&metered, echo(counter.clone())), send("application/json", "gzip", ZIPPED.to_vec())).await;
    assert_problem(answer, 402, "payment_required").await;
}

/// The handler may take bytes for JSON that the closure could not read.
#[tokio::test]
async fn what_is_no_json_in_utf_8_buys_nothing_where_its_price_follows_from_it() {
    let shop = Shop::open().await;
    let layer = by_model(&shop, "models");
    let utf_16 = r#"{"model":"large"}"#.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let marked = "\u{feff}{\"model\":\"large\"}".as_bytes().to_vec();
    let not_text = b"{\"model\":\"large\",\"note\":\"\xff\"}".to_vec();
    let broken: [Vec<u8>; 5] =
        [utf_16, marked, not_text, b"{\"model\":\"large\",}".to_vec(), b"{'model':'large'}".to_vec()];
    for layer in [layer.clone(), layer.header_only()] {
        let counter = Counter::default();
        let service = layered(&layer, echo(counter.clone()));
        let cheap = cheap(&shop, &service).await;
        for body in &broken {
            let request = || send("application/json", "identity", body.clone());
            assert_problem(ask(&service, request()).await, 400, "invalid_body").await;
            assert_problem(ask(&service, paid(&cheap, request())).await, 400, "invalid_body").await;
        }
        assert_eq!(counter.runs(), 0);
        assert_eq!(ask(&service, paid(&cheap, send("application/json", "identity", SMALL))).await.status(), 200);
    }
    let fixed = layered(&shop.layer(), echo(Counter::default()));
    let quote = ask(&fixed, send("application/json", "identity", SMALL)).await;
    let good = proof(&intent_of(&quote), shop.pay(490_000));
    let answer = ask(&fixed, paid(&good, send("application/json", "identity", broken[0].clone()))).await;
    assert_eq!(answer.status(), 200, "at a fixed price it is not looked at");
}
