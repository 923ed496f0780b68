//! An answer that was sold is not lost: the same pair gets it again, byte for byte, for a while.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use tokio::time::{Instant, sleep};
use tower_x402::{Price, Redelivery, X402Layer, ledger::MemoryLedger, protocol::Amount, verify::VerifyError};

use crate::support::{
    Answer, Counter, Shop, answering, ask, assert_problem, by_header,
    faults::{Fault, Op, Stage, quoted},
    layered, post, proof, redemption, with_status,
};

const QUARTER: Duration = Duration::from_secs(15 * 60);

fn kept(stage: &Stage) -> X402Layer {
    stage.layer().redeliver(Redelivery::lasting(QUARTER))
}

/// An answer with much that can get lost on the way, and a number of its own.
fn numbered(counter: Counter) -> impl crate::support::Handler {
    let runs = counter.clone();
    answering(counter, move |_| {
        let mut response = Response::new(Body::from(format!("answer {}", runs.runs())));
        *response.status_mut() = StatusCode::CREATED;
        for (name, value) in
            [("content-type", "text/x"), ("set-cookie", "a=1"), ("set-cookie", "b=2"), ("expires", "0")]
        {
            response.headers_mut().append(name, value.parse().unwrap());
        }
        response
    })
}

/// Status, headers and body of an answer.
async fn whole(answer: Answer) -> (StatusCode, HeaderMap, Bytes) {
    let (parts, body) = answer.into_parts();
    (parts.status, parts.headers, body.collect().await.unwrap().to_bytes())
}

/// Asserts that `again` is `first`, delivered once more.
async fn assert_replayed(again: Answer, first: &(StatusCode, HeaderMap, Bytes)) {
    let (status, mut headers, body) = whole(again).await;
    assert_eq!(headers.remove("idempotent-replayed").unwrap(), "true");
    assert_eq!((status, &headers, &body), (first.0, &first.1, &first.2));
}

#[tokio::test(start_paused = true)]
async fn the_same_pair_gets_the_same_answer_until_its_time_is_over() {
    let stage = Stage::open().await;
    let counter = Counter::default();
    let service = layered(&kept(&stage), numbered(counter.clone()));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let first = whole(ask(&service, redemption(&intent, tx)).await).await;
    assert_eq!((first.0.as_u16(), &first.2[..]), (201, &b"answer 1"[..]));
    assert!(!first.1.contains_key("idempotent-replayed") && first.1.contains_key("payment-response"));
    for _ in 0..3 {
        assert_replayed(ask(&service, redemption(&intent, tx)).await, &first).await;
        assert_replayed(ask(&service, by_header("PUT", &intent, tx)).await, &first).await;
    }
    // For another transaction there is none, and with another intent the payment is used.
    let other = stage.shop.pay(490_000);
    assert_problem(ask(&service, redemption(&intent, other)).await, 409, "already_consumed").await;
    let fresh = quoted(&service).await;
    assert_problem(ask(&service, redemption(&fresh, tx)).await, 409, "tx_already_used").await;
    sleep(QUARTER).await;
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    assert_eq!((counter.runs(), stage.counts().consumed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn without_the_setting_nothing_is_kept() {
    for off in [None, Some(Redelivery::lasting(Duration::ZERO))] {
        let stage = Stage::open().await;
        let layer = off.into_iter().fold(stage.layer(), X402Layer::redeliver);
        let service = layered(&layer, numbered(Counter::default()));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 201);
        assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    }
}

/// A route may keep more than the line to the ledger carries in time. The sale counts for more than a second delivery.
#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_kept_in_time_is_sold_without_being_kept() {
    for (length, is_sold) in [(64 * 1024 + 1, true), (1_000, false)] {
        let stage = Stage::open().await;
        let counter = Counter::default();
        let layer = stage.layer().redeliver(Redelivery::lasting(QUARTER).up_to(1 << 20));
        let service =
            layered(&layer, answering(counter.clone(), move |_| Response::new(Body::from(vec![b'x'; length]))));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.slow_to_keep();
        let answer = ask(&service, redemption(&intent, tx)).await;
        if is_sold {
            assert_eq!(answer.status(), 200);
            assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
        } else {
            // It is not its length that keeps the ledger from answering.
            assert_problem(answer, 503, "outcome_unknown").await;
        }
        assert_eq!((counter.runs(), stage.counts().consumed), (1, u64::from(is_sold)), "{length}");
    }
}

/// An answer that was kept in a try whose end is not heard stays, and so does one of which the ledger said at once that it failed.
#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_where_its_commit_is_tried_again() {
    for fault in [Fault::Fail, Fault::AnswerLost, Fault::AnswerHangs] {
        let stage = Stage::open().await;
        let counter = Counter::default();
        let service = layered(&kept(&stage), numbered(counter.clone()));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.next(Op::Commit, [fault]);
        let first = whole(ask(&service, redemption(&intent, tx)).await).await;
        assert_replayed(ask(&service, redemption(&intent, tx)).await, &first).await;
        assert_eq!((counter.runs(), stage.counts().consumed), (1, 1), "{fault:?}");
    }
}

