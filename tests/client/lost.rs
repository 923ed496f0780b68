//! No sold answer is lost: one that breaks off is asked for again, with the same proof.

use std::{
    collections::HashSet,
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use tokio::time::Instant;
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    Redelivery, RequestBody,
    client::{Body, PayErrorKind, PurchaseState, ResumeOnly},
};

use super::{
    Market, question,
    rig::{AnyBody, Asked, Reply, Seller, TAKEN, any, ask, call, problem, reply, text},
};

const LIMIT: usize = 256 * 1024;

type Piece = Result<Frame<Bytes>, String>;

fn piece(bytes: impl Into<Bytes>) -> Piece {
    Ok(Frame::data(bytes.into()))
}

/// A sold answer with this body.
fn sold_as(body: AnyBody) -> Reply {
    Reply::Answer(Response::builder().header("payment-response", TAKEN).body(body).unwrap())
}

/// A sold answer of these pieces, that breaks off.
fn broken(pieces: Vec<Piece>) -> Reply {
    let cut = stream::iter([Err("the connection broke".to_owned())]);
    sold_as(any(StreamBody::new(stream::iter(pieces).chain(cut))))
}

fn cut() -> Reply {
    broken(vec![piece("the a")])
}

/// The seller keeps its answers, as it says.
fn replayed() -> Reply {
    reply(200, &[("payment-response", TAKEN), ("idempotent-replayed", "true")], "the answer")
}

fn proofs(seller: &Seller) -> HashSet<(String, String, bool)> {
    seller.asked().into_iter().filter_map(|asked: Asked| asked.proof).collect()
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_is_asked_for_again_and_is_whole() {
    let beginnings: [fn() -> Vec<Piece>; 4] =
        [Vec::new, || vec![piece("the a")], || vec![piece(vec![0; LIMIT])], || (0..100).map(|_| piece("")).collect()];
    for beginning in beginnings {
        let market = Market::open().await;
        let seller = Seller::paid(move |asked| if asked.proofs < 2 { broken(beginning()) } else { replayed() });
        let got = ask(&market.layer().await, &seller, question("{}")).await.unwrap();
        assert_eq!((got.text.as_str(), got.headers["idempotent-replayed"].as_bytes()), ("the answer", &b"true"[..]));
        let bought = got.purchase.unwrap();
        assert_eq!((bought.state, bought.confirmed, bought.attempts), (PurchaseState::Answered, true, 3));
        assert_eq!((market.wallet.transfers(), proofs(&seller).len()), (1, 1), "the same proof each time");
        assert_eq!(market.journal.entries()[0].state, PurchaseState::Answered);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_given_again_is_an_error_of_its_own() {
    for code in ["already_consumed", "tx_already_used"] {
        let market = Market::open().await;
        let layer = market.layer().await;
        let seller = Seller::paid(move |asked| if asked.proofs == 0 { cut() } else { problem(409, code, &[]) });
        let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
        assert_eq!((error.kind(), error.reason()), (PayErrorKind::AnswerLost, Some(code)), "{error}");
        let transaction = error.transaction().unwrap();
        let said = error.to_string();
        for part in ["was lost after it was sold", "contact the seller", code, &transaction.to_string()] {
            assert!(said.contains(part), "{said}");
        }
        assert_eq!((error.transaction(), error.is_resumable()), (market.journal.entries()[0].transaction, false));
        assert_eq!((layer.unfinished().len(), market.wallet.transfers()), (0, 1));
    }
    // Without an answer before it, it is what it was.
    let market = Market::open().await;
    let seller = Seller::paid(|_| problem(409, "already_consumed", &[]));
    let error = ask(&market.layer().await, &seller, question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Refused, "{error}");
}

/// The seller is asked a few times in one call, and the purchase stays open for the next one.
#[tokio::test(start_paused = true)]
async fn an_answer_that_always_breaks_off_is_left_to_the_next_call() {
    for request in [resuming(), question("{}")] {
        let market = Market::open().await;
        let breaking = Seller::paid(|_| cut());
        let error = ask(&market.layer().await, &breaking, question("{}")).await.unwrap_err();
        assert!(
            error.kind() == PayErrorKind::Unanswered && error.reason().is_none() && error.is_resumable(),
            "{error}"
        );
        assert_eq!((breaking.proofs(), market.journal.entries()[0].state), (3, PurchaseState::Redeeming));
        // Another process on the same journal.
        let seller = Seller::paid(|_| replayed());
        assert_eq!(ask(&market.layer().await, &seller, request).await.unwrap().text, "the answer");
        assert_eq!((proofs(&seller), market.wallet.transfers()), (proofs(&breaking), 1));
        assert_eq!(market.journal.entries()[0].state, PurchaseState::Answered);
    }
}

fn resuming() -> Request<Body> {
    let mut request = question("{}");
    request.extensions_mut().insert(ResumeOnly);
    request
}

/// Between head and end of the answer the buyer crashes: it is not closed, and comes to whoever asks again.
#[tokio::test(start_paused = true)]
async fn a_buyer_that_dies_while_it_reads_gets_the_answer_by_the_same_request() {
    for unspent in [false, true] {
        let market = Market::open().await;
        if unspent {
            // It was declined at first, and is shown again as it was.
            ask(&market.layer().await, &Seller::paid(|_| reply(400, &[], "no")), question("{}")).await.unwrap();
        }
        let request = if unspent { resuming() } else { question("{}") };
        let hanging = Seller::paid(|_| {
            let slow = stream::iter([piece("the a")]).chain(stream::pending());
            sold_as(any(StreamBody::new(slow)))
        });
        let layer = market.layer().await;
        let mut call = Box::pin(ask(&layer, &hanging, request));
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut call).await.is_err());
        drop(call);
        assert_eq!((hanging.proofs(), market.journal.entries()[0].state), (1, PurchaseState::Redeeming));
        let seller = Seller::paid(|_| replayed());
        // No more is needed than the same request, also where the payment was left unspent before.
        assert_eq!(ask(&market.layer().await, &seller, question("{}")).await.unwrap().text, "the answer");
        assert_eq!((proofs(&seller), market.wallet.transfers()), (proofs(&hanging), 1), "unspent: {unspent}");
    }
}

/// One piece now and then, as a stream of events comes.
fn events(pieces: u64) -> AnyBody {
    any(StreamBody::new(Box::pin(stream::unfold(0, move |number| async move {
        if number == pieces {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        Some((piece("event "), number + 1))
    }))))
}

/// What comes slowly is handed on after two seconds, and nothing of it is missing.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_not_kept_from_the_caller() {
    let market = Market::open().await;
    let client = market.layer().await.layer(Seller::paid(|_| sold_as(events(10))));
    let started = Instant::now();
    let answer = client.oneshot(question("{}")).await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "event ".repeat(10));
}

