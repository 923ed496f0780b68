//! Bodies: which are read, how far and for how long, and that the handler gets every one of them as it came.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, Sleep};
use tower_x402::{Price, RequestBody, X402, protocol::Amount};

use crate::support::{
    Answer, Counter, Handler, Shop, answering, ask, assert_problem, echo, intent_of, layered, proof, quoted, read,
    with_status,
};

/// What a sender does next.
enum Piece {
    Data(Bytes),
    Trailers(HeaderMap),
    Wait(Duration),
    Break,
    Stall,
}

fn data(text: impl Into<Bytes>) -> Piece {
    Piece::Data(text.into())
}

/// A body that arrives as it is told to, announces nothing unless told, and counts how often it is asked.
struct Sender {
    pieces: VecDeque<Piece>,
    announced: u64,
    sleep: Option<Pin<Box<Sleep>>>,
    polls: Arc<AtomicUsize>,
}

#[derive(Clone, Default)]
struct Polls(Arc<AtomicUsize>);

impl Polls {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn sender(pieces: impl IntoIterator<Item = Piece>, announced: u64) -> (Body, Polls) {
    let polls = Polls::default();
    let pieces = pieces.into_iter().collect();
    (Body::new(Sender { pieces, announced, sleep: None, polls: Arc::clone(&polls.0) }), polls)
}

impl http_body::Body for Sender {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        loop {
            if let Some(sleep) = &mut self.sleep {
                std::task::ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            match self.pieces.pop_front() {
                None => return Poll::Ready(None),
                Some(Piece::Data(data)) => {
                    self.announced = self.announced.saturating_sub(data.len() as u64);
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Some(Piece::Trailers(trailers)) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Some(Piece::Break) => return Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into()))),
                Some(Piece::Wait(span)) => self.sleep = Some(Box::pin(tokio::time::sleep(span))),
                Some(Piece::Stall) => {
                    self.pieces.push_front(Piece::Stall);
                    return Poll::Pending;
                }
            }
        }
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::default();
        hint.set_lower(self.announced);
        hint
    }
}

fn send(content_type: &str, body: impl Into<Body>) -> Request<Body> {
    let mut request = Request::post("/answer").body(body.into()).unwrap();
    if !content_type.is_empty() {
        request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
    }
    request
}

fn json(body: impl Into<Body>) -> Request<Body> {
    send("application/json", body)
}

/// A JSON object of exactly that many bytes.
fn object(length: usize) -> String {
    let text = format!(r#"{{"query":"{}"}}"#, "x".repeat(length - 12));
    assert_eq!(text.len(), length);
    text
}

/// One byte at a time.
fn in_bytes(text: &str) -> Vec<Piece> {
    text.bytes().map(|byte| data(vec![byte])).collect()
}

async fn shop() -> (Shop, X402<impl Handler>, Counter) {
    let shop = Shop::open().await;
    let counter = Counter::default();
    let service = layered(&shop.layer(), echo(counter.clone()));
    (shop, service, counter)
}

/// Where the price or a binding needs the body.
#[tokio::test]
async fn the_limit_is_exact() {
    const LIMIT: usize = 64 * 1024;
    let shop = Shop::open().await;
    let service = layered(&shop.layer().bind_request(), echo(Counter::default()));
    assert_problem(ask(&service, json(object(LIMIT))).await, 402, "payment_required").await;
    assert_problem(ask(&service, json(object(LIMIT + 1))).await, 413, "body_too_large").await;
    // In chunks, and announced or not.
    for announced in [0, 1] {
        for (length, status, code) in [(LIMIT, 402, "payment_required"), (LIMIT + 1, 413, "body_too_large")] {
            let text = object(length);
            let chunks = text.as_bytes().chunks(1000).map(|chunk| data(chunk.to_vec()));
            let (body, _) = sender(chunks, announced * length as u64);
            assert_problem(ask(&service, json(body)).await, status, code).await;
        }
    }
}

/// What is announced to be too large is not read at all; what grows too large is read no further.
#[tokio::test]
async fn no_more_is_read_than_the_limit() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().bind_request().body_limit(100).unwrap(), echo(Counter::default()));
    let (body, polls) = sender([data("{")], 101);
    assert_problem(ask(&service, json(body)).await, 413, "body_too_large").await;
    assert_eq!(polls.count(), 0);
    let (body, polls) = sender(std::iter::repeat_with(|| data(" ".repeat(10))).take(1000), 0);
    assert_problem(ask(&service, json(body)).await, 413, "body_too_large").await;
    assert_eq!(polls.count(), 11);
    let (body, _) = sender(std::iter::repeat_with(|| data(" ".repeat(10))).take(1000), 0);
    assert_problem(ask(&service, send("text/plain", body)).await, 413, "body_too_large").await;
}

