//! SECURITY row 68: which headers pass, and what failures of the upstream become.

use std::time::Duration;

use serde_json::{Value, json};

use crate::{
    program::{NOWHERE, Running, Shop, free, seen, upstream},
    raw::{Raw, ask},
};

/// What the upstream saw last, by names in lower case.
async fn last(upstream: &Running) -> Vec<(String, String)> {
    let last = seen(upstream).await.pop().unwrap();
    let pair = |pair: &Value| (pair[0].as_str().unwrap().to_lowercase(), pair[1].as_str().unwrap().to_owned());
    last["headers"].as_array().unwrap().iter().map(pair).collect()
}

fn values<'a>(headers: &'a [(String, String)], name: &str) -> Vec<&'a str> {
    headers.iter().filter(|(is, _)| is == name).map(|(_, value)| value.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_cannot_say_who_paid_nor_show_payments_to_the_upstream() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    let sent = "X402-Payer: 0x1\r\nX402_Payer: 0x1\r\nx402_payment_id: 1\r\nX402-Amount: 1\r\nx402-payment: {}\r\n\
        PAYMENT-SIGNATURE: e30=\r\nPayment_Signature: e30=\r\nX-PAYMENT: e30=\r\nPayment-Authorization: Payment x\r\n\
        Authorization: Payment x\r\nAuthorization: Bearer kept\r\nAccept-Payment: x\r\nX-HTTP-Method-Override: DELETE\r\n\
        X-Original-URL: /admin\r\nX-Rewrite-URL: /admin\r\nX_Forwarded_For: 6.6.6.6\r\nX-Forwarded-Prefix: /x\r\n\
        Connection: X-Mine, x402-payment\r\nX-Mine: 1\r\nTE: trailers\r\nUpgrade: h2c\r\nProxy-Authorization: Basic x\r\n\
        Cookie: kept\r\nX-Forwarded-For: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\n";
    let answer = ask(&gateway.url, "GET /any", sent).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let headers = last(&upstream).await;
    let names: Vec<_> = headers.iter().map(|(name, _)| name.as_str()).collect();
    for name in &names {
        let folded = name.replace('_', "-");
        let is_ours = ["x402-", "payment-", "x-payment"].iter().any(|start| folded.starts_with(start));
        assert!(!is_ours && folded != "accept-payment" && *name != "x_forwarded_for", "{name} passed");
    }
    for name in ["x-mine", "te", "upgrade", "proxy-authorization", "x-original-url", "x-rewrite-url", "connection"] {
        assert!(!names.contains(&name), "{name} passed: {headers:?}");
    }
    assert!(!names.contains(&"x-http-method-override") && !names.contains(&"x-forwarded-prefix"), "{headers:?}");
    assert_eq!(values(&headers, "authorization"), ["Bearer kept"]);
    assert_eq!(values(&headers, "cookie"), ["kept"]);
    assert_eq!(values(&headers, "x-forwarded-for"), ["9.9.9.9, 127.0.0.1"]);
    assert_eq!(values(&headers, "forwarded"), [r#"for=9.9.9.9, for=127.0.0.1;host="shop.example";proto=http"#]);
    assert_eq!(values(&headers, "x-forwarded-host"), ["shop.example"]);
    assert_eq!(values(&headers, "x-forwarded-proto"), ["http"]);
    assert_eq!(values(&headers, "host"), [upstream.url.strip_prefix("http://").unwrap()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_header_cuts_the_path_that_was_priced() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    for name in ["SCRIPT_NAME", "script_name", "Script-Name", "X-Script-Name"] {
        let answer = ask(&gateway.url, "GET /x/reports/1", &format!("{name}: /x\r\nX_Mine: 1\r\nX-Mine: 2\r\n")).await;
        assert!(answer.body.contains(r#""path": "/x/reports/1""#), "{name}: {answer:?}");
        let headers = last(&upstream).await;
        assert!(headers.iter().all(|(name, _)| !name.contains('_')), "{name}: {headers:?}");
        assert_eq!(values(&headers, "x-mine"), ["2"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trailers_say_nothing_to_the_upstream() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    let mut stream = crate::raw::connect(&gateway.url).await;
    let request = "POST /digest HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: X402-Payer\r\n\r\n\
        2\r\nhi\r\n0\r\nX402-Payer: 0x1\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
    // It read the chunks, and an empty line behind them.
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"bytes\": 2"), "{answer}");
    assert!(values(&last(&upstream).await, "trailer").is_empty());
}

/// A client of HTTP/1 would leave it out where nothing announces it, and the answer to half a question would be sold.
#[tokio::test(flavor = "multi_thread")]
async fn the_body_of_a_get_reaches_the_upstream() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    let mut stream = crate::raw::connect(&gateway.url).await;
    let request = "GET /digest HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"bytes\": 2"), "{answer}");
    assert_eq!(ask(&gateway.url, "GET /any", "").await.status, 200);
    let headers = last(&upstream).await;
    assert!(values(&headers, "transfer-encoding").is_empty() && values(&headers, "content-length").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_tunnel_leads_past_the_prices_of_tools() {
    let upstream = upstream();
    let shop = Shop::new(NOWHERE, &upstream.url);
    shop.write("", "", "[default]\naction = \"free\"\n[mcp]\npath = \"/socket\"\n[mcp.tools]");
    let gateway = shop.start();
    let sent = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: eA==\r\n";
    // A tunnel would not end.
    let answer = tokio::time::timeout(Duration::from_secs(10), ask(&gateway.url, "GET /socket", sent)).await.unwrap();
    assert_eq!((answer.status, code(&answer)), (502, json!("upstream_failed")), "{answer:?}");
    assert!(values(&last(&upstream).await, "upgrade").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_public_url_is_what_the_upstream_is_told() {
    let upstream = upstream();
    let shop = Shop::new(NOWHERE, &upstream.url);
    shop.write("public_url = \"https://public.example/shop\"", "", "[default]\naction = \"free\"");
    let gateway = shop.start();
    let sent = "X-Forwarded-Proto: gopher\r\nX-Forwarded-Host: evil.example\r\n";
    assert_eq!(ask(&gateway.url, "GET /any", sent).await.status, 200);
    let headers = last(&upstream).await;
    assert_eq!(values(&headers, "x-forwarded-host"), ["public.example"]);
    assert_eq!(values(&headers, "x-forwarded-proto"), ["https"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_cannot_bill_clients() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    let answer = ask(&gateway.url, "GET /claims", "").await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "claims"));
    for name in [
        "pay",
        "x-price-intent",
        "x-payment-contracts",
        "payment-required",
        "payment-response",
        "payment-receipt",
        "x402-error",
        "settlement-overrides",
        "keep-alive",
        "x-private",
    ] {
        assert!(answer.all(name).is_empty(), "{name}: {answer:?}");
    }
    assert_eq!(answer.all("www-authenticate"), [r#"Basic realm="x""#]);
    assert_eq!(answer.all("x-public"), ["1"]);
    let moved = ask(&gateway.url, "GET /moved", "").await;
    assert_eq!(moved.all("location"), ["/elsewhere?x=1"]);
}

/// What curl prints of an answer by HTTP/2.
fn by_http_2(gateway: &Running, arguments: &[&str], path: &str) -> String {
    let mut curl = std::process::Command::new("curl");
    curl.args(["-si", "--http2-prior-knowledge", "--max-time", "30"]).args(arguments);
    let output = curl.arg(format!("{}{path}", gateway.url)).output().unwrap();
    String::from_utf8(output.stdout).unwrap().to_lowercase()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_cannot_bill_clients_in_trailers() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    let answer = by_http_2(&gateway, &[], "/trailing");
    let (_, trailers) = answer.split_once("\r\n\r\n").unwrap();
    assert!(trailers.contains("x-public: 1"), "{answer}");
    assert!(!trailers.contains("pay: ") && !trailers.contains("payment-required: "), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn cookies_that_arrive_apart_leave_on_one_line() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    assert!(by_http_2(&gateway, &["-H", "cookie: a=1", "-H", "cookie: b=2"], "/any").starts_with("http/2 200"));
    assert_eq!(values(&last(&upstream).await, "cookie"), ["a=1; b=2"]);
}

fn code(answer: &Raw) -> Value {
    serde_json::from_str::<Value>(&answer.body).map_or(Value::Null, |body| body["error"].clone())
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_the_upstream_are_named_and_its_errors_pass() {
    let upstream = upstream();
    let (_shop, gateway) = free(&upstream);
    for (path, status, error) in [
        ("/bill", 502, json!("upstream_payment_required")),
        ("/status/402", 502, json!("upstream_payment_required")),
        ("/broken", 502, json!("upstream_failed")),
        ("/garbage", 502, json!("upstream_failed")),
        ("/unasked", 502, json!("upstream_failed")),
        ("/slow", 504, json!("upstream_timeout")),
        ("/status/500", 500, Value::Null),
        ("/status/503", 503, Value::Null),
        ("/status/404", 404, Value::Null),
        ("/status/418", 418, Value::Null),
    ] {
        let answer = ask(&gateway.url, &format!("GET {path}"), "").await;
        assert_eq!((answer.status, code(&answer)), (status, error), "{path}: {answer:?}");
        assert!(answer.all("pay").is_empty() && answer.all("www-authenticate").is_empty(), "{answer:?}");
    }
    // What may have run is not run again.
    let broken = seen(&upstream).await.iter().filter(|request| request["path"] == "/broken").count();
    assert_eq!(broken, 1);
    drop(upstream);
    let answer = ask(&gateway.url, "GET /any", "").await;
    assert_eq!((answer.status, code(&answer)), (502, json!("upstream_unreachable")), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_route_names_is_denied_where_the_default_says_so() {
    let upstream = upstream();
    let shop = Shop::new(NOWHERE, &upstream.url);
    shop.write("", "", "[[route]]\nmatch = \"GET /health\"\nfree = true\n[default]\naction = \"deny\"");
    let gateway = shop.start();
    assert_eq!(ask(&gateway.url, "GET /health", "").await.status, 200);
    let answer = ask(&gateway.url, "GET /other", "").await;
    assert_eq!((answer.status, code(&answer)), (404, json!("not_found")));
    assert_eq!(ask(&gateway.url, "POST /health", "").await.status, 404);
    assert_eq!(seen(&upstream).await.len(), 1);
}
