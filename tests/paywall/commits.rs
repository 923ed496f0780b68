//! A ledger or a chain that fails, hangs, or does what it is told and loses its answer.

use std::{future::pending, time::Duration};

use axum::body::Body;
use http::{Response, StatusCode};
use tokio::time::{Instant, sleep, timeout};
use tower_x402::{Consumption, protocol::TxHash, verify::VerifyError};

use crate::{
    support::faults::{Fault, Op, Stage, failed, handler, ok, quoted, settle, start},
    support::{Counter, ask, assert_problem, echo, layered, redemption},
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Invariant 2.
#[tokio::test(start_paused = true)]
async fn an_answer_leaves_only_after_its_own_commit_is_done() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|_| async { ok() }));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    stage.ledger.always(Op::Commit, Fault::Late(seconds(1)));
    let begun = Instant::now();
    let answer = start(&service, redemption(&intent, tx));
    sleep(Duration::from_millis(999)).await;
    assert!(!answer.is_finished() && stage.counts().consumed == 0);
    assert_eq!(answer.await.unwrap().status(), 200);
    assert_eq!((begun.elapsed().as_millis() / 10, stage.counts().consumed), (100, 1));
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_fails_for_a_while_is_tried_again_and_the_answer_delivered_once() {
    for fault in [Fault::Fail, Fault::Hang, Fault::AnswerLost, Fault::AnswerHangs] {
        let stage = Stage::open().await;
        let counter = Counter::default();
        let service = layered(&stage.layer(), echo(counter.clone()));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.next(Op::Commit, [fault, fault]);
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200, "{fault:?}");
        assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
        assert_eq!((stage.ledger.asked(Op::Commit), stage.counts().consumed, counter.runs()), (3, 1, 1));
    }
}

