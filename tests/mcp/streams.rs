//! Servers that answer with event streams.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;
use tower_x402::testing::Settling;

use super::rig::{Rig, ask, event, event_reply, get, paid, post, result, say, search};

fn progress(step: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": 7, "progress": step } })
}

/// Events that come one by one.
fn one_by_one(events: Vec<String>) -> Body {
    Body::from_stream(stream::iter(events).then(|event| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok::<_, std::io::Error>(Bytes::from(event))
    }))
}

#[tokio::test(start_paused = true)]
async fn what_comes_before_the_result_is_there_at_once_and_the_result_is_sold() {
    let rig = Rig::open().await;
    let service = rig.service();
    let call = paid(&service, &search()).await;
    // The server has said all by then.
    rig.settler.delay(Duration::from_secs(2));
    rig.plays(|message| async move {
        let done = result(&message, json!({ "content": ["done"], "_meta": { "x402/payment-response": "forged" } }));
        let mut reply = event_reply(one_by_one(vec![
            "id: 0\nretry: 3000\ndata:\n\n".into(),
            event(&progress(1)),
            event(&progress(2)),
            event(&done),
        ]));
        reply.headers_mut().insert("payment-response", "forged".parse().unwrap());
        reply
    });
    let response = service.clone().oneshot(post(call.to_string())).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    assert_eq!(response.headers()["cache-control"], "private, no-store");
    assert!(!response.headers().contains_key("payment-response"));
    assert_eq!(rig.settler.settlements(), 0);
    let mut body = response.into_body();
    let mut next = async || {
        let frame = body.frame().await?.unwrap().into_data().unwrap();
        Some(String::from_utf8(frame.to_vec()).unwrap())
    };
    let mut seen = Vec::new();
    let mut settled = Vec::new();
    while let Some(frame) = next().await {
        if frame != ":\n\n" {
            settled.push(rig.settler.settlements());
            assert!(!frame.contains("id: "), "not resumable: {frame}");
            seen.push(frame);
        }
    }
    assert_eq!(settled, [0, 0, 1], "{seen:?}");
    assert_eq!(seen[0], format!("event: message\ndata: {}\n\n", progress(1)));
    let last: Value = serde_json::from_str(seen[2].lines().nth(1).unwrap().strip_prefix("data: ").unwrap()).unwrap();
    assert_eq!((&last["id"], &last["result"]["content"]), (&json!(1), &json!(["done"])));
    assert_eq!(last["result"]["_meta"]["x402/payment-response"]["success"], true);
}

/// A stream that has the result and nothing before it is one message to the client.
#[tokio::test]
async fn a_result_alone_is_plain_json() {
    let rig = Rig::open().await;
    let service = rig.service();
    let call = paid(&service, &search()).await;
    rig.plays(|message| async move { event_reply(event(&result(&message, json!({ "content": [] })))) });
    let answer = say(&service, &call).await;
    assert_eq!(answer.headers["content-type"], "application/json");
    answer.sold();
}