/// At a fixed price nothing but a proof is looked for in a body: one that is too long for that is quoted all the same, and
/// the quote says where the proof belongs. From there it is redeemed, at any length.
#[tokio::test]
async fn a_long_body_is_quoted_at_a_fixed_price_and_redeemed_by_header() {
    let (shop, service, counter) = shop().await;
    for length in [64 * 1024 + 1, 1 << 20] {
        for content_type in ["application/json", "application/json; charset=utf-8", "text/plain", ""] {
            for chunk in [usize::MAX, 1000] {
                let text = object(length);
                let chunks: Vec<Bytes> = text.as_bytes().chunks(chunk).map(Bytes::copy_from_slice).collect();
                let announced = if chunk == 1000 { 0 } else { length as u64 };
                let body = || sender(chunks.iter().cloned().map(data), announced).0;
                let quote = ask(&service, send(content_type, body())).await;
                let intent = intent_of(&quote);
                let problem = assert_problem(quote, 402, "payment_required").await;
                assert!(problem["detail"].as_str().unwrap().contains("in the x402-payment header"), "{problem}");
                let mut request = send(content_type, body());
                request.headers_mut().insert("x402-payment", proof(&intent, shop.pay(490_000)).parse().unwrap());
                let answer = ask(&service, request).await;
                assert_eq!(answer.status(), 200);
                assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), text);
            }
        }
    }
    assert_eq!(counter.runs(), 16);
    // Up to the limit either place will do.
    let quote = ask(&service, json(object(64 * 1024))).await;
    let problem = assert_problem(quote, 402, "payment_required").await;
    assert!(!problem["detail"].as_str().unwrap().contains("x402-payment"));
}