/// Whatever the fault, the payer hears within seconds that the outcome is unknown, and the same pair tells it later.
#[tokio::test(start_paused = true)]
async fn a_commit_that_is_never_confirmed_is_an_unknown_outcome_that_the_same_pair_tells_later() {
    for (fault, sold) in
        [(Fault::Fail, false), (Fault::Hang, false), (Fault::AnswerLost, true), (Fault::AnswerHangs, true)]
    {
        let stage = Stage::open().await;
        let service = layered(&stage.layer(), handler(|_| async { ok() }));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.always(Op::Commit, fault);
        let begun = Instant::now();
        let answer = ask(&service, redemption(&intent, tx)).await;
        let waited = begun.elapsed();
        assert!(waited > seconds(4) && waited <= Duration::from_millis(5_100), "{fault:?}: {waited:?}");
        assert!(answer.headers().contains_key("retry-after") && !answer.headers().contains_key("payment-response"));
        let body = assert_problem(answer, 503, "outcome_unknown").await;
        assert!(!body.to_string().contains("the answer"), "nothing of the answer leaves");
        stage.ledger.heal();
        let again = ask(&service, redemption(&intent, tx)).await;
        if sold {
            assert_problem(again, 409, "already_consumed").await;
        } else {
            assert_eq!(again.status(), 200, "{fault:?}");
        }
        assert_eq!((stage.counts().consumed, stage.counts().held), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_hangs_altogether_still_lets_the_payer_hear_within_seconds() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|_| async { ok() }));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    stage.ledger.always(Op::Commit, Fault::Hang);
    stage.ledger.always(Op::Release, Fault::Hang);
    let begun = Instant::now();
    assert_problem(ask(&service, redemption(&intent, tx)).await, 503, "outcome_unknown").await;
    assert!(begun.elapsed() <= Duration::from_millis(7_100), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lease_lost_at_commit_answers_nothing_whatever_the_ledger_says_after() {
    for (is_consumed, code) in [
        (None, "already_consumed"),
        (Some(Fault::Fail), "redemption_in_progress"),
        (Some(Fault::Hang), "redemption_in_progress"),
    ] {
        let stage = Stage::open().await;
        let works = |run| seconds(if run == 1 { 70 } else { 0 });
        let service = layered(
            &stage.layer(),
            handler(move |run| async move {
                sleep(works(run)).await;
                ok()
            }),
        );
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.always(Op::Renew, Fault::Fail);
        let slow = start(&service, redemption(&intent, tx));
        sleep(seconds(60)).await;
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
        if let Some(fault) = is_consumed {
            stage.ledger.always(Op::IsConsumed, fault);
        }
        stage.ledger.next(Op::Commit, [Fault::Fail]);
        let begun = Instant::now();
        assert_problem(slow.await.unwrap(), 409, code).await;
        assert!(begun.elapsed() <= seconds(13));
        assert_eq!(stage.counts().consumed, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_sold_is_not_committed() {
    for status in [304, 400, 402, 404, 429, 500, 503] {
        let stage = Stage::open().await;
        let response = move || Response::builder().status(status).body(Body::empty()).unwrap();
        let service =
            layered(&stage.layer(), handler(move |run| async move { if run == 1 { response() } else { ok() } }));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        let answer = ask(&service, redemption(&intent, tx)).await;
        assert_eq!(answer.status().as_u16(), if status == 402 { 502 } else { status });
        assert!(!answer.headers().contains_key("payment-response"));
        assert_eq!((stage.ledger.asked(Op::Commit), stage.counts().held), (0, 0));
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200, "after {status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_decides_for_one_response_what_it_sells() {
    for (status, consumption, sold) in [(200, Consumption::Keep, false), (500, Consumption::Consume, true)] {
        let stage = Stage::open().await;
        let inner = handler(move |_| async move {
            let mut response = ok();
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            response.extensions_mut().insert(consumption);
            response
        });
        let service = layered(&stage.layer(), inner);
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        let answer = ask(&service, redemption(&intent, tx)).await;
        assert_eq!((answer.status().as_u16(), answer.headers().contains_key("payment-response")), (status, sold));
        assert_eq!(stage.counts().consumed, u64::from(sold));
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_tried_once_more_in_the_background() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|run| async move { if run == 1 { failed() } else { ok() } }));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    stage.ledger.next(Op::Release, [Fault::Fail]);
    let begun = Instant::now();
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 500);
    assert_eq!(begun.elapsed(), Duration::ZERO);
    settle().await;
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_hangs_does_not_keep_the_response_for_long() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|run| async move { if run == 1 { failed() } else { ok() } }));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    stage.ledger.always(Op::Release, Fault::Hang);
    let begun = Instant::now();
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 500);
    assert!(begun.elapsed() >= seconds(2) && begun.elapsed() <= Duration::from_millis(2_010));
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "redemption_in_progress").await;
    sleep(seconds(60)).await;
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200, "the lease ran out");
}

