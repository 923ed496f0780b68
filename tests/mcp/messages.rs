//! Messages that could be read in two ways reach nobody.

use axum::body::Body;
use http::{Method, Request};
use serde_json::json;

use super::rig::{Rig, ask, call, get, paid, post, say, search};

#[tokio::test]
async fn what_another_reader_could_see_as_a_call_is_refused() {
    let rig = Rig::open().await;
    let service = rig.service();
    for (message, code) in [
        ("", -32700),
        ("{", -32700),
        ("\u{feff}{}", -32700),
        (r#"{"method":"ping","id":NaN}"#, -32700),
        (r#"{"id":1,"method":"ping","method":"tools/call","params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"method":"ping","m\u0065thod":"tools/call","params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"method":"ping","Method":"tools/call","params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call","params":{"name":"status"},"params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"id":2,"method":"tools/call","params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call","params":{"name":"status","name":"search"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call","params":{"name":"status","n\u0061me":"search"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call","params":{"name":"status","NAME":"search"}}"#, -32600),
        (
            r#"{"id":1,"method":"tools/call","params":{"name":"search","arguments":{"q":1},"arguments":{"q":2}}}"#,
            -32600,
        ),
        (r#"{"id":1,"method":"tools/call","params":{"name":"search","arguments":{"q":{"a":1,"a":2}}}}"#, -32600),
        (
            r#"{"id":1,"method":"tools/call","params":{"name":"search","_meta":{"x402/payment":{},"x402/payment":null}}}"#,
            -32600,
        ),
        (
            r#"{"id":1,"method":"tools/call","params":{"name":"search","_meta":{"x402\/payment":{},"x402/payment":null}}}"#,
            -32600,
        ),
        (r#"{"id":1,"method":"tools/call","params":["search",{}]}"#, -32602),
        (r#"{"id":1,"method":"tools/call"}"#, -32602),
        (r#"{"id":1,"method":"tools/call","params":{"name":"search","arguments":[1]}}"#, -32602),
        (r#"{"id":1,"method":"tools/call","params":{"name":"search","task":{"ttl":1}}}"#, -32602),
        (r#"{"id":1,"method":"tools/call","params":{"name":"search","Task":{"ttl":1}}}"#, -32600),
        (r#"{"id":1,"method":"tools/call","params":{"name":"search","tas\u212a":{"ttl":1}}}"#, -32600),
        // A reader of C strings ends at the first U+0000, and some end a line at a line feed.
        (r#"{"id":1,"method":"tools/call\u0000","params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call\u0000x","params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call\n","params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call\ud800","params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"method\u0000":"tools/call","method":"ping","params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call","params\u0000":{"name":"search"},"params":{"name":"status"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call","params":{"name\u0000":"search","name":"status"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call","params":{"name":"search\u0000"}}"#, -32600),
        (r#"{"id":1,"method":"tools/call","params":{"name":"search\udc00"}}"#, -32600),
        // A reader with derived structs takes an array for an object, by the order of its members.
        (r#"["2.0",1,"tools/call",{"name":"search","arguments":{}}]"#, -32600),
        (r#"[1,"tools/call",{"name":"search","arguments":{}}]"#, -32600),
        (r#"[["2.0",1,"tools/call",{"name":"search","arguments":{}}]]"#, -32600),
        (r#"[[{"id":1,"method":"tools/call","params":{"name":"search"}}]]"#, -32600),
        (r#""tools/call""#, -32600),
        // Some take a number for the place of a method in a list, or an array for its one text.
        (r#"{"id":1,"method":7,"params":{"name":"search"}}"#, -32600),
        (r#"{"id":1,"method":["tools/call"],"params":{"name":"search"}}"#, -32600),
        // A reader that is made with `serde_json` sees what the text says.
        (
            r#"{"$serde_json::private::RawValue":"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"search\"}}"}"#,
            -32600,
        ),
        (r#"{"$serde_json::private::RawValue":"[]","method":"ping"}"#, -32600),
        (r#"{"id":1,"method":{"$serde_json::private::RawValue":"\"tools/call\""},"params":{"name":"search"}}"#, -32600),
        (
            r#"{"id":1,"method":"tools/call","params":{"$serde_json::private::RawValue":"{\"name\":\"search\"}"}}"#,
            -32600,
        ),
        (r#"{"id":1,"method":"tools/call","params":{"name":{"$serde_json::private::RawValue":"\"search\""}}}"#, -32602),
        (
            r#"[{"$serde_json::private::RawValue":"{\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"search\"}}"}]"#,
            -32600,
        ),
        (r#"[{"method":"ping"},{"id":1,"method":"tools/call\u0000","params":{"name":"search"}}]"#, -32600),
        (r#"[{"id":1,"method\u0000":"tools/call","method":"ping","params":{"name":"search"}}]"#, -32600),
        (r#"[{"id":1,"method":"tools/call","params":{"name":"search\u0000"}}]"#, -32600),
    ] {
        let answer = ask(&service, post(message)).await;
        assert_eq!(answer.message()["error"]["code"], code, "{message}: {}", answer.text);
        assert!(!answer.is_bill());
    }
    assert_eq!(rig.runs.runs(), 0);
}

/// A stranger's message costs no more than its length.
#[tokio::test]
async fn a_message_of_many_members_is_read_once() {
    let rig = Rig::open().await;
    let service = rig.service();
    let members: String = (0..60_000).map(|number| format!(r#","m{number}":0"#)).collect();
    let message = format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"search"{members}}}}}"#);
    let start = std::time::Instant::now();
    assert!(ask(&service, post(&message)).await.is_bill());
    // With each member beside each other one it took longer than a minute.
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
    let twice = message.replace(r#""m59999":0"#, r#""m0":0"#);
    assert_eq!(ask(&service, post(&twice)).await.message()["error"]["code"], -32600);
}

#[tokio::test]
async fn a_batch_around_a_price_reaches_nobody() {
    let rig = Rig::open().await;
    let service = rig.service();
    let paid = paid(&service, &search()).await;
    for batch in [
        json!([search()]),
        json!([{ "id": 1, "method": "ping" }, search()]),
        json!([paid]),
        json!([{ "method": "tools/call", "params": { "name": "search" } }]),
        json!([{ "method": "tools/call", "params": ["search"] }]),
    ] {
        let answer = say(&service, &batch).await;
        assert_eq!(
            (&answer.message()["error"]["code"], &answer.message()["id"]),
            (&json!(-32600), &json!(null)),
            "{batch}"
        );
    }
    assert_eq!((rig.runs.runs(), rig.settler.settlements()), (0, 0));
}

/// The header is not what is priced, nor is the content type.
#[tokio::test]
async fn the_price_follows_the_body() {
    let rig = Rig::open().await;
    let service = rig.service();
    let mut request = post(search().to_string());
    request.headers_mut().insert("mcp-name", "status".parse().unwrap());
    request.headers_mut().insert("mcp-method", "ping".parse().unwrap());
    assert!(ask(&service, request).await.is_bill());
    let mut request = post(call("status", json!({})).to_string());
    request.headers_mut().insert("mcp-name", "search".parse().unwrap());
    assert!(!ask(&service, request).await.is_bill());
    for content_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let mut request = post(search().to_string());
        request.headers_mut().insert("content-type", content_type.parse().unwrap());
        assert!(ask(&service, request).await.is_bill(), "{content_type}");
    }
    for method in [Method::PUT, Method::PATCH, Method::from_bytes(b"CALL").unwrap()] {
        let mut request = post(search().to_string());
        *request.method_mut() = method;
        assert!(ask(&service, request).await.is_bill());
    }
    assert_eq!(rig.runs.runs(), 1);
}

#[tokio::test]
async fn bodies_have_their_limits() {
    let rig = Rig::open().await;
    let service = rig.behind(&rig.layer().message_limit(1000).unwrap());
    let long = ask(&service, post(call("status", json!({ "text": "a".repeat(2000) })).to_string())).await;
    assert_eq!((long.status.as_u16(), &long.message()["error"]["data"]["error"]), (413, &json!("body_too_large")));
    let mut compressed = post(search().to_string());
    compressed.headers_mut().insert("content-encoding", "gzip".parse().unwrap());
    let compressed = ask(&service, compressed).await;
    assert_eq!(
        (compressed.status.as_u16(), &compressed.message()["error"]["data"]["error"]),
        (415, &json!("unsupported_encoding"))
    );
    assert_eq!(rig.runs.runs(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_message_that_does_not_end_is_not_waited_for() {
    let rig = Rig::open().await;
    let endless = futures_util::stream::pending::<Result<bytes::Bytes, std::io::Error>>();
    let request = Request::post("/mcp").body(Body::from_stream(endless)).unwrap();
    assert_eq!(ask(&rig.service(), request).await.status, 408);
}

#[tokio::test]
async fn ids_of_all_types_come_back_as_they_were_written() {
    let rig = Rig::open().await;
    let service = rig.service();
    for (index, id) in [
        "1",
        "1.0",
        "1e2",
        "-0",
        "123456789012345678901234567890",
        r#""a\u0062\/""#,
        "null",
        "true",
        r#"[1, {"a":2}]"#,
        r#"{"b":1,"a":1.10}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let written = |message: &str| message.replace(r#""id":1"#, &format!(r#""id": {id} "#));
        let quote = ask(&service, post(written(&search().to_string()))).await;
        assert!(quote.text.contains(&format!(r#""id":{id},"#)), "{}", quote.text);
        let payment = super::rig::sign(&quote.offer(), [index as u8; 32]);
        let call = super::rig::with_payment(search(), &payment).to_string();
        let answer = ask(&service, post(written(&call))).await;
        answer.sold();
        assert!(answer.text.contains(&format!(r#""id":{id},"#)), "{}", answer.text);
        // The server sees another one, which no client knows.
        assert!(rig.last().message["id"].as_str().unwrap().starts_with("x402/"));
    }
}

#[tokio::test]
async fn a_call_without_an_id_is_not_run_and_takes_nothing() {
    let rig = Rig::open().await;
    let service = rig.service();
    let mut notification = paid(&service, &search()).await;
    notification.as_object_mut().unwrap().remove("id");
    let answer = say(&service, &notification).await;
    assert_eq!((answer.status.as_u16(), &*answer.text), (202, ""));
    assert_eq!((rig.runs.runs(), rig.settler.settlements()), (0, 0));
    notification["id"] = json!(1);
    say(&service, &notification).await.sold();
}

/// A server may read a body whatever the method.
#[tokio::test]
async fn a_call_in_a_request_that_carries_none_is_taken_out() {
    let rig = Rig::open().await;
    let service = rig.service();
    for method in [Method::GET, Method::HEAD, Method::DELETE, Method::OPTIONS] {
        let mut request = post(search().to_string());
        *request.method_mut() = method.clone();
        request.headers_mut().insert("content-length", search().to_string().len().into());
        ask(&service, request).await;
        let seen = rig.last();
        assert_eq!((&*seen.text, seen.headers.contains_key("content-length")), ("", false), "{method}");
    }
    assert_eq!(rig.runs.runs(), 4);
}

#[tokio::test]
async fn streams_and_sessions_pass() {
    let rig = Rig::open().await;
    let service = rig.service();
    rig.plays(|_| async { super::rig::event_reply(": hello\n\nid: 3\nretry: 5\ndata: {\"method\":\"a\"}\n\n") });
    let stream = ask(&service, get()).await;
    assert_eq!(stream.text, "id: 3\nretry: 5\ndata: {\"method\":\"a\"}\n\n");
    let mut delete = get();
    *delete.method_mut() = Method::DELETE;
    ask(&service, delete).await;
    assert_eq!((rig.runs.runs(), rig.last().headers["last-event-id"].to_str().unwrap()), (2, "7"));
}
