//! What tower asks of a middleware, and what its neighbours in a stack may rely on.

use std::{
    convert::Infallible,
    future::{Future, Ready, pending, ready},
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::{BodyExt as _, Full, StreamBody};
use tokio::time::sleep;
use tower::{
    BoxError, Layer, Service, ServiceBuilder, ServiceExt as _,
    buffer::BufferLayer,
    limit::{ConcurrencyLimit, ConcurrencyLimitLayer},
    timeout::TimeoutLayer,
};
use tower_test::mock::{self, Mock};
use tower_x402::{Price, RequestBody, ResponseBody, ResponseFuture, X402, X402Layer, protocol::Amount};

use crate::{
    support::faults::{Fault, Gone, Op, Stage, ok, settle},
    support::{PRICE, Shop, intent_of, post, redemption},
};

type MockRequest = Request<RequestBody<Body>>;
type Inner = Mock<MockRequest, Response<Body>>;

#[expect(dead_code, reason = "it is enough that this compiles")]
fn the_types_are_send_sync_and_clone_where_they_should_be() {
    fn all<T: Send + Sync + Clone + 'static>() {}
    fn send<T: Send + 'static>() {}
    all::<X402Layer>();
    all::<X402<Inner>>();
    all::<tower_x402::Merchant>();
    send::<ResponseFuture<Inner, Body, Body>>();
    send::<RequestBody<Body>>();
    send::<ResponseBody<Body>>();
    // A service that is not `Sync`, with a body that is neither `Sync` nor `Default`.
    send::<X402<std::cell::Cell<u8>>>();
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn poll_ready<S: Service<Request<Body>>>(service: &mut S) -> Poll<Result<(), S::Error>> {
    service.poll_ready(&mut Context::from_waker(Waker::noop()))
}

/// A body whose end never comes.
fn endless() -> Body {
    Body::new(StreamBody::new(futures_util::stream::pending::<Result<Frame<Bytes>, Infallible>>()))
}

fn json(body: Body) -> Request<Body> {
    Request::post("/answer").header(header::CONTENT_TYPE, "application/json").body(body).unwrap()
}

#[tokio::test]
async fn readiness_and_its_errors_are_the_services_own() {
    let shop = Shop::open().await;
    let (inner, mut handle) = mock::pair::<MockRequest, Response<Body>>();
    let mut service = shop.merchant.charge("answer", PRICE).unwrap().layer(inner);
    handle.allow(0);
    assert!(poll_ready(&mut service).is_pending());
    handle.allow(1);
    assert!(matches!(poll_ready(&mut service), Poll::Ready(Ok(()))));
    handle.send_error("down");
    // The mock tells its error to whoever polls next.
    let error = service.ready().await.err().map(|error| error.to_string());
    assert_eq!(error.as_deref(), Some("down"));
}

/// A service over one permit, and whether that permit is free.
fn limited(layer: &X402Layer) -> (X402<ConcurrencyLimit<Counted>>, impl Fn() -> bool + use<>) {
    let inner = ConcurrencyLimit::new(Counted::default(), 1);
    let service = layer.layer(inner);
    let probe = service.clone();
    (service, move || poll_ready(&mut probe.clone()).is_ready())
}

/// Answers at once, and counts its clones and calls. Complains when it is called without having been polled ready.
#[derive(Default)]
struct Counted {
    ready: bool,
    clones: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
    never: bool,
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        self.clones.fetch_add(1, Ordering::SeqCst);
        Self { ready: false, clones: Arc::clone(&self.clones), calls: Arc::clone(&self.calls), never: self.never }
    }
}

impl Service<MockRequest> for Counted {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: MockRequest) -> Self::Future {
        assert!(std::mem::take(&mut self.ready), "called without being polled ready");
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.never { Box::pin(pending()) } else { Box::pin(ready(Ok(ok()))) }
    }
}