/// Invariant 4.
#[tokio::test(start_paused = true)]
async fn a_ledger_that_cannot_reserve_runs_no_handler_and_takes_nothing() {
    for (fault, waits) in [(Fault::Fail, 0), (Fault::Hang, 5), (Fault::AnswerLost, 0), (Fault::AnswerHangs, 5)] {
        let stage = Stage::open().await;
        let counter = Counter::default();
        let service = layered(&stage.layer(), echo(counter.clone()));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.next(Op::Reserve, [fault]);
        let begun = Instant::now();
        let answer = ask(&service, redemption(&intent, tx)).await;
        assert_eq!(begun.elapsed().as_secs(), waits, "{fault:?}");
        assert!(answer.headers().contains_key("retry-after"));
        assert_problem(answer, 503, "ledger_unavailable").await;
        assert_eq!((counter.runs(), stage.counts().consumed), (0, 0));
        // A grant whose answer was lost runs out by itself.
        sleep(seconds(60)).await;
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_too_late_is_given_back_and_is_no_attempt() {
    let stage = Stage::open().await;
    let counter = Counter::default();
    let service = layered(&stage.layer(), echo(counter.clone()));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    for _ in 0..20 {
        stage.ledger.next(Op::Reserve, [Fault::Late(seconds(6))]);
        assert_problem(ask(&service, redemption(&intent, tx)).await, 503, "ledger_unavailable").await;
        sleep(Duration::from_millis(1_001)).await;
        assert_eq!((stage.counts().held, counter.runs()), (0, 0));
    }
    assert_eq!(stage.counts().released, 20);
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn renewals_that_fail_do_not_end_a_handler() {
    for fault in [Fault::Fail, Fault::Hang, Fault::AnswerLost, Fault::AnswerHangs] {
        let stage = Stage::open().await;
        let service = layered(
            &stage.layer(),
            handler(|_| async {
                sleep(seconds(100)).await;
                ok()
            }),
        );
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.next(Op::Renew, [fault; 8]);
        let answer = start(&service, redemption(&intent, tx));
        for _ in 0..9 {
            sleep(seconds(11)).await;
            // The lease is kept up between the failures.
            assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "redemption_in_progress").await;
        }
        assert_eq!(answer.await.unwrap().status(), 200, "{fault:?}");
    }
}

/// Invariant 4, of the chain.
#[tokio::test(start_paused = true)]
async fn a_chain_that_cannot_be_asked_reserves_nothing_and_is_waited_for_ten_seconds_at_most() {
    let stage = Stage::open().await;
    let counter = Counter::default();
    let service = layered(&stage.layer(), echo(counter.clone()));
    let intent = quoted(&service).await;
    let (failing, hanging) = (TxHash::new([1; 32]), TxHash::new([2; 32]));
    stage.shop.chain.fail(failing, VerifyError::unavailable());
    stage.shop.chain.hang(hanging);
    for (tx, waits) in [(failing, 0), (hanging, 10)] {
        let begun = Instant::now();
        let answer = timeout(seconds(60), ask(&service, redemption(&intent, tx))).await.expect("bounded");
        assert_eq!(begun.elapsed().as_secs(), waits);
        assert!(answer.headers().contains_key("retry-after"));
        assert_problem(answer, 503, "verification_unavailable").await;
    }
    assert_eq!((stage.ledger.asked(Op::Reserve), counter.runs()), (0, 0));
    assert_eq!(ask(&service, redemption(&intent, stage.shop.pay(490_000))).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_consumed_intent_is_consumed_even_while_the_chain_is_down() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|_| async { ok() }));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    stage.shop.chain.hang(tx);
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    stage.shop.chain.outage(VerifyError::unavailable());
    assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "already_consumed").await;
    // With the ledger down too, nothing is claimed.
    for (fault, waits) in [(Fault::Fail, 0), (Fault::Hang, 5)] {
        stage.ledger.always(Op::IsConsumed, fault);
        let begun = Instant::now();
        assert_problem(ask(&service, redemption(&intent, tx)).await, 503, "ledger_unavailable").await;
        assert_eq!(begun.elapsed().as_secs(), waits);
    }
}

/// A time-out outside the layer cuts a commit: the sale may stand, and never twice.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_during_the_commit_finds_its_pair_sold_or_free() {
    for (fault, sold) in [(Fault::Hang, false), (Fault::AnswerHangs, true), (Fault::Late(seconds(1)), false)] {
        let stage = Stage::open().await;
        let service = layered(&stage.layer(), handler(|_| async { ok() }));
        let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
        stage.ledger.always(Op::Commit, fault);
        let cut = timeout(Duration::from_millis(500), ask(&service, redemption(&intent, tx))).await;
        assert!(cut.is_err());
        settle().await;
        stage.ledger.heal();
        assert_eq!((stage.counts().held, stage.counts().consumed), (0, u64::from(sold)));
        let again = ask(&service, redemption(&intent, tx)).await;
        assert_eq!(again.status(), if sold { 409 } else { 200 }, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_never_ends_and_a_ledger_that_never_answers_are_bounded_together() {
    let stage = Stage::open_with(|builder| builder.max_hold(seconds(30))).await;
    let service = layered(&stage.layer(), handler(|_| pending()));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    for op in [Op::Renew, Op::Commit, Op::Release, Op::IsConsumed] {
        stage.ledger.always(op, Fault::Hang);
    }
    let begun = Instant::now();
    assert_problem(ask(&service, redemption(&intent, tx)).await, 504, "answer_timeout").await;
    assert!(begun.elapsed() <= Duration::from_millis(32_100));
}
