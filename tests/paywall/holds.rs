//! What a payment is held for: a body that does not come holds none, and what never reached the handler is no attempt.

use std::{
    convert::Infallible,
    future::{Future as _, pending, poll_fn, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, StreamBody};
use tokio::time::{Instant, sleep};
use tower::{BoxError, Layer, Service, ServiceExt, limit::ConcurrencyLimit};
use tower_x402::{BuildError, RequestBody, protocol::TxHash};

use crate::{
    support::faults::{Op, Stage, give_way, handler, ok, quoted, settle, start},
    support::{Counter, Handler, answering, ask, assert_problem, intent_of, layered, post, proof, redemption},
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Pieces of a body, each after a pause; then nothing more, and no end.
fn trickle(pieces: impl IntoIterator<Item = (Duration, usize), IntoIter: Send + 'static>) -> Body {
    Body::new(StreamBody::new(stream::unfold(pieces.into_iter(), |mut pieces| async move {
        let Some((pause, bytes)) = pieces.next() else { return pending().await };
        sleep(pause).await;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; bytes]))), pieces))
    })))
}

/// The same, with an end.
fn ending(pieces: impl IntoIterator<Item = (Duration, usize), IntoIter: Send + 'static>) -> Body {
    Body::new(StreamBody::new(stream::unfold(pieces.into_iter(), |mut pieces| async move {
        let (pause, bytes) = pieces.next()?;
        sleep(pause).await;
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b'x'; bytes]))), pieces))
    })))
}

/// A body that announces its length.
struct Announced(Body, u64);

impl http_body::Body for Announced {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        std::pin::Pin::new(&mut self.0).poll_frame(cx)
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.1)
    }
}

fn by_header(intent: &str, tx: TxHash, body: Body) -> Request<Body> {
    Request::post("/answer").header("x402-payment", proof(intent, tx)).body(body).unwrap()
}

/// A handler that reads its body, and counts how often it was started.
fn reader(counter: Counter) -> impl Handler + Sync {
    tower::service_fn(move |request: Request<RequestBody<Body>>| {
        let counter = counter.clone();
        counter.run();
        async move {
            let read = request.into_body().collect().await.unwrap().to_bytes();
            Ok(Response::new(Body::from(read.len().to_string())))
        }
    })
}

#[tokio::test(start_paused = true)]
async fn a_small_body_is_there_before_its_payment_is_held() {
    for (length, held) in [(1, 0), (64 * 1024, 0), (64 * 1024 + 1, 1)] {
        let stage = Stage::open().await;
        let counter = Counter::default();
        let service = layered(&stage.layer(), reader(counter.clone()));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        let begun = Instant::now();
        let slow = start(&service, by_header(&intent, tx, Body::new(Announced(trickle([(seconds(9), 0)]), length))));
        sleep(seconds(5)).await;
        assert_eq!((stage.counts().held, counter.runs()), (held, held), "{length} bytes");
        assert_problem(slow.await.unwrap(), 408, "body_timeout").await;
        assert_eq!(begun.elapsed().as_secs(), 10);
        assert_eq!((stage.counts().held, counter.runs()), (0, held));
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_body_that_comes_slowly_is_sold_whole() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), reader(Counter::default()));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let body = Body::new(Announced(ending([(seconds(3), 3), (seconds(3), 4), (seconds(3), 5)]), 12));
    let answer = ask(&service, by_header(&intent, tx, body)).await;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "12");
}

/// A stranger shows the payer's transaction with intents of his own, and sends hardly anything.
#[tokio::test(start_paused = true)]
async fn a_stranger_who_sends_slowly_holds_a_payment_for_seconds() {
    let nothing = || trickle([]);
    let drops = || trickle(std::iter::repeat_n((seconds(4), 1), 1_000));
    let empty = || trickle(std::iter::repeat_n((seconds(1), 0), 10_000));
    let rush_and_stop = || trickle([(Duration::ZERO, 100_000)]);
    let bodies: [&dyn Fn() -> Body; 4] = [&nothing, &drops, &empty, &rush_and_stop];
    for body in bodies {
        let stage = Stage::open().await;
        let service = layered(&stage.layer(), reader(Counter::default()));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        // More often than the payer may fail.
        for _ in 0..20 {
            let stranger = quoted(&service).await;
            let begun = Instant::now();
            let hold = start(&service, by_header(&stranger, tx, body()));
            settle().await;
            assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "redemption_in_progress").await;
            assert_problem(hold.await.unwrap(), 408, "body_timeout").await;
            assert!((10..=13).contains(&begun.elapsed().as_secs()), "held for {:?}", begun.elapsed());
            assert_eq!((stage.counts().held, stage.counts().consumed), (0, 0));
        }
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200, "the payer's own tries are all there");
    }
}

