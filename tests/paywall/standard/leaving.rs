//! Clients that leave, at whatever point.

use std::{
    convert::Infallible,
    future::Future as _,
    task::{Context, Poll, Waker},
};

use axum::body::Body;
use http::{Request, Response};
use tower::ServiceExt as _;
use tower_x402::{
    RequestBody,
    protocol::{Address, Network, TokenDomain},
    settle::{SettleError, Settlement, Settler, SignedPayment, TransactionRecorder, Validity},
    testing::ScriptedSettler,
};

use super::{NONCE, Stall, authorization, offered, paid, pays, settled, sign};
use crate::support::{
    Counter, PRICE, ask, assert_problem,
    faults::{give_way, settle},
    layered,
};

/// A settler that gives way before and after everything it does.
struct Yielding(ScriptedSettler);

impl Settler for Yielding {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        self.0.domain(network, token, stated).await
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        give_way().await;
        let validity = self.0.verify(payment).await;
        give_way().await;
        validity
    }

    async fn settle(&self, payment: &SignedPayment, recorder: &TransactionRecorder) -> Settlement {
        give_way().await;
        let settlement = self.0.settle(payment, recorder).await;
        give_way().await;
        settlement
    }

    async fn health(&self) -> Result<(), SettleError> {
        self.0.health().await
    }
}

/// Whoever leaves, at whatever point: the same header has the answer, once, for one payment; and nobody else has it meanwhile.
#[tokio::test(start_paused = true)]
async fn whoever_leaves_at_whatever_point_has_the_answer_by_the_same_header() {
    has_the_answer_by_the_same_header(false).await;
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_a_payment_that_is_settled_first_has_the_answer_by_the_same_header() {
    has_the_answer_by_the_same_header(true).await;
}

async fn has_the_answer_by_the_same_header(settles_first: bool) {
    let (mut polls, mut settled_unsold) = (0, 0);
    loop {
        let stall = Stall::open().await;
        let yielding = Yielding(stall.settler.clone());
        let merchant = stall.shop.sibling(|builder| builder.settler(yielding)).await;
        stall.shop.faults.yielding();
        let counter = Counter::default();
        let runs = counter.clone();
        let layer = merchant.charge("answer", PRICE).unwrap();
        let service = layered(
            &if settles_first { layer.settle_first() } else { layer },
            tower::service_fn(move |_: Request<RequestBody<Body>>| {
                let runs = runs.clone();
                async move {
                    give_way().await;
                    runs.run();
                    give_way().await;
                    Ok::<_, Infallible>(Response::new(Body::from("the answer")))
                }
            }),
        );
        let (prepared, offer) = (offered(&service).await, offered(&service).await);
        let payment = pays(&offer);
        let done = {
            let mut asking = Box::pin(service.clone().oneshot(paid(&payment)));
            let mut done = None;
            for _ in 0..polls {
                if let Poll::Ready(answer) = asking.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    done = Some(answer.unwrap());
                    break;
                }
                // The settlement has a task of its own.
                tokio::task::yield_now().await;
            }
            done
        };
        settle().await;
        if let Some(answer) = done {
            assert_eq!(answer.status(), 200);
            assert!(polls > 8 && settled_unsold > 0, "{polls} {settled_unsold}");
            break;
        }
        let settled_by_then = stall.settler.settlements() > 0;
        let thief = ask(&service, paid(&sign(&prepared, authorization(&offer, NONCE)))).await.status();
        if thief == 200 {
            // Nothing was sent, and nothing is held: whoever has a payment that nobody has seen is its payer.
            assert!(!settled_by_then, "{polls}");
        } else {
            settled_unsold += usize::from(settled_by_then);
            assert_eq!(thief, 409, "{polls}");
            stall.lease_runs_out();
            let answer = ask(&service, paid(&payment)).await;
            match answer.status().as_u16() {
                200 => assert!(settled(&answer).success),
                // The commit was under way.
                _ => {
                    assert_problem(answer, 409, "already_consumed").await;
                }
            }
        }
        assert!((1..=2).contains(&counter.runs()) && stall.settler.settlements() == 1, "{polls}");
        polls += 1;
    }
}
