//! Over real sockets, under bare hyper; and under axum's ways to put a layer on.

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use axum::{Json, Router, body::Body, routing};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::{sleep, timeout},
};
use tower::{Layer as _, Service, ServiceExt as _};
use tower_x402::{Receipt, RequestBody, X402, X402Layer, protocol::TxHash};

use crate::{
    support::faults::Gone,
    support::{PRICE, Shop, intent_of},
};

const PATIENCE: Duration = Duration::from_secs(10);

/// Serves connections until the test ends; tells where.
async fn serve<S>(service: X402<S>) -> std::net::SocketAddr
where
    X402<S>: Service<Request<Incoming>, Response = Response<tower_x402::ResponseBody<Full<Bytes>>>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    <X402<S> as Service<Request<Incoming>>>::Future: Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), TowerToHyperService::new(service.clone()));
            tokio::spawn(connection);
        }
    });
    address
}

/// An answer as it came over the wire.
struct Heard {
    status: u16,
    head: String,
    body: String,
}

impl Heard {
    fn header(&self, name: &str) -> Option<&str> {
        self.head
            .lines()
            .find_map(|line| line.split_once(": ").filter(|(n, _)| n.eq_ignore_ascii_case(name)))
            .map(|h| h.1)
    }
}

/// One request over an open connection, and its answer.
async fn exchange(stream: &mut TcpStream, request: &str) -> Heard {
    stream.write_all(request.as_bytes()).await.unwrap();
    timeout(PATIENCE, hear(stream)).await.expect("an answer")
}

async fn hear(stream: &mut TcpStream) -> Heard {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break String::from_utf8(bytes.drain(..end + 4).collect()).unwrap();
        }
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "closed before an answer");
    };
    let mut heard = Heard { status: head[9..12].parse().unwrap(), head, body: String::new() };
    let length: usize = heard.header("content-length").map_or(0, |length| length.parse().unwrap());
    while bytes.len() < length {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "closed in an answer");
    }
    heard.body = String::from_utf8(bytes).unwrap();
    heard
}

fn posted(kind: &str, extra: &str, body: &str) -> String {
    format!(
        "POST /answer HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\n{extra}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn proof(intent: &str, tx: TxHash) -> String {
    format!(r#"{{"intentId":"{intent}","txHash":"{tx}"}}"#)
}

/// A shop on a socket whose first run never ends, and says when it began.
struct Counter {
    shop: Shop,
    address: std::net::SocketAddr,
    begun: Arc<Notify>,
    gone: Gone,
}

impl Counter {
    async fn open(never: bool) -> Self {
        Self::open_with(never, |layer| layer).await
    }

    async fn open_with(never: bool, layer: fn(X402Layer) -> X402Layer) -> Self {
        let shop = Shop::open().await;
        let (begun, gone, runs) = (Arc::new(Notify::new()), Gone::default(), Arc::new(AtomicUsize::new(0)));
        let (tell, watched) = (Arc::clone(&begun), gone.clone());
        let inner = tower::service_fn(move |_: Request<RequestBody<Incoming>>| {
            let first = runs.fetch_add(1, Ordering::SeqCst) == 0;
            let (tell, watched) = (Arc::clone(&tell), first.then(|| watched.watch()));
            async move {
                let _watched = watched;
                if first && never {
                    tell.notify_one();
                    std::future::pending::<()>().await;
                }
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"the answer"))))
            }
        });
        let address = serve(layer(shop.merchant.charge("answer", PRICE).unwrap()).layer(inner)).await;
        Self { shop, address, begun, gone }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    async fn quoted(&self) -> String {
        let quote = exchange(&mut self.connect().await, &posted("application/json", "", "{}")).await;
        assert_eq!(quote.status, 402);
        quote.header("x-price-intent").unwrap().to_owned()
    }

    /// Waits until no payment is held.
    async fn let_go(&self) {
        let free = async {
            while self.shop.ledger.counts().unwrap().held > 0 {
                sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, free).await.expect("the payment is let go");
    }
}

#[tokio::test]
async fn a_sale_over_bare_hyper_on_one_connection() {
    let counter = Counter::open(false).await;
    let mut stream = counter.connect().await;
    let quote = exchange(&mut stream, &posted("application/json", "", r#"{"query":"why"}"#)).await;
    assert_eq!(quote.status, 402);
    let proof = proof(quote.header("x-price-intent").unwrap(), counter.shop.pay(490_000));
    let answer = exchange(&mut stream, &posted("application/json", "", &proof)).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "the answer"));
    assert!(answer.header("payment-response").is_some());
    let again = exchange(&mut stream, &posted("application/json", "", &proof)).await;
    assert_eq!(again.status, 409);
    assert!(again.body.contains("already_consumed"));
}