#[tokio::test]
async fn a_quote_gives_its_readiness_back_before_it_leaves() {
    let shop = Shop::open().await;
    let (mut service, is_free) = limited(&shop.merchant.charge("answer", PRICE).unwrap());
    for request in [post("{}"), Request::get("/answer").body(Body::empty()).unwrap()] {
        assert!(poll_ready(&mut service).is_ready() && !is_free());
        let mut future = pin!(service.call(request));
        let Poll::Ready(quote) = poll(future.as_mut()) else { panic!("a quote needs no waiting") };
        assert_eq!(quote.unwrap().status(), StatusCode::PAYMENT_REQUIRED);
        // The future is still there, and so is the service.
        assert!(is_free());
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_keeps_no_readiness() {
    let shop = Shop::open().await;
    let (mut service, is_free) = limited(&shop.merchant.charge("answer", PRICE).unwrap());
    assert!(poll_ready(&mut service).is_ready() && !is_free());
    let mut future = pin!(service.call(json(endless())));
    assert!(poll(future.as_mut()).is_pending());
    assert!(is_free());
}

#[tokio::test]
async fn a_chain_that_does_not_answer_keeps_no_readiness() {
    let shop = Shop::open().await;
    let (mut service, is_free) = limited(&shop.merchant.charge("answer", PRICE).unwrap());
    let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
    let tx = shop.pay(490_000);
    shop.chain.hang(tx);
    for request in [redemption(&intent, tx), by_header(&intent, &tx.to_string(), endless())] {
        assert!(poll_ready(&mut service).is_ready() && !is_free());
        let mut future = pin!(service.call(request));
        assert!(poll(future.as_mut()).is_pending());
        assert!(is_free());
    }
}

fn by_header(intent: &str, tx: &str, body: Body) -> Request<Body> {
    let proof = format!(r#"{{"intentId":"{intent}","txHash":"{tx}"}}"#);
    Request::post("/answer").header("x402-payment", proof).body(body).unwrap()
}

/// A price that must be waited for, too.
#[tokio::test]
async fn a_price_that_does_not_come_keeps_no_readiness() {
    let shop = Shop::open().await;
    let layer = shop.merchant.price_with_async("answer", |_, _| pending::<Price>()).unwrap();
    let (mut service, is_free) = limited(&layer);
    assert!(poll_ready(&mut service).is_ready() && !is_free());
    let mut future = pin!(service.call(post("{}")));
    assert!(poll(future.as_mut()).is_pending());
    assert!(is_free());
}

/// Every way to the handler, over a service that insists on being polled ready, instance by instance.
#[tokio::test]
async fn the_instance_that_was_polled_ready_is_the_one_that_is_called() {
    let shop = Shop::open().await;
    let inner = Counted::default();
    let calls = Arc::clone(&inner.calls);
    let layer = shop.merchant.charge("answer", PRICE).unwrap();
    let layer = layer.free_when(|_, uri, _| uri.path() == "/free").allow_preflight();
    let mut service = layer.layer(inner.clone());
    let intent = intent_of(&service.ready().await.unwrap().call(post("{}")).await.unwrap());
    let preflight = Request::options("/answer")
        .header("origin", "https://example.com")
        .header("access-control-request-method", "POST");
    let header_redemption = {
        let fresh = intent_of(&service.ready().await.unwrap().call(post("{}")).await.unwrap());
        by_header(&fresh, &shop.pay(490_000).to_string(), endless())
    };
    for request in [
        Request::get("/free").body(Body::empty()).unwrap(),
        preflight.body(Body::empty()).unwrap(),
        redemption(&intent, shop.pay(490_000)),
        header_redemption,
    ] {
        assert_eq!(service.ready().await.unwrap().call(request).await.unwrap().status(), 200);
    }
    let free_later = shop.merchant.price_with_async("later", |_, _| ready(Price::Free)).unwrap();
    let free_now = shop.merchant.price_with("now", |_, _| Price::Free).unwrap();
    for layer in [free_later, free_now] {
        let mut service = layer.layer(inner.clone());
        assert_eq!(service.ready().await.unwrap().call(post("{}")).await.unwrap().status(), 200);
    }
    assert_eq!(calls.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn a_free_request_clones_nothing() {
    let shop = Shop::open().await;
    let inner = Counted::default();
    let clones = Arc::clone(&inner.clones);
    let mut service = shop.merchant.charge("answer", PRICE).unwrap().free_when(|_, _, _| true).layer(inner);
    for _ in 0..10 {
        assert_eq!(service.ready().await.unwrap().call(post("{}")).await.unwrap().status(), 200);
    }
    assert_eq!(clones.load(Ordering::SeqCst), 0);
}

/// Free by closure, nothing is waited for between being ready and being called: the place in the queue is kept.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_free_by_closure_keeps_its_place() {
    let shop = Shop::open().await;
    let layer = shop.merchant.price_with("free", |_, _| Price::Free).unwrap();
    let limited = ConcurrencyLimit::new(Counted::default(), 1);
    let mut service = layer.layer(limited.clone());
    assert!(poll_ready(&mut service).is_ready());
    // Another waits for the only place.
    let mut other = waiting_for_room(limited);
    settle().await;
    assert!(!other.is_finished());
    let mut future = pin!(service.call(post("{}")));
    assert!(matches!(poll(future.as_mut()), Poll::Ready(Ok(answer)) if answer.status() == 200));
    drop(service);
    assert!((&mut other).await.is_ok());
}

/// Waits until a service is ready, in a task of its own.
fn waiting_for_room(mut service: ConcurrencyLimit<Counted>) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move { std::future::poll_fn(|cx| service.poll_ready(cx)).await.unwrap() })
}

/// As axum's routes do: whatever the body was, it is one of axum's inside.
fn plain<S>(inner: S) -> tower::util::MapRequest<S, fn(MockRequest) -> Request<Body>> {
    tower::util::MapRequest::new(inner, |request| request.map(Body::new))
}

/// Two prices for one request would be two bills of which none can be redeemed.
#[tokio::test]
async fn a_price_inside_a_price_is_an_error_at_the_first_request() {
    async fn assert_fault<S, ResB>(service: X402<S>)
    where
        X402<S>: Service<Request<Body>, Response = Response<ResB>, Error: std::fmt::Debug> + Clone,
    {
        for request in [post("{}"), by_header("x", &"0x11".repeat(16), Body::empty()), json(endless())] {
            let answer = service.clone().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), 500);
            assert!(!answer.headers().contains_key("pay") && !answer.headers().contains_key("x-price-intent"));
        }
    }
    let shop = Shop::open().await;
    let merchant = &shop.merchant;
    let (outer, inner) = (merchant.charge("outer", PRICE).unwrap(), merchant.charge("inner", "0.01 USDC").unwrap());
    let inside = Counted::default();
    let calls = Arc::clone(&inside.calls);
    assert_fault(outer.layer(plain(outer.layer(inside.clone())))).await;
    assert_fault(outer.layer(plain(inner.layer(inside.clone())))).await;
    // With others in between, and their types forgotten.
    assert_fault(outer.layer(ConcurrencyLimit::new(plain(inner.layer(inside.clone())), 9))).await;
    let erased: tower::util::BoxCloneService<MockRequest, Response<ResponseBody<Body>>, Infallible> =
        tower::util::BoxCloneService::new(plain(inner.layer(inside.clone())));
    assert_fault(outer.layer(erased)).await;
    assert_eq!((calls.load(Ordering::SeqCst), shop.ledger.counts().unwrap().reserved), (0, 0));
    // Side by side they sell: nothing is found where nothing is.
    for mut service in [outer.layer(inside.clone()), inner.layer(inside)] {
        let intent = intent_of(&service.ready().await.unwrap().call(post("{}")).await.unwrap());
        let answer = service.ready().await.unwrap().call(redemption(&intent, shop.pay(490_000))).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
}

/// What is out of sight (a queue's service is not cloned) is found when it is reached, and then nothing is taken.
#[tokio::test]
async fn a_price_inside_a_queue_takes_nothing() {
    let shop = Shop::open().await;
    let inner = shop.merchant.charge("inner", PRICE).unwrap();
    for inner in [inner.clone().header_only(), inner] {
        let outer = shop.merchant.charge("outer", PRICE).unwrap();
        let queue = tower::buffer::Buffer::new(inner.layer(Counted::default()), 4);
        let service = outer.layer(plain(queue));
        let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
        let tx = shop.pay(490_000);
        let answer = service.clone().oneshot(redemption(&intent, tx)).await.unwrap();
        assert_eq!(answer.status(), 500);
        let quote = service.oneshot(post("{}")).await.unwrap();
        assert_eq!((quote.status().as_u16(), quote.headers().contains_key("pay")), (500, false), "nobody else pays");
        let alone = outer.layer(Counted::default());
        assert_eq!(alone.oneshot(redemption(&intent, tx)).await.unwrap().status(), 200);
    }
    assert_eq!(shop.ledger.counts().unwrap().consumed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_stack_with_one_permit_sells_quotes_and_sells_again() {
    // Inside, outside, and both, in the order of `ServiceBuilder`.
    for (outside, inside) in [(64, 1), (1, 64), (1, 1)] {
        let stage = Stage::open().await;
        let service = ServiceBuilder::new()
            .layer(ConcurrencyLimitLayer::new(outside))
            .layer(stage.layer())
            .layer(ConcurrencyLimitLayer::new(inside))
            .service(Counted::default());
        let mut tasks = Vec::new();
        for _ in 0..20 {
            let (service, tx) = (service.clone(), stage.shop.pay(490_000));
            tasks.push(tokio::spawn(async move {
                let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
                service.oneshot(redemption(&intent, tx)).await.unwrap().status()
            }));
        }
        for task in tasks {
            assert_eq!(task.await.unwrap(), 200);
        }
        assert_eq!(stage.counts().consumed, 20);
    }
}

/// Three buyers, room for one.
#[tokio::test(start_paused = true)]
async fn buyers_who_wait_for_room_are_held_no_longer_than_the_longest_hold() {
    let stage = Stage::open().await;
    let service = stage.layer().layer(ConcurrencyLimit::new(Counted { never: true, ..Counted::default() }, 1));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
        tasks.push(tokio::spawn(service.clone().oneshot(redemption(&intent, stage.shop.pay(490_000)))));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
    }
    assert_eq!(stage.counts().held, 0);
    assert!(poll_ready(&mut service.clone()).is_ready());
}

/// Who has given up waiting for room does not take it while the ledger is slow to take the payment back.
#[tokio::test(start_paused = true)]
async fn a_place_in_the_queue_is_left_when_the_hold_ends() {
    let stage = Stage::open_with(|builder| builder.max_hold(Duration::from_secs(10))).await;
    let limited = ConcurrencyLimit::new(Counted::default(), 1);
    let service = stage.layer().layer(limited.clone());
    let (mut other, mut next) = (limited.clone(), limited);
    let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
    stage.ledger.always(Op::Release, Fault::Hang);
    // While the chain is asked, another takes the only room.
    stage.shop.chain.delay(Duration::from_secs(1));
    let buying = tokio::spawn(service.oneshot(redemption(&intent, stage.shop.pay(490_000))));
    settle().await;
    assert!(ready_now(&mut other));
    sleep(Duration::from_secs(12)).await;
    assert!(!buying.is_finished(), "the hold is over, the release is not");
    drop(other);
    settle().await;
    assert!(ready_now(&mut next));
    assert_eq!(buying.await.unwrap().unwrap().status(), StatusCode::GATEWAY_TIMEOUT);
}

fn ready_now(service: &mut ConcurrencyLimit<Counted>) -> bool {
    service.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test(start_paused = true)]
async fn a_buffer_may_stand_inside_or_outside() {
    let stage = Stage::open().await;
    let inside = ServiceBuilder::new().layer(stage.layer()).layer(BufferLayer::new(4)).service(Counted::default());
    let outside = ServiceBuilder::new()
        .layer(BufferLayer::<Request<Body>>::new(4))
        .layer(stage.layer())
        .service(Counted::default());
    let intent = intent_of(&inside.clone().oneshot(post("{}")).await.unwrap());
    assert_eq!(inside.oneshot(redemption(&intent, stage.shop.pay(490_000))).await.unwrap().status(), 200);
    let intent = intent_of(&outside.clone().oneshot(post("{}")).await.unwrap());
    assert_eq!(outside.oneshot(redemption(&intent, stage.shop.pay(490_000))).await.unwrap().status(), 200);
    assert_eq!(stage.counts().consumed, 2);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_inside_is_the_services_error_and_frees_the_payment_before_it_leaves() {
    let stage = Stage::open().await;
    let never = Counted { never: true, ..Counted::default() };
    let service =
        ServiceBuilder::new().layer(stage.layer()).layer(TimeoutLayer::new(Duration::from_secs(5))).service(never);
    let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
    let error: BoxError = service.oneshot(redemption(&intent, stage.shop.pay(490_000))).await.err().unwrap();
    assert!(error.is::<tower::timeout::error::Elapsed>());
    assert_eq!(stage.counts().held, 0);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_outside_drops_the_handler_and_frees_the_payment() {
    let stage = Stage::open().await;
    let gone = Gone::default();
    let watched = gone.clone();
    let inner = tower::service_fn(move |_: MockRequest| {
        let watched = watched.watch();
        async move {
            let _watched = watched;
            pending::<Result<Response<Body>, Infallible>>().await
        }
    });
    let service =
        ServiceBuilder::new().layer(TimeoutLayer::new(Duration::from_secs(5))).layer(stage.layer()).service(inner);
    let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
    assert!(service.oneshot(redemption(&intent, stage.shop.pay(490_000))).await.is_err());
    settle().await;
    assert!(gone.is_gone());
    assert_eq!(stage.counts().held, 0);
}

/// The layer's own answers are responses: it adds no error, and passes the service's on unchanged.
#[tokio::test]
async fn an_error_of_the_service_passes_on_every_way() {
    #[derive(Debug, PartialEq)]
    struct Down(u8);
    let shop = Shop::open().await;
    let layer = shop.merchant.charge("answer", PRICE).unwrap().free_when(|_, uri, _| uri.path() == "/free");
    let service =
        layer.layer(tower::service_fn(|_: Request<RequestBody<Body>>| ready(Err::<Response<Body>, _>(Down(9)))));
    let free = Request::get("/free").body(Body::empty()).unwrap();
    assert_eq!(service.clone().oneshot(free).await.unwrap_err(), Down(9));
    let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
    assert_eq!(service.oneshot(redemption(&intent, shop.pay(490_000))).await.unwrap_err(), Down(9));
}

/// A body that is not axum's, has no default and cannot be shared, in and out.
struct Plain {
    words: Option<Bytes>,
    _not_sync: std::cell::Cell<u8>,
}

impl Plain {
    fn new(words: &str) -> Self {
        Self { words: Some(Bytes::copy_from_slice(words.as_bytes())), _not_sync: std::cell::Cell::new(0) }
    }
}

impl http_body::Body for Plain {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.words.take().map(|words| Ok(Frame::data(words))))
    }
}

#[tokio::test]
async fn any_body_will_do() {
    let shop = Shop::open().await;
    let layer = shop.merchant.charge("answer", PRICE).unwrap();
    let plain = layer.layer(tower::service_fn(|request: Request<RequestBody<Plain>>| async {
        let words = request.into_body().collect().await?.to_bytes();
        Ok::<_, std::io::Error>(Response::new(Plain::new(&String::from_utf8_lossy(&words))))
    }));
    let request = |words: &str| {
        Request::post("/").header(header::CONTENT_TYPE, "application/json").body(Plain::new(words)).unwrap()
    };
    let intent = intent_of(&plain.clone().oneshot(request("{}")).await.unwrap());
    let proof = format!(r#"{{"intentId":"{intent}","txHash":"{}"}}"#, shop.pay(490_000));
    let answer = plain.oneshot(request(&proof)).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), proof);

    let full = layer.layer(tower::service_fn(|_: Request<RequestBody<Full<Bytes>>>| {
        ready(Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"full")))))
    }));
    let quote = full.oneshot(Request::new(Full::default())).await.unwrap();
    assert_eq!(quote.status(), StatusCode::PAYMENT_REQUIRED);
}