/// A body that counts what is read of it.
struct Counted<B>(B, Arc<Mutex<usize>>);

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Counted<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.0).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            *self.1.lock().unwrap() += frame.data_ref().map_or(0, Bytes::len);
        }
        frame
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.0.size_hint()
    }
}

/// What is larger than the limit is not gathered in memory, whether its size is told or not.
#[tokio::test(start_paused = true)]
async fn a_large_answer_streams() {
    let told = |_: usize| text("x".repeat(LIMIT + 1));
    let untold = |pieces: usize| any(StreamBody::new(stream::iter((0..pieces).map(|_| piece(vec![b'x'; 1024])))));
    for (is_told, read_ahead, read_at_most) in
        [(true, None, 0), (false, None, LIMIT + 1024), (false, Some(0), 0), (false, Some(2048), 3072)]
    {
        let market = Market::open().await;
        let read = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&read);
        let seller = Seller::paid(move |_| {
            let body = if is_told { told(0) } else { untold(LIMIT / 1024 + 64) };
            sold_as(any(Counted(body, Arc::clone(&counted))))
        });
        let layer = market.layer_with(|builder| match read_ahead {
            Some(bytes) => builder.read_ahead(bytes),
            None => builder,
        });
        let answer = layer.await.layer(seller).oneshot(question("{}")).await.unwrap();
        assert!(*read.lock().unwrap() <= read_at_most, "{} of at most {read_at_most}", read.lock().unwrap());
        let whole = if is_told { LIMIT + 1 } else { LIMIT + 64 * 1024 };
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), whole);
    }
}