/// A handler that was started is an attempt, whoever let it starve: otherwise one payment would start it without end.
#[tokio::test(start_paused = true)]
async fn a_body_that_stops_is_an_attempt_of_its_own_pair() {
    let stage = Stage::open().await;
    let counter = Counter::default();
    let service = layered(&stage.layer(), reader(counter.clone()));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    for _ in 0..16 {
        assert_problem(ask(&service, by_header(&intent, tx, trickle([]))).await, 408, "body_timeout").await;
    }
    assert_problem(ask(&service, by_header(&intent, tx, trickle([]))).await, 429, "too_many_attempts").await;
    assert_eq!(counter.runs(), 16);
    sleep(seconds(60)).await;
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_long_body_that_keeps_arriving_is_waited_for() {
    // 8 KiB a second, in pieces that each take up to nine seconds; and a tenth of that where the route says so.
    for (rate, piece, pause) in [(8 * 1024, 72 * 1024, 9), (8 * 1024, 8 * 1024, 1), (819, 7 * 1024, 8)] {
        let stage = Stage::open().await;
        let service = layered(&stage.layer().body_rate(rate).unwrap(), reader(Counter::default()));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        let pieces = 300 / pause as usize;
        let body = ending(std::iter::repeat_n((seconds(pause), piece), pieces));
        let answer = ask(&service, by_header(&intent, tx, body)).await;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), (pieces * piece).to_string());
    }
    let refused = Stage::open().await.layer().body_rate(0).map(drop);
    assert!(matches!(refused, Err(BuildError::OutOfRange { what: "body_rate" })));
}

/// The longest of all durations means "no time-out", here as for what is read before a payment is held.
#[tokio::test(start_paused = true)]
async fn a_patience_without_end_waits() {
    let stage = Stage::open().await;
    let layer = stage.layer().body_timeout(Duration::MAX).unwrap();
    let service = layered(&layer, reader(Counter::default()));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let body = ending([(seconds(30), 1), (seconds(60), 1)]);
    assert_eq!(ask(&service, by_header(&intent, tx, body)).await.status(), 200);
}

/// Whose turn it is to wait matters: what the handler does not read, it does not wait for.
#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_its_time_is_not_the_senders_fault() {
    let stage = Stage::open().await;
    let inner = tower::service_fn(async |request: Request<RequestBody<Body>>| {
        let mut body = request.into_body();
        for _ in 0..20 {
            sleep(seconds(20)).await;
            // Looks for a piece, and does not wait for it.
            let _ = poll_fn(|cx| Poll::Ready(std::pin::Pin::new(&mut body).poll_frame(cx).is_ready())).await;
        }
        Ok::<_, Infallible>(Response::new(Body::from(body.collect().await.unwrap().to_bytes())))
    });
    let service = layered(&stage.layer(), inner);
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let body = ending(std::iter::repeat_n((Duration::from_millis(1), 1), 30));
    assert_eq!(ask(&service, by_header(&intent, tx, body)).await.status(), 200);
}

/// Once the answer is sold nothing is held any more, and a conversation may take its time.
#[tokio::test(start_paused = true)]
async fn a_body_behind_the_answers_head_may_take_any_time() {
    let stage = Stage::open().await;
    let inner = tower::service_fn(async |request: Request<RequestBody<Body>>| {
        Ok::<_, Infallible>(Response::new(Body::new(request.into_body())))
    });
    let service = layered(&stage.layer(), inner);
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let answer = ask(&service, by_header(&intent, tx, ending(std::iter::repeat_n((seconds(100), 1), 3)))).await;
    assert_eq!((answer.status().as_u16(), stage.counts().consumed), (200, 1));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "xxx");
}