/// What the handler's body says of its length and its end is what leaves, and what the client's says is what arrives.
#[tokio::test]
async fn bodies_keep_their_length_and_their_end() {
    struct Sized;
    impl http_body::Body for Sized {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Ready(None)
        }
        fn is_end_stream(&self) -> bool {
            true
        }
        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(77)
        }
    }
    let seen =
        |body: &dyn http_body::Body<Data = Bytes, Error = Infallible>| (body.is_end_stream(), body.size_hint().exact());
    let shop = Shop::open().await;
    let layer = shop.merchant.charge("answer", PRICE).unwrap().free_when(|_, uri, _| uri.path() == "/free");
    let service = layer.layer(tower::service_fn(move |request: Request<RequestBody<Sized>>| {
        assert_eq!((request.body().is_end_stream(), request.body().size_hint().exact()), (true, Some(77)));
        ready(Ok::<_, Infallible>(Response::new(Sized)))
    }));
    let free = service.clone().oneshot(Request::get("/free").body(Sized).unwrap()).await.unwrap();
    assert_eq!(seen(free.body()), (true, Some(77)));
    let quote = service.clone().oneshot(Request::new(Sized)).await.unwrap();
    let intent = intent_of(&quote);
    let mut body = quote.into_body();
    let length = body.size_hint().exact().unwrap();
    assert!(length > 100 && !body.is_end_stream());
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!((frame.len() as u64, body.is_end_stream()), (length, true), "the end is known without another poll");
    let proof = format!(r#"{{"intentId":"{intent}","txHash":"{}"}}"#, shop.pay(490_000));
    let sold = service.oneshot(Request::post("/").header("x402-payment", proof).body(Sized).unwrap()).await.unwrap();
    assert_eq!((sold.status().as_u16(), seen(sold.body())), (200, (true, Some(77))));
}