/// A large one that breaks off is the caller's, who may ask again.
#[tokio::test(start_paused = true)]
async fn a_large_answer_that_breaks_off_breaks_off_for_the_caller() {
    let market = Market::open().await;
    let seller = Seller::paid(|_| broken((0..300).map(|_| piece(vec![b'x'; 1024])).collect()));
    let answer = market.layer().await.layer(seller.clone()).oneshot(question("{}")).await.unwrap();
    assert!(answer.into_body().collect().await.is_err());
    assert_eq!((seller.proofs(), market.journal.entries()[0].state), (1, PurchaseState::Redeeming));
}

/// Trailers are part of an answer.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_read_ahead_has_its_trailers_and_its_size() {
    let market = Market::open().await;
    let seller = Seller::paid(|_| {
        let trailers = HeaderMap::from_iter([(http::header::ETAG, "\"x\"".parse().unwrap())]);
        sold_as(any(StreamBody::new(stream::iter([piece("the answer"), Ok(Frame::trailers(trailers))]))))
    });
    let answer = market.layer().await.layer(seller).oneshot(question("{}")).await.unwrap();
    assert_eq!(http_body::Body::size_hint(answer.body()).exact(), Some(10));
    let collected = answer.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["etag"], "\"x\"");
    assert_eq!(collected.to_bytes(), "the answer");
}

/// What was not sold is not read ahead: it is the service's own word, and nothing is lost with it.
#[tokio::test(start_paused = true)]
async fn only_what_was_sold_is_asked_for_again() {
    let market = Market::open().await;
    let seller = Seller::paid(|_| {
        let cut = stream::iter([piece("not to"), Err("the connection broke".to_owned())]);
        Reply::Answer(Response::new(any(StreamBody::new(cut))))
    });
    let answer = market.layer().await.layer(seller.clone()).oneshot(question("{}")).await.unwrap();
    assert!(answer.into_body().collect().await.is_err());
    assert_eq!((seller.proofs(), market.journal.entries()[0].state), (1, PurchaseState::Unspent));
}

/// A connection to a seller of ours whose first sold answer breaks off, or is not heard of at all.
#[tokio::test(start_paused = true)]
async fn a_seller_that_keeps_its_answers_sells_once_and_answers_all_the_same() {
    for (kept_for, unheard) in [(60, false), (60, true), (0, false)] {
        let market = Market::open().await;
        let (runs, cuts) = (market.runs.clone(), Arc::new(AtomicUsize::new(0)));
        let handler = tower::service_fn(move |_: Request<RequestBody<Body>>| {
            runs.run();
            async { Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("the answer"))) }
        });
        let layer = market.shop.layer().redeliver(Redelivery::lasting(Duration::from_secs(kept_for)));
        let seller = layer.layer(handler);
        let connection = tower::service_fn(move |request: Request<Body>| {
            let (seller, cuts) = (seller.clone(), Arc::clone(&cuts));
            async move {
                let (parts, body) = seller.oneshot(request).await.unwrap().into_parts();
                let sold = parts.headers.contains_key("payment-response");
                if !sold || cuts.fetch_add(1, Ordering::SeqCst) > 0 {
                    return Ok(Response::from_parts(parts, any(body)));
                }
                if unheard {
                    return Err("the connection broke".to_owned());
                }
                let cut = stream::iter([piece("the a"), Err("the connection broke".to_owned())]);
                Ok(Response::from_parts(parts, any(StreamBody::new(cut))))
            }
        });
        let client = market.layer().await.layer(connection);
        let got = call(&client, question("{}")).await;
        assert_eq!((market.runs.runs(), market.wallet.transfers()), (1, 1));
        if kept_for == 0 {
            assert!(got.as_ref().is_err_and(|error| error.kind() == PayErrorKind::AnswerLost), "{got:?}");
            continue;
        }
        let got = got.unwrap();
        assert_eq!((got.text.as_str(), got.headers["idempotent-replayed"].as_bytes()), ("the answer", &b"true"[..]));
        assert!(got.purchase.unwrap().confirmed);
    }
}
