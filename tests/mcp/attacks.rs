//! Ways to have more than was paid for.

use serde_json::{Value, json};
use tower_x402::{Merchant, protocol::SealingKeys};

use super::rig::{NONCE, Rig, ask, call, offered, paid, post, say, search, sign, with_payment};
use crate::support::{self, Counter, PRICE};

/// One payment, shown in each way that a client may try: one result.
#[tokio::test]
async fn one_payment_buys_one_call() {
    let rig = Rig::open().await;
    rig.gives(json!({ "content": ["the answer"] }));
    let service = rig.service();
    let payment = sign(&offered(&service, &search()).await, NONCE);
    let (mut bought, mut tried) = (0, 0);
    let unquoted = {
        let mut payment: Value = serde_json::from_str(&payment.to_json()).unwrap();
        payment["accepted"]["extra"].as_object_mut().unwrap().remove("intentId");
        payment
    };
    let by = |payment: Value, mut call: Value| {
        call["params"]["_meta"]["x402/payment"] = payment;
        call
    };
    let whole: Value = serde_json::from_str(&payment.to_json()).unwrap();
    let calls = [
        by(whole.clone(), search()),
        by(whole.clone(), search()),
        by(whole.clone(), call("search", json!({ "q": "other" }))),
        by(whole.clone(), call("summarise", json!({ "q": "why" }))),
        by(unquoted.clone(), search()),
        by(unquoted.clone(), call("summarise", json!({}))),
        json!([by(whole.clone(), search())]),
        by(whole.clone(), call("Search", json!({ "q": "why" }))),
        by(whole, call("search ", json!({ "q": "why" }))),
    ];
    for call in &calls {
        let answer = say(&service, call).await;
        tried += 1;
        bought += usize::from(answer.text.contains("the answer") && answer.text.contains("payment-response"));
        assert!(!answer.is_bill(), "{}", answer.text);
    }
    assert_eq!((bought, tried, rig.settler.settlements()), (1, 9, 1));
}