/// The body may be read in another task than the one that holds the payment, and without a runtime.
#[tokio::test]
async fn a_body_that_stops_is_noticed_wherever_it_is_read() {
    for thread in [false, true] {
        let stage = Stage::open().await;
        let inner = tower::service_fn(move |request: Request<RequestBody<Body>>| async move {
            let read = async { request.into_body().collect().await.unwrap().to_bytes() };
            let read = if thread {
                let (tell, told) = tokio::sync::oneshot::channel();
                std::thread::spawn(move || tell.send(futures_util::FutureExt::now_or_never(read)));
                told.await.unwrap();
                pending().await
            } else {
                tokio::spawn(read).await.unwrap()
            };
            Ok::<_, Infallible>(Response::new(Body::from(read)))
        });
        let layer = stage.layer().body_timeout(Duration::from_millis(300)).unwrap();
        let service = layered(&layer, inner);
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        let body = trickle([]);
        let answer = tokio::time::timeout(seconds(2), ask(&service, by_header(&intent, tx, body))).await;
        if thread {
            // It is not being read any more: nobody waits for it.
            assert!(answer.is_err());
        } else {
            assert_problem(answer.unwrap(), 408, "body_timeout").await;
        }
    }
}

/// As `tower::load_shed::LoadShed`: always ready, and an error at once where the service inside is not.
#[derive(Clone)]
struct LoadShed<S> {
    inner: S,
    is_ready: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("service overloaded")]
struct Overloaded;

impl<S, R> Service<R> for LoadShed<S>
where
    S: Service<R, Error: Into<BoxError>, Future: Send + 'static>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = futures_util::future::BoxFuture<'static, Result<S::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.is_ready = self.inner.poll_ready(cx).map_err(Into::into)?.is_ready();
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: R) -> Self::Future {
        if !std::mem::take(&mut self.is_ready) {
            return Box::pin(async { Err(Overloaded.into()) });
        }
        let answer = self.inner.call(request);
        Box::pin(async { answer.await.map_err(Into::into) })
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_shed_before_the_handler_is_no_attempt() {
    let stage = Stage::open().await;
    let inner = ConcurrencyLimit::new(handler(|_| async { ok() }), 1);
    let mut other = inner.clone();
    let service = stage.layer().layer(LoadShed { inner, is_ready: false });
    let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
    let tx = stage.shop.pay(490_000);
    // Another request has the only place.
    let taken = ServiceExt::<Request<RequestBody<Body>>>::ready(&mut other).await.is_ok();
    assert!(taken);
    for _ in 0..40 {
        let error: BoxError = service.clone().oneshot(redemption(&intent, tx)).await.err().unwrap();
        assert!(error.is::<Overloaded>());
        assert_eq!(stage.counts().held, 0);
    }
    drop(other);
    assert_eq!(service.oneshot(redemption(&intent, tx)).await.unwrap().status(), 200);
}

/// An error after the handler waited for anything is one of its runs.
#[tokio::test(start_paused = true)]
async fn a_handler_that_fails_with_an_error_is_an_attempt() {
    let stage = Stage::open().await;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let service = stage.layer().layer(tower::service_fn(move |_: Request<RequestBody<Body>>| {
        counted.fetch_add(1, Ordering::SeqCst);
        async {
            give_way().await;
            Err::<Response<Body>, _>("broken")
        }
    }));
    let intent = intent_of(&service.clone().oneshot(post("{}")).await.unwrap());
    let tx = stage.shop.pay(490_000);
    for _ in 0..16 {
        assert_eq!(service.clone().oneshot(redemption(&intent, tx)).await.unwrap_err(), "broken");
    }
    assert_problem(service.oneshot(redemption(&intent, tx)).await.unwrap(), 429, "too_many_attempts").await;
    assert_eq!(runs.load(Ordering::SeqCst), 16);
}

/// Nor is a response ever taken for one that did not reach the handler.
#[tokio::test(start_paused = true)]
async fn a_response_at_once_is_an_attempt() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), answering(Counter::default(), |_| crate::support::with_status(503)));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    for _ in 0..16 {
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 503);
    }
    assert_problem(ask(&service, redemption(&intent, tx)).await, 429, "too_many_attempts").await;
}

/// The ledger hears nothing more of a payment that is sold.
#[tokio::test(start_paused = true)]
async fn a_sale_gives_nothing_back() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|_| ready(ok())));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    settle().await;
    assert_eq!((stage.ledger.asked(Op::Commit), stage.ledger.asked(Op::Release)), (1, 0));
}

/// A hold that a stranger leaves at any point of a slow body leaves no lease behind.
#[tokio::test(start_paused = true)]
async fn who_leaves_while_a_body_is_waited_for_frees_the_payment() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), reader(Counter::default()));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let mut future = Box::pin(service.clone().oneshot(by_header(&intent, tx, trickle([]))));
    for _ in 0..3 {
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    assert_eq!(stage.counts().held, 1);
    drop(future);
    settle().await;
    assert_eq!(stage.counts().held, 0);
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
}