#[tokio::test]
async fn of_two_results_the_first_counts_and_others_are_not_handed_on() {
    let rig = Rig::open().await;
    let service = rig.service();
    for (index, (events, sold)) in [
        (
            vec![
                json!({ "id": "own", "result": { "content": ["first"] } }),
                json!({ "id": "own", "result": { "content": ["second"] } }),
            ],
            true,
        ),
        (
            vec![
                json!({ "id": "own", "result": { "content": ["first"], "isError": true } }),
                json!({ "id": "own", "result": { "content": ["second"] } }),
            ],
            false,
        ),
        (
            vec![
                progress(1),
                json!({ "id": "x402/other", "result": { "content": ["second"] } }),
                json!({ "id": "own", "result": { "content": ["first"] } }),
            ],
            true,
        ),
        (
            vec![
                progress(1),
                json!({ "id": 1, "result": { "content": ["second"] } }),
                json!({ "id": "own", "result": { "content": ["first"] } }),
            ],
            true,
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let quote = super::rig::offered(&service, &search()).await;
        let call = super::rig::with_payment(search(), &super::rig::sign(&quote, [index as u8; 32]));
        rig.plays(move |message| {
            let mut events = events.clone();
            events
                .iter_mut()
                .filter(|event| event["id"] == "own")
                .for_each(|event| event["id"] = message["id"].clone());
            async move { event_reply(events.iter().map(event).collect::<String>()) }
        });
        let answer = say(&service, &call).await;
        assert!(answer.text.contains("first") && !answer.text.contains("second"), "{index}: {}", answer.text);
        assert_eq!(answer.outcome().is_some(), sold, "{index}");
    }
}

/// A server that dies in the middle, one that never ends, one that says too much: nothing is sold, and the payment stays good.
#[tokio::test(start_paused = true)]
async fn a_stream_without_a_result_sells_nothing() {
    let rig = Rig::open().await;
    let service = rig.behind(&rig.layer().answer_limit(10_000).unwrap());
    let call = paid(&service, &search()).await;
    type Made = fn() -> Body;
    let cases: [(&str, Made); 5] = [
        ("answer_broken", || Body::from(event(&progress(1)))),
        ("answer_broken", || {
            let pieces = [Ok(Bytes::from(event(&progress(1)))), Err(std::io::Error::other("gone"))];
            Body::from_stream(stream::iter(pieces))
        }),
        ("answer_broken", || Body::from("data: {\"id\":\"x402/\n\n")),
        ("answer_too_large", || {
            let pieces = stream::iter(0..100)
                .map(|_| Ok::<_, std::io::Error>(Bytes::from("data: aaaaaaaaaaaaaaaaaaaa".repeat(40))));
            Body::from_stream(pieces)
        }),
        ("answer_timeout", || {
            Body::from_stream(stream::iter(0_u64..).then(|step| async move {
                tokio::time::sleep(Duration::from_secs(5)).await;
                Ok::<_, std::io::Error>(Bytes::from(event(&progress(step))))
            }))
        }),
    ];
    for (code, body) in cases {
        rig.plays(move |_| async move { event_reply(body()) });
        let answer = say(&service, &call).await;
        assert_eq!(answer.refused(), code);
    }
    rig.gives(json!({ "content": ["a".repeat(20_000)] }));
    assert_eq!(say(&service, &call).await.refused(), "answer_too_large");
    assert_eq!(rig.settler.settlements(), 0);
    rig.gives(json!({ "content": [] }));
    say(&service, &call).await.sold();
}

/// The result of a payment that is refused in the end is not heard, not even by resuming the stream.
#[tokio::test]
async fn a_stream_that_is_resumed_has_no_result_of_a_call() {
    let rig = Rig::open().await;
    let service = rig.service();
    let call = paid(&service, &search()).await;
    rig.settler.script([Settling::Refused(tower_x402::protocol::v2::Reason::INSUFFICIENT_FUNDS)]);
    rig.plays(|message| async move {
        let done = result(&message, json!({ "content": ["the answer"] }));
        event_reply(event(&progress(1)) + &event(&done))
    });
    let refused = say(&service, &call).await;
    assert!(!refused.text.contains("the answer"), "{}", refused.text);
    assert_eq!(refused.bill().error.as_deref(), Some("insufficient_funds"));
    // The server hands its events out again to those who name one, as resumable servers do.
    let id = rig.last().message["id"].clone();
    rig.plays(move |_| {
        let done = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": ["the answer"] } });
        let free = json!({ "jsonrpc": "2.0", "id": 3, "result": { "content": ["free"] } });
        async move { event_reply(event(&progress(1)) + &event(&done) + &event(&free)) }
    });
    let resumed = ask(&service, get()).await;
    assert!(!resumed.text.contains("the answer") && resumed.text.contains("free"), "{}", resumed.text);
    // Compressed, it could not be looked at.
    rig.plays(|_| async {
        let mut reply = event_reply("the answer");
        reply.headers_mut().insert("content-encoding", "br".parse().unwrap());
        reply
    });
    let compressed = ask(&service, get()).await;
    assert_eq!((compressed.status.as_u16(), &*compressed.text), (502, ""));
}

/// In pieces of one byte, with any line ends, with comments and fields that nobody knows.
#[tokio::test]
async fn a_stream_is_read_however_it_is_written() {
    let rig = Rig::open().await;
    let service = rig.service();
    for (index, ends) in ["\n", "\r\n", "\r"].into_iter().enumerate() {
        let quote = super::rig::offered(&service, &search()).await;
        let call = super::rig::with_payment(search(), &super::rig::sign(&quote, [index as u8; 32]));
        rig.plays(move |message| {
            let done = result(&message, json!({ "content": ["ü"] })).to_string();
            let (begin, end) = done.split_at(1);
            let text =
                format!("\u{feff}: ping\n\nfoo: bar\nretry: x\ndata: {begin}\ndata: {end}\n\n").replace('\n', ends);
            let bytes: Vec<_> =
                text.into_bytes().into_iter().map(|byte| Ok::<_, std::io::Error>(Bytes::from(vec![byte]))).collect();
            async move { event_reply(Body::from_stream(stream::iter(bytes))) }
        });
        let answer = say(&service, &call).await;
        assert_eq!(answer.result()["content"], json!(["ü"]));
        answer.sold();
    }
}