/// Whatever else is true of the request, the handler does not run and the answer comes.
#[tokio::test(start_paused = true)]
async fn neither_the_price_nor_the_body_nor_the_chain_matters_any_more() {
    let stage = Stage::open().await;
    let counter = Counter::default();
    let price = |_: &http::request::Parts, body: &Bytes| match &body[..] {
        b"refused" => Price::Refuse(tower_x402::Refusal::new(Response::new(Bytes::from("no")))),
        body => Price::Charge(Amount::from_base_units(490_000 + 1_000 * body.len() as u128)),
    };
    let layer = stage.shop.merchant.price_with("priced", price).unwrap().redeliver(Redelivery::lasting(QUARTER));
    let service = layered(&layer.body_limit(100).unwrap(), numbered(counter.clone()));
    let intent = quoted(&service).await;
    let tx = stage.shop.pay(1_000_000);
    let by_header = |body: &[u8]| {
        Request::post("/answer").header("x402-payment", proof(&intent, tx)).body(Body::from(body.to_vec())).unwrap()
    };
    let first = whole(ask(&service, by_header(b"{}")).await).await;
    assert_eq!(first.0, 201);
    for body in [&b""[..], b"another", b"refused", &[b'x'; 101]] {
        assert_replayed(ask(&service, by_header(body)).await, &first).await;
    }
    let broken = StreamBody::new(stream::iter([Err::<Frame<Bytes>, _>(std::io::Error::other("gone"))]));
    let (parts, _) = by_header(b"").into_parts();
    assert_replayed(ask(&service, Request::from_parts(parts, Body::new(broken))).await, &first).await;
    stage.shop.chain.outage(VerifyError::unavailable());
    assert_replayed(ask(&service, by_header(b"{}")).await, &first).await;
    assert_eq!(counter.runs(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sale_whose_record_was_not_confirmed_is_delivered_when_it_is_asked_for_again() {
    for fault in [Fault::AnswerLost, Fault::AnswerHangs] {
        let stage = Stage::open().await;
        let counter = Counter::default();
        let service = layered(&kept(&stage), numbered(counter.clone()));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.always(Op::Commit, fault);
        assert_problem(ask(&service, redemption(&intent, tx)).await, 503, "outcome_unknown").await;
        stage.ledger.heal();
        let (status, headers, body) = whole(ask(&service, redemption(&intent, tx)).await).await;
        assert_eq!(
            (status.as_u16(), &body[..], headers["idempotent-replayed"].as_bytes()),
            (201, &b"answer 1"[..], &b"true"[..])
        );
        assert!(headers.contains_key("payment-response"));
        assert_eq!((counter.runs(), stage.counts().consumed), (1, 1));
    }
}

/// The ledger says that the intent is consumed, and then not what it bought: asked again, it may.
#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_looked_up_now_is_not_given_up() {
    let stage = Stage::open().await;
    let service = layered(&kept(&stage), numbered(Counter::default()));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let first = whole(ask(&service, redemption(&intent, tx)).await).await;
    stage.ledger.always(Op::IsConsumed, Fault::Fail);
    assert_problem(ask(&service, redemption(&intent, tx)).await, 503, "ledger_unavailable").await;
    stage.ledger.heal();
    assert_replayed(ask(&service, redemption(&intent, tx)).await, &first).await;
}

/// A body of these pieces, each after that many milliseconds, and at the end what `end` says.
fn pieces(
    pieces: &'static [(u64, &'static str)],
    end: impl FnOnce() -> Option<Result<Frame<Bytes>, &'static str>> + Send + 'static,
) -> Body {
    let paced = stream::unfold((pieces, Some(end)), |(rest, end)| async move {
        match rest.split_first() {
            Some(((wait, text), rest)) => {
                sleep(Duration::from_millis(*wait)).await;
                Some((Ok(Frame::data(Bytes::from_static(text.as_bytes()))), (rest, end)))
            }
            None => end?().map(|last| (last, (rest, None))),
        }
    });
    Body::new(StreamBody::new(Box::pin(paced)))
}

