//! The ordinary way: quote, payment, answer, once.

use axum::body::Body;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Request;

use crate::support::{Counter, PRICE, Shop, ask, assert_problem, echo, intent_of, layered, post, read, redemption};

#[tokio::test]
async fn a_quote_a_payment_an_answer_once() {
    let shop = Shop::open().await;
    let counter = Counter::default();
    let service = layered(&shop.merchant.charge("answer", PRICE).unwrap(), echo(counter.clone()));

    let quote = ask(&service, post(r#"{"query":"why"}"#)).await;
    let intent = intent_of(&quote);
    assert_problem(quote, 402, "payment_required").await;
    assert_eq!(counter.runs(), 0);

    let tx = shop.pay(490_000);
    let answer = ask(&service, redemption(&intent, tx)).await;
    assert_eq!(answer.headers()["cache-control"], "private, no-store");
    let taken: serde_json::Value =
        serde_json::from_slice(&STANDARD.decode(&answer.headers()["payment-response"]).unwrap()).unwrap();
    assert_eq!(taken["amount"], "490000");
    assert_eq!(taken["transaction"], tx.to_string());
    assert_eq!(answer.headers()["x-paid"], format!("eip155:8453/{tx}/0").as_str());
    let (status, body) = read(answer).await;
    assert_eq!((status.as_u16(), body["query"].as_str()), (200, Some("why")));

    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    let other = intent_of(&ask(&service, post("{}")).await);
    assert_problem(ask(&service, redemption(&other, tx)).await, 409, "tx_already_used").await;
    assert_eq!(counter.runs(), 1);
}

#[tokio::test]
async fn a_redemption_in_the_header_leaves_the_body_alone() {
    let shop = Shop::open().await;
    let service = layered(&shop.merchant.charge("answer", PRICE).unwrap(), echo(Counter::default()));
    let intent = intent_of(&ask(&service, post("{}")).await);
    let proof = format!(r#"{{"intentId":"{intent}","txHash":"{}"}}"#, shop.pay(490_000));
    let request = Request::post("/answer").header("x402-payment", proof).body(Body::from("not json {")).unwrap();
    let (status, body) = read(ask(&service, request).await).await;
    assert_eq!((status.as_u16(), body.as_str()), (200, Some("not json {")));
}