/// SECURITY 26: the connection closed, or only the client's half of it.
#[tokio::test]
async fn a_client_that_vanishes_while_the_handler_works_leaves_its_payment_free() {
    for half in [false, true] {
        let counter = Counter::open(true).await;
        let (intent, tx) = (counter.quoted().await, counter.shop.pay(490_000));
        let proof = proof(&intent, tx);
        let mut stream = counter.connect().await;
        stream.write_all(posted("application/json", "", &proof).as_bytes()).await.unwrap();
        timeout(PATIENCE, counter.begun.notified()).await.expect("the handler is started");
        assert_eq!(counter.shop.ledger.counts().unwrap().held, 1);
        if half {
            stream.shutdown().await.unwrap();
        } else {
            drop(stream);
        }
        counter.let_go().await;
        assert!(counter.gone.is_gone());
        let answer = exchange(&mut counter.connect().await, &posted("application/json", "", &proof)).await;
        assert_eq!(answer.status, 200, "half-close: {half}");
        assert_eq!(counter.shop.ledger.counts().unwrap().consumed, 1);
    }
}

/// SECURITY 32: a body that never comes in full holds nobody's payment.
#[tokio::test]
async fn a_slow_sender_reserves_nothing() {
    let counter = Counter::open(false).await;
    let (intent, tx) = (counter.quoted().await, counter.shop.pay(490_000));
    let proof = proof(&intent, tx);
    let whole = posted("application/json", "", &proof);
    let mut slow = counter.connect().await;
    slow.write_all(&whole.as_bytes()[..whole.len() - 1]).await.unwrap();
    sleep(Duration::from_millis(50)).await;
    assert_eq!(counter.shop.ledger.counts().unwrap().reserved, 0);
    let answer = exchange(&mut counter.connect().await, &whole).await;
    assert_eq!(answer.status, 200);
    slow.write_all(&whole.as_bytes()[whole.len() - 1..]).await.unwrap();
    assert_eq!(timeout(PATIENCE, hear(&mut slow)).await.unwrap().status, 409);
}

/// What the layer does not read must not spoil the connection for the next request.
#[tokio::test]
async fn a_connection_lives_on_after_a_refusal_with_an_unread_body() {
    let counter = Counter::open(false).await;
    let mut stream = counter.connect().await;
    let refused = [
        (posted("text/plain", "", "no object"), 402),
        (posted("application/json", "x402-payment: nonsense\r\n", &"x".repeat(2_000)), 400),
        (posted("application/json", "content-encoding: gzip\r\n", &"x".repeat(2_000)), 415),
        (posted("application/json", "", "nonsense"), 400),
    ];
    for (request, status) in &refused {
        for _ in 0..2 {
            assert_eq!(exchange(&mut stream, request).await.status, *status);
        }
    }
    let proof = proof(&counter.quoted().await, counter.shop.pay(490_000));
    assert_eq!(exchange(&mut stream, &posted("application/json", "", &proof)).await.status, 200);
}

/// A body far beyond the limit that the price or a binding needs is answered, not read: the client hears why before the
/// connection ends.
#[tokio::test]
async fn a_body_over_the_limit_is_answered_from_its_announced_length() {
    let counter = Counter::open_with(false, X402Layer::bind_request).await;
    let mut stream = counter.connect().await;
    let head = "POST /answer HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 70000\r\n\r\n{";
    assert_eq!(exchange(&mut stream, head).await.status, 413);
}