fn serving<F>(counter: Counter, body: F) -> impl crate::support::Handler
where
    F: Fn() -> Body + Clone + Send + 'static,
{
    answering(counter, move |_| Response::new(body()))
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_or_has_trailers_is_delivered_and_not_kept() {
    let trailers = || {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        Some(Ok(Frame::trailers(trailers)))
    };
    type Make = fn() -> Body;
    let cases: [(&str, Make, bool); 4] = [
        ("in pieces, at the limit", || pieces(&[(1, "12345"), (1, "67890")], || None), true),
        ("announced above the limit", || Body::from("12345678901"), false),
        ("in pieces, above it", || pieces(&[(1, "12345"), (1, "67890"), (1, "1")], || None), false),
        ("at the limit", || Body::from("1234567890"), true),
    ];
    for (name, body, is_kept) in cases {
        let stage = Stage::open().await;
        let counter = Counter::default();
        let layer = stage.layer().redeliver(Redelivery::lasting(QUARTER).up_to(10));
        let service = layered(&layer, serving(counter.clone(), body));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        let first = whole(ask(&service, redemption(&intent, tx)).await).await;
        assert_eq!((first.0.as_u16(), &first.2[..5]), (200, &b"12345"[..]), "{name}");
        let again = ask(&service, redemption(&intent, tx)).await;
        if is_kept {
            assert_replayed(again, &first).await;
        } else {
            assert_problem(again, 409, "already_consumed").await;
        }
        assert_eq!((counter.runs(), stage.counts().consumed), (1, 1), "{name}");
    }
    let stage = Stage::open().await;
    let service = layered(&kept(&stage), serving(Counter::default(), move || pieces(&[(1, "12345")], trailers)));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let answer = ask(&service, redemption(&intent, tx)).await.into_body().collect().await.unwrap();
    assert_eq!(answer.trailers().unwrap()["x-sum"], "1");
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
}

/// What comes bit by bit by its nature is not held back at all.
#[tokio::test(start_paused = true)]
async fn event_streams_and_grpc_leave_at_once() {
    for content_type in
        ["text/event-stream; charset=utf-8", "Text/Event-Stream", "application/grpc", "application/grpc+proto"]
    {
        let stage = Stage::open().await;
        let streaming = answering(Counter::default(), move |_| {
            let mut response = Response::new(pieces(&[(3_000, "a"), (3_000, "b")], || None));
            response.headers_mut().insert("content-type", content_type.parse().unwrap());
            response
        });
        let service = layered(&kept(&stage), streaming);
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        let begun = Instant::now();
        let answer = ask(&service, redemption(&intent, tx)).await;
        assert_eq!((begun.elapsed().as_secs(), stage.counts().consumed), (0, 1), "{content_type}");
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "ab");
        assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    }
}

/// A stream that goes on is not held back for long: its beginning and its rest leave as they would have.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_is_sold_after_ten_seconds_and_goes_on() {
    let stage = Stage::open().await;
    let slow = || pieces(&[(4_000, "a"), (4_000, "b"), (4_000, "c"), (60_000, "d")], || None);
    let service = layered(&kept(&stage), serving(Counter::default(), slow));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let begun = Instant::now();
    let answer = ask(&service, redemption(&intent, tx)).await;
    assert_eq!((begun.elapsed().as_secs(), stage.counts().consumed), (10, 1));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "abcd");
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
}

/// What breaks off before it was sold is not sold, and nothing of it leaves.
#[tokio::test(start_paused = true)]
async fn an_answer_that_breaks_off_before_its_sale_takes_nothing() {
    let stage = Stage::open().await;
    let counter = Counter::default();
    let runs = counter.clone();
    let service = layered(
        &kept(&stage),
        serving(counter.clone(), move || match runs.runs() {
            1 => pieces(&[(1, "secret")], || Some(Err("broke"))),
            _ => Body::from("the answer"),
        }),
    );
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let body = assert_problem(ask(&service, redemption(&intent, tx)).await, 502, "answer_broken").await;
    assert!(!body.to_string().contains("secret"));
    assert_eq!((stage.counts().consumed, stage.counts().held), (0, 0));
    assert_eq!(whole(ask(&service, redemption(&intent, tx)).await).await.2, "the answer");
    assert_eq!((stage.counts().consumed, counter.runs()), (1, 2));
}

/// An answer that is still stored is not given, whatever refuses the request: a sold payment, or a node that is down.
#[tokio::test(start_paused = true)]
async fn a_route_that_no_longer_delivers_again_gives_no_stored_answer() {
    let stage = Stage::open().await;
    let service = layered(&kept(&stage), numbered(Counter::default()));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let first = whole(ask(&service, redemption(&intent, tx)).await).await;
    assert_eq!(first.0.as_u16(), 201);
    let off = layered(&stage.layer(), numbered(Counter::default()));
    assert_problem(ask(&off, redemption(&intent, tx)).await, 409, "already_consumed").await;
    stage.shop.chain.outage(VerifyError::unavailable());
    assert_problem(ask(&off, redemption(&intent, tx)).await, 409, "already_consumed").await;
    assert_replayed(ask(&service, redemption(&intent, tx)).await, &first).await;
}

