//! Passes at tools: paid for once, shown in the message, and never shown to the tool.

use axum::body::Body;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use tower_x402::{
    BuildError, Pass,
    client::{PaidTools, PayLayer},
    protocol::Amount,
};

use super::rig::{NONCE, Rig, Service, ask, call, json_reply, offered, post, result, say, search, sign, with_payment};
use crate::support::{Shop, intent_of, proof};

fn three(rig: &Rig) -> Pass {
    rig.shop.merchant.pass("three", "1 USDC").unwrap().calls(3).unwrap().at("/pass").unwrap()
}

async fn bought(shop: &Shop, pass: &Pass) -> String {
    let sells = pass.service().unwrap();
    let asks = |request: Request<Body>| sells.clone().oneshot(request);
    let quote: Response<_> = asks(Request::post("/pass").body(Body::empty()).unwrap()).await.unwrap();
    let paid = proof(&intent_of(&quote), shop.pay(1_000_000));
    let paid = Request::post("/pass").header("x402-payment", paid).body(Body::empty()).unwrap();
    let told = asks(paid).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    let told: Value = serde_json::from_slice(&told).unwrap();
    told["pass"].as_str().unwrap().to_owned()
}

fn with_pass(mut call: Value, token: impl Into<Value>) -> Value {
    call["params"]["_meta"]["x402/pass"] = token.into();
    call
}

async fn open() -> (Rig, Pass, String, Service) {
    let rig = Rig::open().await;
    let pass = three(&rig);
    let token = bought(&rig.shop, &pass).await;
    let service = rig.behind(&rig.layer().accept_pass("search", &pass).unwrap());
    (rig, pass, token, service)
}

#[tokio::test]
async fn three_calls_by_pass_are_three_results() {
    let (rig, _, token, service) = open().await;
    rig.gives(json!({ "content": [], "_meta": { "own": 1, "x402/pass": { "remaining": "99" } } }));
    for left in ["2", "1", "0"] {
        let answer = say(&service, &with_pass(search(), &*token)).await;
        assert_eq!(answer.result()["_meta"], json!({ "own": 1, "x402/pass": { "remaining": left } }));
        assert_eq!(answer.headers["cache-control"], "private, no-store");
    }
    let seen = rig.last();
    assert!(!seen.text.contains("x402/pass") && !seen.headers.contains_key("x402-pass"), "the tool sees no pass");
    assert_eq!(seen.receipt.unwrap().pass().unwrap().number, 3);
    // Used up: a bill, which says so.
    let answer = say(&service, &with_pass(search(), &*token)).await;
    assert_eq!(answer.result()["_meta"]["x402/pass"]["state"], "used_up");
    assert_eq!((answer.offer().amount.to_string(), rig.runs.runs()), ("10000".to_owned(), 3));
    // Every bill names the passes that count, and only there.
    let named = say(&service, &search()).await;
    assert_eq!(named.result()["_meta"]["x402/passes"][0]["url"], "/pass");
    assert!(say(&service, &call("summarise", json!({}))).await.result().get("_meta").is_none());
}

#[tokio::test]
async fn a_tool_that_fails_costs_no_call() {
    let (rig, pass, token, service) = open().await;
    for failure in [json!({ "content": [], "isError": true }), json!({ "resultType": "input_required" })] {
        rig.gives(failure.clone());
        assert_eq!(say(&service, &with_pass(search(), &*token)).await.result(), &failure);
    }
    rig.plays(|message| async move {
        json_reply(json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32603, "message": "no" } }))
    });
    assert_eq!(say(&service, &with_pass(search(), &*token)).await.message()["error"]["code"], -32603);
    // A bill of the tool's own is never handed on.
    rig.gives(json!({ "isError": true, "structuredContent": { "x402Version": 2, "accepts": [] } }));
    assert_eq!(say(&service, &with_pass(search(), &*token)).await.refused(), "upstream_payment_required");
    let account = pass.account(&token).await.unwrap().unwrap();
    assert!(account.spent.is_zero() && account.held.is_zero() && account.drawn == 4, "{account:?}");
}

#[tokio::test]
async fn what_is_no_pass_here_is_refused_without_a_bill() {
    let (rig, pass, token, service) = open().await;
    for wrong in [json!("x402p_AAAA"), json!(""), json!(7), json!({}), json!("\u{7f}")] {
        assert_eq!(say(&service, &with_pass(search(), wrong)).await.refused(), "invalid_pass");
    }
    // On another tool, and closed.
    assert_eq!(say(&service, &with_pass(call("summarise", json!({})), &*token)).await.refused(), "invalid_pass");
    let _ = pass.close(&token).await.unwrap();
    assert_eq!(say(&service, &with_pass(search(), &*token)).await.refused(), "invalid_pass");
    assert_eq!(rig.runs.runs(), 0);
    // `null` is none, and a header of the message's request means nothing.
    assert!(say(&service, &with_pass(search(), Value::Null)).await.is_bill());
    let mut request = post(search().to_string());
    request.headers_mut().insert("x402-pass", token.parse().unwrap());
    assert!(ask(&service, request).await.is_bill());
    // A tool without a price takes none.
    let layer = rig.shop.merchant.tools().charge("search", "0.01 USDC").unwrap();
    assert!(matches!(layer.accept_pass("other", &pass), Err(BuildError::ConflictingResource { .. })));
}

#[tokio::test]
async fn beside_a_payment_the_pass_stays_as_it_is() {
    let (rig, pass, token, service) = open().await;
    let offer = offered(&service, &search()).await;
    let both = with_pass(with_payment(search(), &sign(&offer, NONCE)), &*token);
    say(&service, &both).await.sold();
    assert_eq!(rig.settler.settlements(), 1);
    assert_eq!(pass.account(&token).await.unwrap().unwrap().drawn, 0);
}

#[tokio::test]
async fn a_client_shows_its_pass_with_each_call() {
    let (rig, pass, token, service) = open().await;
    let layer = PayLayer::redeem_only().build().await.unwrap();
    let tools = PaidTools::new(&layer, "http://127.0.0.1:4020/mcp", move |params: Value| {
        let service = service.clone();
        async move {
            let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
            Ok(say(&service, &message).await.result().clone())
        }
    });
    let tools = tools.unwrap().with_pass(&token).unwrap();
    rig.plays(|message| async move { json_reply(result(&message, json!({ "content": [] }))) });
    for left in ["2", "1", "0"] {
        let called = tools.call("search", json!({ "q": "why" })).await.unwrap();
        assert_eq!((called.pass_remaining.as_deref(), called.purchase.is_none()), (Some(left), true));
    }
    assert_eq!(pass.account(&token).await.unwrap().unwrap().spent, Amount::from_base_units(3));
    assert!(tools.call("search", json!({ "q": "why" })).await.is_err(), "it is billed, and this client has no money");
    assert!(!format!("{tools:?}").contains(&token));
}