/// At a fixed price it is quoted, and bought by header on the same connection.
#[tokio::test]
async fn a_body_over_the_limit_is_sold_by_header() {
    let counter = Counter::open(false).await;
    let mut stream = counter.connect().await;
    let long = format!(r#"{{"query":"{}"}}"#, "x".repeat(200_000));
    let quote = exchange(&mut stream, &posted("application/json", "", &long)).await;
    assert_eq!((quote.status, quote.header("x402-error")), (402, Some("payment_required")));
    assert!(quote.body.contains("x402-payment header"));
    let shown = proof(quote.header("x-price-intent").unwrap(), counter.shop.pay(490_000));
    let answer = exchange(&mut stream, &posted("application/json", &format!("x402-payment: {shown}\r\n"), &long)).await;
    assert_eq!((answer.status, answer.body.as_str()), (200, "the answer"));
}

#[tokio::test]
async fn a_client_that_waits_for_100_continue_is_quoted_without_sending_its_body() {
    let counter = Counter::open(false).await;
    let mut stream = counter.connect().await;
    let head = "POST /answer HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\nx402-payment: {\"txHash\":\"0x1\"}\r\ncontent-length: 5\r\n\r\n";
    assert_eq!(exchange(&mut stream, head).await.status, 400);
}

async fn sold(receipt: Receipt) -> Json<serde_json::Value> {
    Json(serde_json::json!({ "paid": receipt.amount().to_string() }))
}

async fn asked(app: &Router, path: &str, body: String) -> Response<Body> {
    let request = Request::post(path).header("content-type", "application/json").body(Body::from(body)).unwrap();
    app.clone().oneshot(request).await.unwrap()
}

/// Quotes, pays and redeems at a path.
async fn buy(shop: &Shop, app: &Router, path: &str) -> StatusCode {
    let quote = asked(app, path, "{}".to_owned()).await;
    assert_eq!(quote.status(), 402, "{path}");
    asked(app, path, proof(&intent_of(&quote), shop.pay(490_000))).await.status()
}

#[tokio::test]
async fn every_way_of_axum_to_put_a_layer_on_sells() {
    let shop = Shop::open().await;
    let layer = || shop.merchant.charge("answer", PRICE).unwrap();
    let apps = [
        ("/sold", Router::new().route("/sold", routing::post(sold)).layer(layer())),
        ("/sold", Router::new().route("/sold", routing::post(sold)).route_layer(layer())),
        ("/sold", Router::new().route("/sold", routing::post(sold).layer(layer()))),
        ("/sold", Router::new().route("/sold", routing::post(sold).route_layer(layer()))),
        ("/api/sold", Router::new().nest("/api", Router::new().route("/sold", routing::post(sold)).layer(layer()))),
        (
            "/api/sold",
            Router::new().nest_service("/api", layer().layer(Router::new().route("/sold", routing::post(sold)))),
        ),
    ];
    for (number, (path, app)) in apps.iter().enumerate() {
        assert_eq!(buy(&shop, app, path).await, 200, "app {number}");
    }
    // An intent is good wherever the same thing is sold.
    let intent = intent_of(&asked(&apps[0].1, "/sold", "{}".to_owned()).await);
    assert_eq!(asked(&apps[4].1, "/api/sold", proof(&intent, shop.pay(490_000))).await.status(), 200);
}

#[tokio::test]
async fn a_route_layer_does_not_sell_what_is_not_there() {
    let shop = Shop::open().await;
    let app = Router::new()
        .route("/sold", routing::post(sold))
        .route_layer(shop.merchant.charge("answer", PRICE).unwrap())
        .route("/free", routing::get(|| async { "free" }));
    assert_eq!(asked(&app, "/nowhere", "{}".to_owned()).await.status(), 404);
    let free = app.clone().oneshot(Request::get("/free").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(free.status(), 200);
    assert_eq!(buy(&shop, &app, "/sold").await, 200);
}

/// Two priced routes of one app, and what one of them was paid buys nothing from the other.
#[tokio::test]
async fn a_quote_of_one_route_is_no_quote_of_another() {
    let shop = Shop::open().await;
    let app = Router::new()
        .route("/cheap", routing::post(sold).layer(shop.merchant.charge("cheap", "0.01 USDC").unwrap()))
        .route("/dear", routing::post(sold).layer(shop.merchant.charge("dear", "10.00 USDC").unwrap()));
    let intent = intent_of(&asked(&app, "/cheap", "{}".to_owned()).await);
    let tx = shop.pay(10_000);
    assert_eq!(asked(&app, "/dear", proof(&intent, tx)).await.status(), 404);
    assert_eq!(asked(&app, "/cheap", proof(&intent, tx)).await.status(), 200);
}

/// For a handler that serves both: none where nothing was paid, and the very one where it was.
#[tokio::test]
async fn an_optional_receipt_is_there_when_something_was_paid() {
    async fn either(receipt: Option<Receipt>) -> String {
        receipt.map_or("free".to_owned(), |receipt| receipt.amount().to_string())
    }
    let shop = Shop::open().await;
    let layer = shop.layer().free_when(|method, _, _| method == http::Method::GET);
    let app = Router::new().route("/sold", routing::post(either).get(either).route_layer(layer));
    let text = async |answer: Response<Body>| {
        String::from_utf8(axum::body::to_bytes(answer.into_body(), 1_000).await.unwrap().to_vec()).unwrap()
    };
    let free = app.clone().oneshot(Request::get("/sold").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(text(free).await, "free");
    let intent = intent_of(&asked(&app, "/sold", "{}".to_owned()).await);
    let answer = asked(&app, "/sold", proof(&intent, shop.pay(500_000))).await;
    assert_eq!(text(answer).await, "500000");
    // Without any layer it is none either, and no error.
    let bare = Router::new().route("/sold", routing::post(either));
    assert_eq!(text(asked(&bare, "/sold", "{}".to_owned()).await).await, "free");
}

#[tokio::test]
async fn a_handler_without_its_layer_names_what_is_missing() {
    let app = Router::new().route("/sold", routing::post(sold));
    let answer = asked(&app, "/sold", "{}".to_owned()).await;
    assert_eq!(answer.status(), 500);
    let body = axum::body::to_bytes(answer.into_body(), 1_000).await.unwrap();
    assert!(String::from_utf8_lossy(&body).contains("X402Layer"));
}