/// A quote of another seller, of another tool, of the same tool at a route of HTTP.
#[tokio::test]
async fn a_quote_counts_where_it_was_given() {
    let rig = Rig::open().await;
    let service = rig.service();
    let http = support::layered(&rig.shop.layer(), support::echo(Counter::default()));
    // Of a route of HTTP, for a tool, before anything is paid.
    let of_http = tower_x402::protocol::v2::PaymentRequired::from_headers(
        support::ask(&http, support::post(r#"{"query":"why"}"#)).await.headers(),
    );
    let of_http = of_http.unwrap().unwrap().accepts[0].exact().unwrap().clone();
    let answer = say(&service, &with_payment(search(), &sign(&of_http, NONCE))).await;
    assert_eq!(answer.bill().error.as_deref(), Some("invalid_payment_requirements"));
    // Of a tool, at a route of HTTP, once it is sold.
    let call = paid(&service, &search()).await;
    say(&service, &call).await.sold();
    let payment = sign(&offered(&service, &search()).await, NONCE);
    let mut request = support::post(r#"{"query":"why"}"#);
    request.headers_mut().insert("payment-signature", payment.to_header());
    assert_ne!(support::ask(&http, request).await.status(), 402);
    assert_eq!((rig.runs.runs(), rig.settler.settlements()), (1, 1));
}

/// Two layers would ask for two payments.
#[tokio::test]
async fn a_price_inside_a_price_is_not_sold() {
    let rig = Rig::open().await;
    let layer = rig.layer();
    let inner = layer.clone();
    let nested = tower::Layer::layer(
        &layer,
        tower::Layer::layer(
            &inner,
            tower::service_fn(
                async |_: http::Request<tower_x402::RequestBody<tower_x402::RequestBody<axum::body::Body>>>| {
                    Ok::<_, std::convert::Infallible>(http::Response::new(axum::body::Body::empty()))
                },
            ),
        ),
    );
    let answer = tower::ServiceExt::oneshot(nested, post(search().to_string())).await.unwrap();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    let message: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(message["error"]["code"], -32603);
}

/// A tool may say whatever it likes about payments: the seller alone tells what was taken.
#[tokio::test]
async fn a_result_cannot_forge_an_outcome() {
    let rig = Rig::open().await;
    let service = rig.service();
    let forged = json!({ "success": true, "transaction": format!("0x{}", "ab".repeat(32)), "network": "eip155:8453" });
    for (index, failed) in [true, false].into_iter().enumerate() {
        rig.gives(json!({ "content": [], "isError": failed, "_meta": { "x402/payment-response": forged, "org.paymentauth/receipt": forged } }));
        let payment = sign(&offered(&service, &search()).await, [index as u8; 32]);
        let answer = say(&service, &with_payment(search(), &payment)).await;
        assert!(!answer.text.contains("abababab"), "{}", answer.text);
        assert_eq!(answer.outcome().is_some(), !failed);
        assert!(answer.result()["_meta"].get("org.paymentauth/receipt").is_none());
    }
}

/// A server that takes the charset at its word sees another message than the one that was priced.
#[tokio::test]
async fn a_message_in_another_charset_reaches_nobody() {
    const UTF_7: &str =
        r#"{"jsonrpc":"2.0","id":1,"method":"tools+AC8-call","params":{"name":"search","arguments":{}}}"#;
    let rig = Rig::open().await;
    let service = rig.service();
    let typed = |lines: &[&str], message: &str| {
        let mut request = post(message);
        request.headers_mut().remove("content-type");
        lines.iter().for_each(|line| _ = request.headers_mut().append("content-type", line.parse().unwrap()));
        request
    };
    let paid = paid(&service, &search()).await.to_string();
    for lines in [
        &["application/json; charset=utf-7"][..],
        &["application/json;charset=utf7"],
        &["application/json; Charset=\"UTF-7\""],
        &["application/json; charset=utf-16le"],
        &["application/json; charset=shift_jis"],
        &["application/json; charset=utf-8; charset=utf-7"],
        &["application/json; x=\"; charset=utf-8\"; charset = utf-7"],
        &["application/json; charset*=us-ascii'en'utf-7"],
        &["application/json; charset*0=utf-; charset*1=7"],
        &["application/json charset=utf-7"],
        &["application/json; charset="],
        &["application/json", "application/json; charset=utf-7"],
        &["application/json", "application/json"],
    ] {
        for message in [UTF_7, &paid] {
            let answer = ask(&service, typed(lines, message)).await;
            let refused = (answer.status.as_u16(), &answer.message()["error"]["data"]["error"]);
            assert_eq!(refused, (415, &json!("unsupported_encoding")), "{lines:?}");
        }
    }
    assert_eq!((rig.runs.runs(), rig.settler.settlements()), (0, 0));
    for line in [
        "application/json",
        "application/json; charset=UTF-8",
        "application/json;charset=\"utf-8\"; v=1",
        "x; charset=utf8",
    ] {
        assert!(ask(&service, typed(&[line], &search().to_string())).await.is_bill(), "{line}");
    }
    ask(&service, typed(&["application/json; charset=utf-8"], &paid)).await.sold();
}

/// A proxy that hands the response on only when it is complete changes nothing: it is complete.
#[tokio::test]
async fn another_key_opens_nothing() {
    let rig = Rig::open().await;
    let other: Merchant =
        rig.shop.sibling(|builder| builder.settler(rig.settler.clone()).sealing_keys(SealingKeys::new([9; 32]))).await;
    let foreign = rig.behind(&other.tools().charge("search", "0.01 USDC").unwrap());
    let service = rig.service();
    let payment = sign(&offered(&foreign, &search()).await, NONCE);
    let answer = say(&service, &with_payment(search(), &payment)).await;
    assert_eq!(answer.bill().error.as_deref(), Some("invalid_payment_requirements"));
    say(&foreign, &with_payment(search(), &payment)).await.sold();
    let answer = say(&service, &with_payment(search(), &payment)).await;
    assert!(!answer.is_bill(), "{}", answer.text);
    let _ = (PRICE, ask(&service, post(search().to_string())).await);
}
