//! Answers whose body decides whether they are sold.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tower_x402::{Consumption, Redelivery, X402Layer, json_rpc_succeeded};

use crate::support::{
    Counter, PRICE, Shop, answering, ask, assert_problem, layered, quoted, read, redemption, with_status,
};

const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"42"}]}}"#;
const TOOL_FAILED: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":true}}"#;
const ERROR: &str = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no such method"}}"#;

/// An answer of 200 in several pieces.
fn json(content_type: &'static str, body: &str) -> Response<Body> {
    let pieces: Vec<_> =
        body.as_bytes().chunks(7).map(|piece| Ok::<_, String>(Bytes::copy_from_slice(piece))).collect();
    let mut response = Response::new(Body::from_stream(futures_util::stream::iter(pieces)));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The answer's body, and whether it was sold, as payer and ledger see it.
async fn sells(
    shop: &Shop,
    layer: &X402Layer,
    answer: impl Fn() -> Response<Body> + Clone + Send + 'static,
) -> (serde_json::Value, bool) {
    let service = layered(layer, answering(Counter::default(), move |_| answer()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let first = ask(&service, redemption(&intent, tx)).await;
    let sold = first.headers().contains_key("payment-response");
    let body = read(first).await.1;
    let again = ask(&service, redemption(&intent, tx)).await;
    match sold {
        true => drop(assert_problem(again, 409, "already_consumed").await),
        false => assert_eq!(read(again).await.1, body, "the pair is free at once"),
    }
    (body, sold)
}

#[tokio::test]
async fn failed_json_rpc_calls_are_not_sold() {
    let shop = Shop::open().await;
    let layer = shop.layer().consume_when_body(json_rpc_succeeded);
    let deep = format!(r#"{{"id":{}{},"result":{{}}}}"#, "[".repeat(200), "]".repeat(200));
    let deep: &'static str = deep.leak();
    for (body, sold) in [
        (RESULT, true),
        (TOOL_FAILED, false),
        (ERROR, false),
        (r#"{"id":"\ud800","error":{"code":1}}"#, false),
        // A client chooses its id, and gets it back.
        (r#"{"jsonrpc":"2.0","id":"\ud800","result":{}}"#, true),
        (r#"{"jsonrpc":"2.0","id":1e999,"result":{}}"#, true),
        (deep, true),
        (r#"[{"id":1,"result":{}},{"id":"\ud800","result":1}]"#, true),
        (r#"{"id":1,"result":{"x":{"$serde_json::private::RawValue":7}}}"#, true),
        (r#"{"id":1,"result":{"x":NaN}}"#, true),
    ] {
        let answer = move || json("application/json", body);
        let told = serde_json::from_str(body).unwrap_or_else(|_| body.into());
        assert_eq!(sells(&shop, &layer, answer).await, (told, sold), "{body}");
        let stream = format!("id: 0\ndata:\n\nevent: message\ndata: {body}\n\n");
        let event = stream.clone();
        let answer = move || json("text/event-stream", &event);
        assert_eq!(sells(&shop, &layer, answer).await, (stream.into(), sold));
    }
}

/// Without the rule the status decides, and a failed call has 200.
#[tokio::test]
async fn the_head_alone_sells_a_failed_call() {
    let shop = Shop::open().await;
    assert!(sells(&shop, &shop.layer(), || json("application/json", TOOL_FAILED)).await.1);
}

/// What the rule about heads does not sell is not sold, and is not read either.
#[tokio::test]
async fn both_rules_must_sell() {
    let shop = Shop::open().await;
    let layer = shop.layer().consume_when_body(|status, headers, body| {
        assert_ne!(status, 500, "the rule is asked about what the head sells");
        headers.contains_key(header::CONTENT_TYPE) && !body.is_empty()
    });
    let failed = || {
        let mut response = json("text/plain", "failed");
        *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
        response
    };
    assert!(!sells(&shop, &layer, failed).await.1);
    assert!(sells(&shop, &layer, || json("text/plain", "an answer")).await.1);
    assert!(!sells(&shop, &layer, || with_status(200)).await.1);
}

#[tokio::test]
async fn the_handlers_word_overrides_the_rule_about_bodies() {
    let shop = Shop::open().await;
    let layer = shop.layer().consume_when_body(json_rpc_succeeded);
    for (body, word, sold) in [(TOOL_FAILED, Consumption::Consume, true), (RESULT, Consumption::Keep, false)] {
        let answer = move || {
            let mut response = json("application/json", body);
            response.extensions_mut().insert(word);
            response
        };
        assert_eq!(sells(&shop, &layer, answer).await.1, sold, "{word:?}");
    }
}

/// Neither sold nor given away: whoever asks for too much would otherwise pay for a failure, or get an answer for nothing.
#[tokio::test]
async fn an_answer_too_large_to_judge_is_withheld() {
    let shop = Shop::open().await;
    let limit = RESULT.len();
    let exact = shop.layer().consume_when_body(json_rpc_succeeded).answer_limit(limit).unwrap();
    assert!(sells(&shop, &exact, || json("application/json", RESULT)).await.1);
    let layer = exact.answer_limit(limit - 1).unwrap();
    let announced = || Response::new(Body::from(RESULT));
    for answer in [announced as fn() -> Response<Body>, || json("application/json", RESULT)] {
        let counter = Counter::default();
        let service = layered(&layer, answering(counter.clone(), move |_| answer()));
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        assert_problem(ask(&service, redemption(&intent, tx)).await, 502, "answer_too_large").await;
        assert_eq!(counter.runs(), 1);
        // The payment is free, for an answer that fits.
        let small =
            layered(&layer.clone().answer_limit(limit).unwrap(), answering(Counter::default(), move |_| answer()));
        let answer = ask(&small, redemption(&intent, tx)).await;
        assert!(answer.headers().contains_key("payment-response"));
    }
    assert!(shop.layer().answer_limit(0).is_err());
}

/// The wait for the body is part of the longest hold.
#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_end_is_not_sold() {
    let shop = Shop::open_with(|builder| builder.max_hold(Duration::from_secs(60))).await;
    let layer = shop.layer().consume_when_body(|_, _, _| true);
    let endless = || {
        let first = futures_util::stream::iter([Ok::<_, String>(Bytes::from("data: 1\n\n"))]);
        Response::new(Body::from_stream(futures_util::StreamExt::chain(first, futures_util::stream::pending())))
    };
    let service = layered(&layer, answering(Counter::default(), move |_| endless()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let began = tokio::time::Instant::now();
    assert_problem(ask(&service, redemption(&intent, tx)).await, 504, "answer_timeout").await;
    assert_eq!(began.elapsed().as_secs(), 60);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_sold_by_its_beginning() {
    let shop = Shop::open().await;
    let layer = shop.layer().consume_when_body(|_, _, _| true);
    let broken = || {
        let pieces = [Ok(Bytes::from(RESULT)), Err("broke")];
        Response::new(Body::from_stream(futures_util::stream::iter(pieces)))
    };
    let service = layered(&layer, answering(Counter::default(), move |_| broken()));
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    assert_problem(ask(&service, redemption(&intent, tx)).await, 502, "answer_broken").await;
}

#[tokio::test]
async fn trailers_reach_the_payer_behind_a_body_that_was_judged() {
    let shop = Shop::open().await;
    for sold in [true, false] {
        let layer = shop.layer().consume_when_body(move |_, _, _| sold);
        let answer = || {
            let trailers = HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("end"))]);
            let frames = [Ok::<_, String>(Frame::data(Bytes::from("body"))), Ok(Frame::trailers(trailers))];
            Response::new(Body::new(StreamBody::new(futures_util::stream::iter(frames))))
        };
        let service = layered(&layer, answering(Counter::default(), move |_| answer()));
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        let answer = ask(&service, redemption(&intent, tx)).await;
        assert_eq!(answer.headers().contains_key("payment-response"), sold);
        let collected = answer.into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["etag"], "end");
        assert_eq!(collected.to_bytes(), "body");
    }
}

/// What is judged and sold is kept as any other answer; what is not sold is not kept.
#[tokio::test]
async fn judged_answers_are_delivered_again() {
    let shop = Shop::open().await;
    for (limit, kept) in [(RESULT.len(), true), (RESULT.len() - 1, false)] {
        let layer = shop.merchant.charge("answer", PRICE).unwrap().consume_when_body(json_rpc_succeeded);
        let layer = layer.redeliver(Redelivery::default().up_to(limit));
        let counter = Counter::default();
        let runs = counter.clone();
        let answer = move |_: &_| json("application/json", if runs.runs() == 1 { TOOL_FAILED } else { RESULT });
        let service = layered(&layer, answering(counter.clone(), answer));
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        let failed = ask(&service, redemption(&intent, tx)).await;
        assert_eq!(read(failed).await.1["result"]["isError"], true);
        let first = read(ask(&service, redemption(&intent, tx)).await).await;
        assert_eq!(first.1["id"], 1);
        let again = ask(&service, redemption(&intent, tx)).await;
        match kept {
            true => assert_eq!(read(again).await, first),
            false => drop(assert_problem(again, 409, "already_consumed").await),
        }
        assert_eq!(counter.runs(), 2);
    }
}