#[tokio::test]
async fn the_handler_reads_the_very_bytes_and_trailers_that_were_read_for_the_proof() {
    let shop = Shop::open().await;
    let service = shop.merchant.charge("answer", PRICE).unwrap().layer(tower::service_fn(
        |request: Request<RequestBody<Body>>| async {
            let body = request.into_body();
            assert_eq!(body.size_hint().exact().map(|length| length > 100), Some(true));
            let collected = body.collect().await.unwrap();
            let trailer = collected.trailers().unwrap()["x-sum"].clone();
            let mut response = Response::new(Body::from(collected.to_bytes()));
            response.headers_mut().insert("x-sum", trailer);
            Ok::<_, Infallible>(response)
        },
    ));
    let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
    let proof = format!(r#" {{"b":1, "intentId":"{intent}","txHash":"{}" }}"#, shop.pay(490_000));
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-sum", "7".parse().unwrap());
    let frames = [
        Frame::data(Bytes::copy_from_slice(&proof.as_bytes()[..10])),
        Frame::data(Bytes::copy_from_slice(&proof.as_bytes()[10..])),
        Frame::trailers(trailers),
    ];
    let body = Body::new(StreamBody::new(futures_util::stream::iter(frames.map(Ok::<_, Infallible>))));
    let answer = service.oneshot(json(body)).await.unwrap();
    assert_eq!(answer.headers()["x-sum"], "7");
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), proof);
}

