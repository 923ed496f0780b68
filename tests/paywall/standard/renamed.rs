//! Payments for a route that has another name by the time they are shown again: their quotes cannot be opened any more.

use std::time::Duration;

use tower_x402::{
    protocol::{headers::PAYMENT_REQUIRED, v2::SchemePayload},
    testing::Settling,
};

use super::{Stall, offered, paid, pays, requirements};
use crate::support::{Answer, Counter, NOW, PRICE, ask, assert_problem, echo, fresh_intent, layered};

async fn is_in_progress(answer: Answer) {
    assert!(answer.headers().contains_key("retry-after"), "{answer:?}");
    assert!(!answer.headers().contains_key(PAYMENT_REQUIRED), "{answer:?}");
    assert_problem(answer, 409, "redemption_in_progress").await;
}

/// A client that is billed for it would sign, and pay, a second time.
#[tokio::test(start_paused = true)]
async fn a_payment_that_is_being_settled_is_not_billed_again_under_another_name() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    let settler = stall.settler.clone();
    let merchant = stall.shop.sibling(|builder| builder.settler(settler)).await;
    let renamed = layered(&merchant.charge("renamed", PRICE).unwrap(), echo(counter.clone()));

    // Its client leaves while it is settled.
    stall.settler.script([Settling::Hanging]);
    assert!(tokio::time::timeout(Duration::from_secs(1), ask(&service, paid(&payment))).await.is_err());
    is_in_progress(ask(&renamed, paid(&payment)).await).await;
    // The settler does not answer in time, the lease runs out, and the transaction may be mined still.
    tokio::time::sleep(Duration::from_secs(600)).await;
    for _ in 0..2 {
        stall.lease_runs_out();
        is_in_progress(ask(&renamed, paid(&payment)).await).await;
    }
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn nor_one_whose_settlement_is_not_known() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    let settler = stall.settler.clone();
    let merchant = stall.shop.sibling(|builder| builder.settler(settler)).await;
    let renamed = layered(&merchant.charge("renamed", PRICE).unwrap(), echo(counter.clone()));
    stall.settler.script([Settling::Held]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    is_in_progress(ask(&renamed, paid(&payment)).await).await;
    stall.lease_runs_out();
    is_in_progress(ask(&renamed, paid(&payment)).await).await;

    assert_eq!(stall.settler.release().len(), 1);
    fresh_intent(ask(&renamed, paid(&payment)).await, 404, "intent_not_found").await;
    stall.lease_runs_out();
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
    fresh_intent(ask(&renamed, paid(&payment)).await, 404, "intent_not_found").await;
    assert_eq!(stall.settler.settlements(), 1);
}

/// Its process died before it was sent, and its time is over: no one can take it any more.
#[tokio::test(start_paused = true)]
async fn one_that_was_never_sent_is_billed_once_its_time_is_over() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    let settler = stall.settler.clone();
    let merchant = stall.shop.sibling(|builder| builder.settler(settler)).await;
    let renamed = layered(&merchant.charge("renamed", PRICE).unwrap(), echo(counter.clone()));
    stall.settler.script([Settling::Held]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    stall.lease_runs_out();
    is_in_progress(ask(&renamed, paid(&payment)).await).await;
    let SchemePayload::Authorization(signed) = &payment.payload else { panic!("{payment:?}") };
    let end = signed.authorization.valid_before;
    stall.shop.clock.advance(Duration::from_secs(end.unix() - NOW));
    stall.shop.chain.set_head(end);
    assert_problem(ask(&renamed, paid(&payment)).await, 402, "authorization_refused").await;
}

/// One that nothing holds is billed, and stays good where it was quoted.
#[tokio::test(start_paused = true)]
async fn a_payment_that_was_never_taken_is_billed_under_another_name_and_stays_good() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    let settler = stall.settler.clone();
    let merchant = stall.shop.sibling(|builder| builder.settler(settler)).await;
    let renamed = layered(&merchant.charge("renamed", PRICE).unwrap(), echo(counter.clone()));
    for _ in 0..20 {
        let answer = ask(&renamed, paid(&payment)).await;
        assert_eq!(requirements(&answer).amount, payment.accepted.exact().unwrap().amount);
        assert_problem(answer, 402, "authorization_refused").await;
    }
    assert_eq!(stall.shop.ledger.counts().unwrap().held, 0);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
    assert_eq!((counter.runs(), stall.settler.settlements()), (1, 1));
}