/// Under a lease that is lost meanwhile nothing leaves.
#[tokio::test(start_paused = true)]
async fn a_lease_lost_while_an_answer_is_read_sells_nothing_under_it() {
    let stage = Stage::open_with(|builder| builder.lease(Duration::from_secs(1))).await;
    let counter = Counter::default();
    let runs = counter.clone();
    let service = layered(
        &kept(&stage),
        serving(counter.clone(), move || match runs.runs() {
            1 => pieces(&[(5_000, "the slow one")], || None),
            _ => Body::from("the quick one"),
        }),
    );
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    stage.ledger.always(Op::Renew, Fault::Fail);
    let slow = crate::support::faults::start(&service, redemption(&intent, tx));
    sleep(Duration::from_millis(1_500)).await;
    let quick = whole(ask(&service, redemption(&intent, tx)).await).await;
    assert_eq!(quick.2, "the quick one");
    // What was sold for this very pair is the slow one's answer, too.
    assert_replayed(slow.await.unwrap(), &quick).await;
    assert_eq!((stage.counts().consumed, counter.runs()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn neither_a_failure_nor_what_is_given_away_is_kept() {
    let stage = Stage::open().await;
    let counter = Counter::default();
    let runs = counter.clone();
    let service = layered(
        &kept(&stage),
        answering(counter.clone(), move |_| with_status(if runs.runs() == 1 { 422 } else { 200 })),
    );
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 422);
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    assert_eq!(counter.runs(), 2);
}

/// Who has no proof gets a bill, and a half proof its refusal, kept answer or not.
#[tokio::test(start_paused = true)]
async fn an_answer_is_delivered_again_to_the_whole_pair_only() {
    let stage = Stage::open().await;
    let service = layered(&kept(&stage), numbered(Counter::default()));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 201);
    assert_eq!(ask(&service, post("{}")).await.status(), 402);
    assert_problem(ask(&service, post(format!(r#"{{"intentId":"{intent}"}}"#))).await, 400, "tx_required").await;
    let only = ask(&service, post(format!(r#"{{"txHash":"{tx}"}}"#))).await;
    assert_eq!(only.status(), 400);
    assert_eq!(ask(&service, by_header("HEAD", &intent, tx)).await.status(), 400);
}

/// A body that never ends, for `poll_frame` alone.
struct Endless;

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b'x'; 1024])))))
    }
}

#[tokio::test]
async fn an_endless_answer_is_read_up_to_the_limit_and_no_further() {
    let stage = Stage::open().await;
    let service = layered(&kept(&stage), serving(Counter::default(), || Body::new(Endless)));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    let answer = ask(&service, redemption(&intent, tx)).await;
    assert_eq!((answer.status().as_u16(), stage.counts().consumed), (200, 1));
    let first = answer.into_body().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!((256 * 1024..258 * 1024).contains(&first.len()), "{}", first.len());
}

/// Whoever announces another length than it sends has broken off, or will be cut off: the payer could never read what is kept.
#[tokio::test(start_paused = true)]
async fn an_answer_of_another_length_than_announced_is_not_sold() {
    for (announced, is_sold) in [("8", true), ("9", false), ("7", false), ("0", false), ("eight", false)] {
        let stage = Stage::open().await;
        let counter = Counter::default();
        let handler = answering(counter.clone(), move |_| {
            let mut response = Response::new(pieces(&[(1, "8 "), (1, "bytes.")], || None));
            response.headers_mut().insert("content-length", announced.parse().unwrap());
            response
        });
        let service = layered(&kept(&stage), handler);
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        let answer = ask(&service, redemption(&intent, tx)).await;
        if is_sold {
            assert_eq!(whole(answer).await.2, "8 bytes.");
        } else {
            assert_problem(answer, 502, "answer_broken").await;
        }
        assert_eq!(stage.counts().consumed, u64::from(is_sold), "announced {announced}");
    }
}

/// A ledger that keeps no answers sells all the same.
#[tokio::test]
async fn without_space_for_answers_none_is_delivered_again() {
    for (space, status) in [(0, 409), (64 * 1024, 201)] {
        let ledger = MemoryLedger::new().answers_up_to(space).unwrap();
        let shop = Shop::open_with(|merchant| merchant.ledger(ledger)).await;
        let counter = Counter::default();
        let service = layered(&shop.layer().redeliver(Redelivery::lasting(QUARTER)), numbered(counter.clone()));
        let (intent, tx) = (quoted(&service).await, shop.pay(490_000));
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 201);
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status().as_u16(), status, "{space}");
        assert_eq!(counter.runs(), 1);
    }
}
