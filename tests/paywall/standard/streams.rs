//! Answers that come bit by bit, and chains that change their mind.

use std::{convert::Infallible, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::BodyExt as _;
use tokio::{sync::mpsc, time::timeout};
use tower_x402::{Redelivery, RequestBody, protocol::v2::Reason, testing::Settling};

use super::{Stall, offered, paid, pays, settled};
use crate::support::{Counter, ask, assert_problem, echo, layered};

/// A body that ends when its sender does.
fn stream(mut pieces: mpsc::Receiver<&'static str>) -> Body {
    Body::from_stream(futures_util::stream::poll_fn(move |cx| {
        pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok::<_, Infallible>(Bytes::from(piece))))
    }))
}

/// It is paid for at its head, and passed on piece by piece: nothing is waited for, also where answers are kept.
#[tokio::test(start_paused = true)]
async fn a_paid_stream_is_not_buffered() {
    for kept in [false, true] {
        let stall = Stall::open().await;
        let (sender, receiver) = mpsc::channel(1);
        let receiver = std::sync::Arc::new(std::sync::Mutex::new(Some(receiver)));
        let events = tower::service_fn(move |_: Request<RequestBody<Body>>| {
            let pieces = receiver.lock().unwrap().take().unwrap();
            async move {
                let mut response = Response::new(stream(pieces));
                response.headers_mut().insert(header::CONTENT_TYPE, "text/event-stream".parse().unwrap());
                Ok::<_, Infallible>(response)
            }
        });
        let mut layer = stall.shop.layer();
        if kept {
            layer = layer.redeliver(Redelivery::lasting(Duration::from_secs(60)));
        }
        let service = layered(&layer, events);
        let payment = pays(&offered(&service).await);
        // The head leaves, settled, though no piece of the body is there.
        let answer = timeout(Duration::from_secs(1), ask(&service, paid(&payment))).await.unwrap();
        assert!(answer.status() == 200 && settled(&answer).success);
        assert_eq!(stall.settler.settlements(), 1);
        let mut body = answer.into_body();
        for piece in ["data: 1\n\n", "data: 2\n\n"] {
            sender.send(piece).await.unwrap();
            let frame = timeout(Duration::from_secs(1), body.frame()).await.unwrap().unwrap().unwrap();
            assert_eq!(frame.into_data().unwrap(), piece);
        }
    }
}

/// A reorganisation takes the settlement before it was confirmed: it is settled once more, and charged once.
#[tokio::test(start_paused = true)]
async fn a_settlement_that_a_reorganisation_takes_is_made_again() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Held]);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 503);
    let mined = stall.settler.release()[0];
    stall.shop.chain.forget(mined);
    stall.lease_runs_out();
    let answer = ask(&service, paid(&payment)).await;
    let told = settled(&answer);
    assert!(answer.status() == 200 && told.success && told.transaction != Some(mined));
    assert_eq!((counter.runs(), stall.settler.settlements()), (2, 2));
}

/// It takes it after the sale: what was sold stays sold, and the payer is not charged by showing it again.
#[tokio::test(start_paused = true)]
async fn a_sale_stays_one_when_its_settlement_disappears() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    let answer = ask(&service, paid(&payment)).await;
    stall.shop.chain.forget(settled(&answer).transaction.unwrap());
    assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
    let offer = offered(&service).await;
    let again = super::sign(&offer, super::authorization(&offer, super::NONCE));
    assert_problem(ask(&service, paid(&again)).await, 409, "tx_already_used").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
    // Another payment is another.
    stall.settler.script([Settling::Refused(Reason::INSUFFICIENT_FUNDS)]);
    let fresh = super::sign(&offer, super::authorization(&offer, [9; 32]));
    assert_problem(ask(&service, paid(&fresh)).await, 402, "authorization_refused").await;
}

/// A body that is announced, and never comes.
struct Stalled;

impl http_body::Body for Stalled {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        std::task::Poll::Pending
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(16)
    }
}

/// A client that sends its body slowly holds no payment meanwhile, its own or another's.
#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_reserves_nothing() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let mut request = paid(&pays(&offered(&service).await));
    *request.body_mut() = axum::body::Body::new(Stalled);
    assert_problem(ask(&service, request).await, 408, "body_timeout").await;
    assert_eq!((counter.runs(), stall.settler.verifications()), (0, 0));
}
