//! A voucher whose answer is lost between its charge and its delivery: the same header has it again, and it is charged once.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use tower_x402::{
    ledger::{AccountId, AccountLedger as _},
    protocol::{Network, channel::ChannelConfig, headers::PAYMENT_SIGNATURE},
};

use crate::{
    counter::{PRICE, Stall, counting, id, is_silent, number, offered, serving, told},
    support::{
        Counter, ask, assert_problem,
        faults::{Fault, Op},
        layered, read,
    },
};

async fn charged(stall: &Stall, config: &ChannelConfig) -> u128 {
    let account = AccountId::new(id(config).account_bytes(Network::BASE));
    number(stall.shop.ledger.account(account).await.unwrap().unwrap().spent)
}

/// What each question of a sale meets with, and how often the handler has run once the payer has its answer.
#[tokio::test(start_paused = true)]
async fn whatever_the_ledger_loses_the_payer_has_one_answer_for_one_charge() {
    for (op, fault, lease, runs) in [
        (Op::Draw, Fault::Fail, false, 1),
        (Op::Draw, Fault::AnswerLost, true, 1),
        (Op::Reserve, Fault::Fail, false, 1),
        (Op::Reserve, Fault::AnswerLost, true, 1),
        (Op::Charge, Fault::AnswerLost, false, 1),
        (Op::Charge, Fault::Fail, false, 1),
        (Op::Commit, Fault::AnswerLost, false, 1),
        (Op::Reflect, Fault::AnswerLost, false, 1),
    ] {
        let stall = Stall::open().await;
        let (service, counter, offer, config) = serving(&stall).await;
        stall.shop.faults.next(op, [fault]);
        let mut answer = ask(&service, stall.pays(&offer, &config, PRICE)).await;
        if answer.status() != 200 {
            assert_eq!(answer.status(), 503, "{op:?} {fault:?}");
            is_silent_unless_unknown(&answer);
            if lease {
                stall.shop.clock.advance(Duration::from_secs(61));
                tokio::time::sleep(Duration::from_secs(61)).await;
            }
            answer = ask(&service, stall.pays(&offer, &config, PRICE)).await;
        }
        assert_eq!(answer.status(), 200, "{op:?} {fault:?} {:?}", answer.headers());
        assert_eq!(told(&answer), (PRICE, PRICE), "{op:?} {fault:?}");
        assert_eq!((counter.runs(), charged(&stall, &config).await), (runs, PRICE), "{op:?} {fault:?}");
        let next = offered(&service).await;
        let answer = ask(&service, stall.pays(&next, &config, 2 * PRICE)).await;
        assert_eq!(told(&answer), (PRICE, 2 * PRICE), "{op:?} {fault:?}");
    }
}

fn is_silent_unless_unknown(answer: &crate::support::Answer) {
    if answer.headers()["x402-error"] != "outcome_unknown" {
        is_silent(answer);
    }
}

/// The process dies behind the charge: what it would have committed is not there.
#[tokio::test(start_paused = true)]
async fn an_answer_that_was_charged_and_never_left_is_made_again_for_the_same_charge() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let dear = layered(&stall.metered(), counting(&counter, Some(60)));
    let offer = offered(&dear).await;
    let config = stall.channel(&offer, 1_000);
    stall.shop.faults.always(Op::Commit, Fault::Fail);
    let answer = ask(&dear, stall.pays(&offer, &config, PRICE)).await;
    let _ = assert_problem(answer, 503, "outcome_unknown").await;
    stall.shop.faults.heal();
    assert_eq!(charged(&stall, &config).await, 60);
    // Another request has no part in it, and is not billed.
    let mut other = stall.pays(&offer, &config, PRICE);
    *other.uri_mut() = "/answer?other=1".parse().unwrap();
    let answer = ask(&dear, other).await;
    is_silent(&answer);
    let _ = assert_problem(answer, 400, "invalid_redemption").await;
    // Whatever the handler says this time.
    let cheap = layered(&stall.metered(), counting(&counter, Some(10)));
    let answer = ask(&cheap, stall.pays(&offer, &config, PRICE)).await;
    assert_eq!(told(&answer), (60, 60));
    assert_eq!((counter.runs(), charged(&stall, &config).await), (2, 60));
    // It is sold now.
    let again = ask(&cheap, stall.pays(&offer, &config, PRICE)).await;
    let _ = assert_problem(again, 409, "already_consumed").await;
    let next = offered(&cheap).await;
    assert_eq!(told(&ask(&cheap, stall.pays(&next, &config, 60 + PRICE)).await), (10, 70));
}

/// A client that leaves while it waits has paid nothing, or has its answer again.
#[tokio::test]
async fn a_client_that_leaves_costs_nothing_that_it_does_not_get() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    for polls in 0..40 {
        let request: Request<Body> = stall.pays(&offer, &config, PRICE);
        assert!(request.headers().contains_key(PAYMENT_SIGNATURE));
        stall.shop.faults.yielding();
        let mut left = Box::pin(ask(&service, request));
        for _ in 0..polls {
            if futures_util::poll!(left.as_mut()).is_ready() {
                break;
            }
        }
        drop(left);
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }
    let answer = ask(&service, stall.pays(&offer, &config, PRICE)).await;
    match answer.status().as_u16() {
        200 => assert_eq!(told(&answer), (PRICE, PRICE)),
        // One of them stayed long enough to be sold.
        409 => assert!(
            ["already_consumed", "channel_busy", "redemption_in_progress"]
                .contains(&answer.headers()["x402-error"].to_str().unwrap())
        ),
        status => panic!("{status} {:?}", read(answer).await),
    }
    assert!(charged(&stall, &config).await <= PRICE);
}