#[tokio::test]
async fn a_future_polled_after_its_answer_panics() {
    let shop = Shop::open().await;
    let layer = shop.merchant.charge("answer", PRICE).unwrap();
    let service = layer.layer(Counted::default());
    let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
    for request in [post("{}"), post("not json"), redemption(&intent, shop.pay(490_000))] {
        let mut service = service.clone();
        let mut future = Box::pin(service.ready().await.unwrap().call(request));
        assert!(poll(future.as_mut()).is_ready());
        let again = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| poll(future.as_mut()).is_ready()));
        assert!(again.is_err());
    }
}

/// `call` does nothing that needs a runtime, and a quote never does.
#[test]
fn a_quote_needs_no_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let shop = runtime.block_on(Shop::open());
    drop(runtime);
    let mut service = shop.merchant.charge("answer", PRICE).unwrap().layer(Counted::default());
    assert!(poll_ready(&mut service).is_ready());
    let mut future = pin!(service.call(post("{}")));
    assert!(matches!(poll(future.as_mut()), Poll::Ready(Ok(quote)) if quote.status() == 402));
    // A redemption that is called and dropped unpolled needs none either.
    assert!(poll_ready(&mut service).is_ready());
    drop(service.call(by_header("x", &shop.pay(1).to_string(), Body::empty())));
}