/// Wherever it stands, across whatever pieces: who shows a proof in such a body has paid, and is sent no other bill.
#[tokio::test]
async fn a_proof_in_a_long_body_is_refused_and_never_billed() {
    let (shop, service, counter) = shop().await;
    let good = proof(&quoted(&service).await, shop.pay(490_000));
    let members = &good[1..good.len() - 1];
    let filler = format!(r#""query":"{}""#, "x".repeat(100_000));
    let form = format!("query={}&intentId=a&txHash=b", "x".repeat(100_000));
    for (content_type, text) in [
        ("application/json", format!("{{{members},{filler}}}")),
        ("application/json", format!("{{{filler},{members}}}")),
        ("application/json", format!("[{{{filler},{members}}}]")),
        ("application/json", format!(r#"{{{filler},"txHash":null}}"#)),
        ("application/json", format!(r#"{{{filler},"intentId":"a"}}"#)),
        ("text/plain", format!("{{{filler},{members}}}")),
        ("", format!("{}{{{members}}}", " ".repeat(100_000))),
        ("application/x-www-form-urlencoded", form),
    ] {
        for chunk in [usize::MAX, 4096, 1021, 7, 1] {
            let chunks = text.as_bytes().chunks(chunk).map(|chunk| data(chunk.to_vec()));
            let (body, _) = sender(chunks, 0);
            assert_problem(ask(&service, send(content_type, body)).await, 413, "body_too_large").await;
        }
    }
    assert_eq!(counter.runs(), 0);
}

/// It is looked through to its end, for as long as any body may take, and none of it is kept.
#[tokio::test(start_paused = true)]
async fn a_long_body_that_does_not_end_is_no_quote() {
    let (_shop, service, _) = shop().await;
    let began = Instant::now();
    let (body, _) = sender([data(object(100_000)), Piece::Stall], 0);
    assert_problem(ask(&service, json(body)).await, 408, "body_timeout").await;
    assert_eq!(began.elapsed().as_secs(), 10);
    let (body, _) = sender([data(object(100_000)), Piece::Break], 0);
    assert_problem(ask(&service, json(body)).await, 400, "invalid_body").await;
    let mut request = json(object(100_000));
    request.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    assert_problem(ask(&service, request).await, 415, "unsupported_encoding").await;
}

/// White space one byte at a time: a quarter of a million pieces, each looked at once.
#[tokio::test]
async fn small_pieces_cost_no_more_than_large_ones() {
    let shop = Shop::open().await;
    let layer = shop.layer().body_limit(1 << 18).unwrap();
    let [fixed, bound] = [layer.clone(), layer.bind_request()].map(|layer| layered(&layer, echo(Counter::default())));
    let began = std::time::Instant::now();
    for content_type in ["application/json", ""] {
        let pieces = || sender(in_bytes(&" ".repeat(1 << 18)).into_iter().chain([data("{")]), 0).0;
        assert_problem(ask(&fixed, send(content_type, pieces())).await, 402, "payment_required").await;
        assert_problem(ask(&bound, send(content_type, pieces())).await, 413, "body_too_large").await;
    }
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slow_sender_is_given_ten_seconds_in_all() {
    let (shop, service, counter) = shop().await;
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let slowly = |pause: f64| {
        let text = proof(&intent, tx);
        let pause = Duration::from_secs_f64(pause / text.len() as f64);
        sender(text.into_bytes().into_iter().flat_map(move |byte| [Piece::Wait(pause), data(vec![byte])]), 0).0
    };
    let began = Instant::now();
    // Never silent for long, and yet too slow.
    assert_problem(ask(&service, json(slowly(11.0))).await, 408, "body_timeout").await;
    assert_eq!(began.elapsed().as_secs(), 10);
    assert_eq!((shop.chain.calls(), shop.ledger.counts().unwrap().reserved), (0, 0), "nothing is reserved meanwhile");
    for stalled in ["", " ", "{"] {
        let (body, _) = sender([data(stalled), Piece::Stall], 0);
        assert_problem(ask(&service, json(body)).await, 408, "body_timeout").await;
        let (body, _) = sender([data(stalled), Piece::Stall], 0);
        assert_problem(ask(&service, send("", body)).await, 408, "body_timeout").await;
    }
    assert_eq!(ask(&service, json(slowly(9.0))).await.status(), 200);
    assert_eq!(counter.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_route_has_its_own_body_timeout() {
    let shop = Shop::open().await;
    let layer = shop.layer().body_timeout(Duration::from_millis(1500)).unwrap();
    let began = Instant::now();
    let (body, _) = sender([Piece::Stall], 0);
    let answer = ask(&layered(&layer, echo(Counter::default())), json(body)).await;
    assert_problem(answer, 408, "body_timeout").await;
    assert!((1500..1600).contains(&began.elapsed().as_millis()));
}

/// A hundred thousand levels deep, and nobody's stack is the worse for it; proofs beside it are read.
#[tokio::test]
async fn depth_does_no_harm() {
    const DEPTH: usize = 100_000;
    let shop = Shop::open().await;
    let layer = shop.merchant.price_with("deep", |_, _| Price::Charge(Amount::from_base_units(490_000))).unwrap();
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(DEPTH), close.repeat(DEPTH));
    for layer in [shop.layer(), layer] {
        let service = layered(&layer.body_limit(4 << 20).unwrap(), answering(Counter::default(), |_| with_status(200)));
        for nested in [deep("[", "]"), deep(r#"{"a":"#, "}")] {
            assert_problem(ask(&service, json(nested.clone())).await, 402, "payment_required").await;
            let beside = |first: &str| format!(r#"{{{first}"query":{nested}}}"#);
            let quote = ask(&service, json(beside(""))).await;
            let (intent, tx) = (intent_of(&quote), shop.pay(490_000));
            assert_problem(quote, 402, "payment_required").await;
            let pair = proof(&intent, tx).replace(['{', '}'], "") + ",";
            for inside in [r#""intentId":"#, r#""txHash":"#] {
                let text = format!("{{{inside}{nested}}}");
                assert_problem(ask(&service, json(text)).await, 400, "invalid_redemption").await;
            }
            assert_eq!(ask(&service, json(beside(&pair))).await.status(), 200);
        }
        assert_problem(ask(&service, json("[".repeat(DEPTH))).await, 400, "invalid_body").await;
    }
}

/// Never 402: a compressed proof would be paid for again.
#[tokio::test]
async fn a_compressed_body_is_refused_where_it_would_be_looked_at() {
    let (shop, service, _) = shop().await;
    let encoded = |encoding: &str, mut request: Request<Body>| {
        request.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_str(encoding).unwrap());
        request
    };
    for encoding in ["gzip", "br", "GZIP", "identity, gzip", "x-unknown", "\"gzip\""] {
        for content_type in ["application/json", "text/json", "application/problem+json", "text/plain", ""] {
            let answer = ask(&service, encoded(encoding, send(content_type, "{}"))).await;
            assert_problem(answer, 415, "unsupported_encoding").await;
        }
        // Bytes that are not looked at can be what they like.
        let answer = ask(&service, encoded(encoding, send("application/octet-stream", "\u{1f}\u{8b}"))).await;
        assert_problem(answer, 402, "payment_required").await;
        assert_problem(ask(&service, encoded(encoding, json(""))).await, 402, "payment_required").await;
    }
    for encoding in ["identity", "Identity", "", "identity, identity"] {
        assert_problem(ask(&service, encoded(encoding, json("{}"))).await, 402, "payment_required").await;
    }
    // On two lines, in either order.
    for lines in [["identity", "gzip"], ["gzip", "identity"]] {
        let mut request = json("{}");
        for line in lines {
            request.headers_mut().append(header::CONTENT_ENCODING, HeaderValue::from_static(line));
        }
        assert_problem(ask(&service, request).await, 415, "unsupported_encoding").await;
    }
    let mut request = encoded("gzip", json("\u{1f}\u{8b}"));
    let paid = proof(&quoted(&service).await, shop.pay(490_000));
    request.headers_mut().insert("x402-payment", paid.parse().unwrap());
    assert_eq!(ask(&service, request).await.status(), 200, "by header it is not looked at");
}

/// A handler that takes the charset at its word reads another body than the one that was priced.
#[tokio::test]
async fn a_body_in_another_charset_is_refused_where_it_would_be_looked_at() {
    const DEAR: &str = r#"{"model":"small","x":"+ACI-,+ACI-model+ACI-:+ACI-large"}"#;
    let (shop, service, _) = shop().await;
    let layer = shop.merchant.price_with("models", |_, body| {
        let body: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        Price::Charge(Amount::from_base_units(if body["model"] == "small" { 1_000 } else { 490_000 }))
    });
    let counter = Counter::default();
    let models = layered(&layer.unwrap(), echo(counter.clone()));
    let quote = ask(&models, json(r#"{"model":"small"}"#)).await;
    let paid = proof(&intent_of(&quote), shop.pay(1_000));
    let types = [
        "application/json; charset=utf-7",
        "application/json;charset=\"UTF-7\"",
        "application/vnd.api+json; v=1; charset=utf-16le",
        "text/plain; charset=shift_jis",
        "application/json; charset=utf-8; charset=utf-7",
    ];
    for content_type in types {
        assert_problem(ask(&service, send(content_type, DEAR)).await, 415, "unsupported_encoding").await;
        let problem = assert_problem(ask(&models, send(content_type, DEAR)).await, 415, "unsupported_encoding").await;
        assert!(problem["detail"].as_str().unwrap().contains("UTF-8"), "{problem}");
        assert_problem(
            ask(&models, send(content_type, sender(in_bytes(DEAR), 0).0)).await,
            415,
            "unsupported_encoding",
        )
        .await;
        let mut redeemed = send(content_type, DEAR);
        redeemed.headers_mut().insert("x402-payment", paid.parse().unwrap());
        assert_problem(ask(&models, redeemed).await, 415, "unsupported_encoding").await;
    }
    let mut twice = json(DEAR);
    twice.headers_mut().append(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-7"));
    assert_problem(ask(&models, twice).await, 415, "unsupported_encoding").await;
    let form = send("application/x-www-form-urlencoded; charset=utf-7", "model=small");
    assert_problem(ask(&models, form).await, 415, "unsupported_encoding").await;
    // Text that nothing is looked for in, and no text at all, have the charset that they like.
    for body in ["caf\u{e9}", ""] {
        let answer = ask(&models, send("text/plain; charset=iso-8859-1", body)).await;
        assert_problem(answer, 402, "payment_required").await;
    }
    // Where only the header is looked at, the body is the handler's alone.
    let by_header = layered(&shop.layer().header_only(), echo(Counter::default()));
    assert_problem(ask(&by_header, send(types[0], DEAR)).await, 402, "payment_required").await;
    assert_eq!(counter.runs(), 0);
    for content_type in ["application/json; charset=UTF-8", "application/json;charset=\"utf-8\"; v=1"] {
        let answer = ask(&models, send(content_type, r#"{"model":"small"}"#)).await;
        assert_problem(answer, 402, "payment_required").await;
    }
    let mut redeemed = send("application/json; charset=utf-8", r#"{"model":"small"}"#);
    redeemed.headers_mut().insert("x402-payment", paid.parse().unwrap());
    assert_eq!((ask(&models, redeemed).await.status().as_u16(), counter.runs()), (200, 1));
}

/// A type is what stands before the semicolon, whatever stands behind it: a pasted hyphen, or bytes that are no text.
#[tokio::test]
async fn a_parameter_that_is_not_ascii_leaves_the_type_what_it_is() {
    let (shop, service, _) = shop().await;
    let good = proof(&quoted(&service).await, shop.pay(490_000));
    let types: [&[u8]; 4] = [
        "application/json; charset=utf\u{2011}8".as_bytes(),
        b"application/json;\xff",
        "text/json ; \u{e9}".as_bytes(),
        "application/vnd.api+json;charset=\u{201c}utf-8\u{201d}".as_bytes(),
    ];
    for content_type in types {
        let typed = |body: String| {
            let mut request = send("", body);
            request.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_bytes(content_type).unwrap());
            request
        };
        assert_problem(ask(&service, typed(format!("[{good}]"))).await, 400, "invalid_redemption").await;
        assert_problem(ask(&service, typed(format!("{good},"))).await, 400, "invalid_body").await;
        let mut zipped = typed("\u{1f}\u{8b}".to_owned());
        zipped.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert_problem(ask(&service, zipped).await, 415, "unsupported_encoding").await;
    }
}

/// Which bodies are JSON by their type, and what is an error in them.
#[tokio::test]
async fn json_types_must_be_json() {
    let (_shop, service, _) = shop().await;
    let types = [
        "application/json",
        "APPLICATION/JSON",
        "application/json; charset=utf-8",
        " application/json ;x",
        "text/json",
        "application/vnd.api+json",
        "application/problem+JSON; a=b",
    ];
    for content_type in types {
        for bad in ["{", "{}{}", "{} x", "nope", "'x'", " ", "\u{feff}{}", r#"{"a":}"#, "[1,]", "NaN"] {
            assert_problem(ask(&service, send(content_type, bad)).await, 400, "invalid_body").await;
        }
        let not_utf8 = [b"{\"a\":\"".as_slice(), b"\xff", b"\"}"].concat();
        assert_problem(ask(&service, send(content_type, not_utf8)).await, 400, "invalid_body").await;
        let utf16: Vec<u8> = "{}".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_problem(ask(&service, send(content_type, utf16)).await, 400, "invalid_body").await;
        for good in ["", "{}", " {\n} ", "[]", "null", "1e999", r#""\ud800""#] {
            assert_problem(ask(&service, send(content_type, good)).await, 402, "payment_required").await;
        }
    }
    for other in ["text/plain", "application/jsonp", "json", "+json", "application/json5", "multipart/form-data", ""] {
        for body in ["{", "{} x", "nope", "\u{feff}{}", ""] {
            assert_problem(ask(&service, send(other, body)).await, 402, "payment_required").await;
        }
    }
}

/// A slip of the pen beside a payment is a mistake to correct, not a reason to pay again.
#[tokio::test]
async fn a_broken_text_that_names_a_proof_is_never_a_bill() {
    let (shop, service, _) = shop().await;
    let good = proof(&quoted(&service).await, shop.pay(490_000));
    let broken = [
        good.replace('}', ",}"),
        good.replace('"', "'"),
        format!("{good}x"),
        format!("\u{feff}{good}"),
        r#"{"txHash": 0x1}"#.to_owned(),
        "{intentId: 1}".to_owned(),
    ];
    for broken in broken {
        for content_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
            assert_problem(ask(&service, send(content_type, broken.clone())).await, 400, "invalid_redemption").await;
        }
    }
    for content_type in ["application/json", "text/json"] {
        let wrapped = send(content_type, format!("[1, {good}]"));
        assert_problem(ask(&service, wrapped).await, 400, "invalid_redemption").await;
        let other = send(content_type, r#"[{"query": "txHash"}, "intentId"]"#);
        assert_problem(ask(&service, other).await, 402, "payment_required").await;
        // Encoded twice, as by a client that encodes what is encoded already.
        let twice = serde_json::json!(good).to_string();
        assert_problem(ask(&service, send(content_type, twice)).await, 400, "invalid_redemption").await;
    }
}

/// A form is no place for a proof: it is read, and what it names is to be put elsewhere.
#[tokio::test]
async fn a_proof_in_a_form_is_never_a_bill() {
    const FORM: &str = "application/x-www-form-urlencoded";
    let (shop, service, counter) = shop().await;
    let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
    let pair = format!("query=why&intentId={intent}&txHash={tx}");
    let names = ["intentId=".to_owned(), format!("txHash={tx}"), pair.replace("txHash", "t%78Hash"), pair.clone()];
    for body in names {
        for content_type in [FORM, "Application/X-WWW-Form-Urlencoded; charset=utf-8"] {
            let problem =
                assert_problem(ask(&service, send(content_type, body.clone())).await, 400, "invalid_redemption").await;
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("`x402-payment` header") && detail.contains("JSON object in the body"), "{detail}");
            let (bytes, _) = sender(in_bytes(&body), 0);
            assert_problem(ask(&service, send(content_type, bytes)).await, 400, "invalid_redemption").await;
        }
    }
    // JSON under the type of a form, as `curl -d` sends it.
    let array = format!("[{}]", proof(&intent, tx));
    assert_problem(ask(&service, send(FORM, array)).await, 400, "invalid_redemption").await;
    for other in ["query=why", "query=txHash", "", "a=b&c", "[1,2]", "\"x\"", "{"] {
        assert_problem(ask(&service, send(FORM, other)).await, 402, "payment_required").await;
    }
    let mut zipped = send(FORM, "query=why");
    zipped.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    assert_problem(ask(&service, zipped).await, 415, "unsupported_encoding").await;
    let header_only = layered(&shop.layer().header_only(), echo(Counter::default()));
    assert_problem(ask(&header_only, send(FORM, pair.clone())).await, 402, "payment_required").await;
    // The same form with the proof where it belongs.
    let mut request = send(FORM, pair);
    request.headers_mut().insert("x402-payment", proof(&intent, tx).parse().unwrap());
    assert_eq!((ask(&service, request).await.status().as_u16(), counter.runs()), (200, 1));
}

/// What begins with `{` is looked at whatever its type, so that a wrong content type costs nobody a second payment.
#[tokio::test]
async fn an_object_is_looked_at_under_any_type() {
    let (shop, service, counter) = shop().await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "application/octet-stream", "\u{e9}", ""] {
        for space in ["", " ", "\r\n\t "] {
            let text = format!("{space}{}", proof(&quoted(&service).await, shop.pay(490_000)));
            let (whole, bytes) = (send(content_type, text.clone()), send(content_type, sender(in_bytes(&text), 0).0));
            assert_eq!(ask(&service, whole).await.status(), 200, "{content_type}");
            assert_problem(ask(&service, bytes).await, 409, "already_consumed").await;
        }
    }
    assert_eq!(counter.runs(), 15);
}

/// Nor does wrapping it: an array or a string that is JSON and holds a proof shows one, under `text/plain` (as `fetch` sends
/// it) as under no type at all.
#[tokio::test]
async fn a_proof_that_is_wrapped_is_never_a_bill_under_any_type() {
    let (shop, service, counter) = shop().await;
    let priced = shop.merchant.price_with("priced", |_, _| Price::Charge(Amount::from_base_units(1))).unwrap();
    let priced = layered(&priced, echo(counter.clone()));
    let good = proof(&quoted(&service).await, shop.pay(490_000));
    let twice = serde_json::json!(good).to_string();
    let wrapped = [
        format!("[{good}]"),
        format!("\r\n [1, {good}]\n"),
        format!("\u{feff}[[{good}]]"),
        format!("[{twice}]"),
        serde_json::json!(twice).to_string(),
        twice,
        r#"[{"txHash":7}]"#.to_owned(),
    ];
    for text in wrapped {
        for content_type in ["text/plain", "text/plain;charset=UTF-8", "application/octet-stream", "x", ""] {
            for body in [Body::from(text.clone()), sender(in_bytes(&text), 0).0, sender([data(text.clone())], 100).0] {
                assert_problem(ask(&service, send(content_type, body)).await, 400, "invalid_redemption").await;
            }
            assert_problem(ask(&priced, send(content_type, text.clone())).await, 400, "invalid_redemption").await;
        }
        // Under a coding that it has not, too.
        let mut request = send("text/plain", text);
        request.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
        assert_problem(ask(&service, request).await, 400, "invalid_redemption").await;
    }
    assert_eq!(counter.runs(), 0);
}

/// Text of many kinds begins like an array or a string: what is no JSON, or wraps no proof, shows none, whatever it mentions.
#[tokio::test]
async fn text_that_begins_like_json_is_quoted() {
    let (shop, service, _) = shop().await;
    let good = proof(&quoted(&service).await, shop.pay(490_000));
    let csv = "\"txHash\",\"intentId\"\n\"0x1\",\"a\"\n".to_owned();
    let log = "[INFO] txHash=0x1 intentId=a\n[INFO] done\n".to_owned();
    for text in [
        csv.clone(),
        log.clone(),
        csv.repeat(5_000),
        log.repeat(5_000),
        format!("[{}]", "1,".repeat(100_000)),
        format!("\"{}\"", "x".repeat(100_000)),
        format!("[{good},]"),
        format!("[{good}"),
        r#"["txHash", "intentId"]"#.to_owned(),
        r#"[{"query":"txHash"}]"#.to_owned(),
        "[".repeat(1000),
        "\"".to_owned(),
        "[]".to_owned(),
    ] {
        for content_type in ["text/csv", "text/plain", ""] {
            for chunk in [usize::MAX, 1021] {
                for announced in [0, text.len() as u64] {
                    let chunks = text.as_bytes().chunks(chunk).map(|chunk| data(chunk.to_vec()));
                    let (body, _) = sender(chunks, announced);
                    assert_problem(ask(&service, send(content_type, body)).await, 402, "payment_required").await;
                }
            }
        }
        let mut request = send("text/plain", text);
        request.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
        assert_problem(ask(&service, request).await, 402, "payment_required").await;
    }
    // What may still become JSON is judged as an object is that is too long, and waited for as long.
    let filler = "1,".repeat(50_000);
    for text in [format!("[{filler}{good}]"), format!("[{good},{filler}1]")] {
        for announced in [0, text.len() as u64] {
            let (body, _) = sender(text.as_bytes().chunks(1021).map(|chunk| data(chunk.to_vec())), announced);
            assert_problem(ask(&service, send("text/plain", body)).await, 413, "body_too_large").await;
        }
    }
    tokio::time::pause();
    for begin in ["[", "\""] {
        let (body, _) = sender([data(begin), Piece::Stall], 0);
        assert_problem(ask(&service, send("text/plain", body)).await, 408, "body_timeout").await;
    }
}

/// Other bodies are not read: what is no object shows it in its first byte.
#[tokio::test]
async fn other_bodies_are_not_read() {
    let (_shop, service, _) = shop().await;
    let endless = || std::iter::repeat_with(|| data("x".repeat(1 << 16))).take(1 << 10);
    for content_type in ["text/plain", "video/mp4", ""] {
        let (body, polls) = sender(endless(), 1 << 26);
        assert_problem(ask(&service, send(content_type, body)).await, 402, "payment_required").await;
        assert_eq!(polls.count(), 1, "one look");
        let (body, polls) = sender([data(""), data(" \n"), data("x"), Piece::Break], 0);
        assert_problem(ask(&service, send(content_type, body)).await, 402, "payment_required").await;
        assert_eq!(polls.count(), 3);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_proof_and_no_question() {
    let (shop, service, counter) = shop().await;
    let text = proof(&quoted(&service).await, shop.pay(490_000));
    for content_type in ["application/json", "text/plain", ""] {
        for pieces in [vec![Piece::Break], vec![data(text.clone()), Piece::Break], vec![data("{"), Piece::Break]] {
            let (body, _) = sender(pieces, 0);
            assert_problem(ask(&service, send(content_type, body)).await, 400, "invalid_body").await;
        }
    }
    assert_eq!((counter.runs(), shop.chain.calls()), (0, 0));
}

/// Its frames, its trailers, and the sizes that it announced.
type Seen = (Vec<Bytes>, Option<HeaderMap>, u64, Option<u64>);

/// A handler that writes down the frames it gets.
fn scribe(seen: Arc<std::sync::Mutex<Option<Seen>>>) -> impl Handler {
    tower::service_fn(move |request: Request<RequestBody<Body>>| {
        let seen = Arc::clone(&seen);
        async move {
            let mut body = request.into_body();
            let hint = http_body::Body::size_hint(&body);
            let (mut frames, mut trailers) = (Vec::new(), None);
            while let Some(Ok(frame)) = body.frame().await {
                match frame.into_data() {
                    Ok(data) => frames.push(data),
                    Err(frame) => trailers = frame.into_trailers().ok(),
                }
            }
            let announced_end = http_body::Body::is_end_stream(&body);
            assert_eq!(announced_end, hint.upper().is_some(), "what was read in full knows its end");
            *seen.lock().unwrap() = Some((frames, trailers, hint.lower(), hint.upper()));
            Ok(Response::new(Body::empty()))
        }
    })
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([(header::ETAG, HeaderValue::from_static("\"1\""))])
}

/// The original bytes, the two members and the trailers included. A proof in the trailers is none.
#[tokio::test]
async fn the_handler_gets_the_body_as_it_came() {
    let shop = Shop::open().await;
    let seen = Arc::default();
    let service = layered(&shop.layer(), scribe(Arc::clone(&seen)));
    let text = format!(" {}\n", proof(&quoted(&service).await, shop.pay(490_000)));
    let (body, _) = sender(in_bytes(&text).into_iter().chain([Piece::Trailers(trailers())]), 0);
    assert_eq!(ask(&service, json(body)).await.status(), 200);
    let (frames, found, lower, upper) = seen.lock().unwrap().take().unwrap();
    assert_eq!(frames.concat(), text.as_bytes());
    assert_eq!((found, lower, upper), (Some(trailers()), text.len() as u64, Some(text.len() as u64)));

    let mut late = HeaderMap::new();
    late.insert("x402-payment", proof(&quoted(&service).await, shop.pay(490_000)).parse().unwrap());
    let (body, _) = sender([data("{}"), Piece::Trailers(late)], 0);
    assert_problem(ask(&service, json(body)).await, 402, "payment_required").await;
}

/// By header a body of any type and size streams through, frame by frame, unread until the handler reads it.
#[tokio::test]
async fn by_header_the_body_streams() {
    let shop = Shop::open().await;
    let seen = Arc::default();
    let service = layered(&shop.layer(), scribe(Arc::clone(&seen)));
    let paid = async |mut request: Request<Body>| -> Answer {
        let proof = proof(&quoted(&service).await, shop.pay(490_000));
        request.headers_mut().insert("x402-payment", proof.parse().unwrap());
        ask(&service, request).await
    };
    for content_type in ["application/json", "video/mp4", ""] {
        let (body, _) = sender((0..200).map(|_| data("x".repeat(1000))).chain([Piece::Trailers(trailers())]), 200_000);
        assert_eq!(paid(send(content_type, body)).await.status(), 200);
        let (frames, found, lower, upper) = seen.lock().unwrap().take().unwrap();
        assert_eq!((frames.len(), found, lower, upper), (200, Some(trailers()), 200_000, None));
    }
    // A handler that reads nothing has nothing read for it.
    let service = layered(&shop.layer(), answering(Counter::default(), |_| with_status(200)));
    let (body, polls) = sender([Piece::Break], 0);
    let mut request = json(body);
    request.headers_mut().insert("x402-payment", proof(&quoted(&service).await, shop.pay(490_000)).parse().unwrap());
    assert_eq!((ask(&service, request).await.status().as_u16(), polls.count()), (200, 0));
}

/// Where the price needs the body it is read, under the limit, header or not.
#[tokio::test(start_paused = true)]
async fn by_header_a_priced_body_is_read_under_the_limit() {
    let shop = Shop::open().await;
    let layer = shop.merchant.price_with("answer", |_, _| Price::Charge(Amount::from_base_units(490_000))).unwrap();
    let seen = Arc::default();
    for layer in [layer.clone(), layer.header_only()] {
        let service = layered(&layer.body_limit(100).unwrap(), scribe(Arc::clone(&seen)));
        let mut sent = Vec::new();
        for (pieces, status) in [
            (vec![data("x".repeat(60)), data("y".repeat(40)), Piece::Trailers(trailers())], 200),
            (vec![data("x".repeat(60)), data("y".repeat(41))], 413),
            (vec![data("x"), Piece::Stall], 408),
            (vec![data("x"), Piece::Break], 400),
        ] {
            let quote = ask(&service, send("text/plain", format!("{}{}", "x".repeat(60), "y".repeat(40)))).await;
            let mut request = send("text/plain", sender(pieces, 0).0);
            let proof = proof(&intent_of(&quote), shop.pay(490_000));
            request.headers_mut().insert("x402-payment", proof.parse().unwrap());
            let (found, body) = read(ask(&service, request).await).await;
            assert_eq!(found.as_u16(), status, "{body}");
            sent.push(body["error"].as_str().map(str::to_owned));
        }
        let codes = [None, Some("body_too_large"), Some("body_timeout"), Some("invalid_body")];
        assert_eq!(sent.iter().map(Option::as_deref).collect::<Vec<_>>(), codes);
        let (frames, found, ..) = seen.lock().unwrap().take().unwrap();
        assert_eq!((frames.concat().len(), found), (100, Some(trailers())));
    }
}

/// A bad header is refused before the body that a binding needs is waited for.
#[tokio::test]
async fn a_bad_header_on_a_bound_route_reads_no_body() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().bind_request(), echo(Counter::default()));
    for bad in ["", "{}", "nonsense", r#"{"txHash":"0x12"}"#] {
        let (body, polls) = sender([Piece::Stall], 1 << 30);
        let mut request = json(body);
        request.headers_mut().insert("x402-payment", HeaderValue::from_static(bad));
        assert_problem(ask(&service, request).await, 400, "invalid_redemption").await;
        assert_eq!(polls.count(), 0, "{bad}");
    }
}

/// A header-only route looks at no body: its service may use both member names itself.
#[tokio::test]
async fn a_header_only_route_reads_no_body() {
    let shop = Shop::open().await;
    let service = layered(&shop.layer().header_only(), echo(Counter::default()));
    let (body, polls) = sender([Piece::Break], 1 << 30);
    let quote = ask(&service, json(body)).await;
    let intent = intent_of(&quote);
    assert_problem(quote, 402, "payment_required").await;
    assert_eq!(polls.count(), 0);
    for own in [r#"{"intentId":7,"txHash":[]}"#, "{", r#"{"intentId":"a","intentId":"b"}"#] {
        let mut request = json(own);
        request.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        assert_problem(ask(&service, request).await, 402, "payment_required").await;
    }
    let mut request = json(r#"{"intentId":7,"txHash":[]}"#);
    request.headers_mut().insert("x402-payment", proof(&intent, shop.pay(490_000)).parse().unwrap());
    let (status, body) = read(ask(&service, request).await).await;
    assert_eq!((status.as_u16(), &body["intentId"]), (200, &serde_json::json!(7)));
}