/// With `tower-test`, request by request: what is refused never reaches the handler, what is sold reaches it once.
#[tokio::test]
async fn only_what_is_paid_reaches_the_handler() {
    let shop = Shop::open().await;
    let layer = shop.merchant.charge("answer", PRICE).unwrap();
    let (mut service, mut handle) = mock::spawn_layer::<MockRequest, Response<Body>, _>(layer);
    handle.allow(1);
    assert!(service.poll_ready().is_ready());
    let quote = service.call(post("{}")).await.unwrap();
    let intent = intent_of(&quote);
    assert!(pin!(handle.next_request()).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    handle.allow(2);
    assert!(service.poll_ready().is_ready());
    let answer = tokio::spawn(service.call(redemption(&intent, shop.pay(490_000))));
    let (request, respond) = handle.next_request().await.unwrap();
    assert_eq!(
        request.extensions().get::<tower_x402::Receipt>().map(|r| r.amount()),
        Some(Amount::from_base_units(490_000))
    );
    assert_eq!(shop.ledger.counts().unwrap().held, 1);
    respond.send_response(ok());
    assert_eq!(answer.await.unwrap().unwrap().status(), 200);
    assert_eq!(shop.ledger.counts().unwrap().consumed, 1);
}

#[expect(dead_code, reason = "the type of a layered service can be written down")]
struct Written(X402<tower::util::BoxCloneService<MockRequest, Response<Body>, Infallible>>, Option<Ready<()>>);
