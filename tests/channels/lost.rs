//! A voucher whose answer is lost between its charge and its delivery: the same header has it again, and it is charged once.

use std::time::Duration;

use axum::body::Body;
use http::Request;
use tower_x402::{
    ledger::{AccountId, AccountLedger as _},
    protocol::{ChainTime, Network, channel::ChannelConfig, headers::PAYMENT_SIGNATURE, v2::ChannelRequirements},
};

use crate::{
    counter::{PRICE, Stall, counting, id, is_silent, number, offered, refused, serving, told},
    support::{
        Counter, NOW, ask, assert_problem, by_header,
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

/// A route whose process died behind the charge of its first answer: what it would have committed is not there.
async fn died(stall: &Stall, charge: u128) -> (ChannelRequirements, ChannelConfig) {
    let service = layered(&stall.metered(), counting(&Counter::default(), Some(charge)));
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    stall.shop.faults.always(Op::Commit, Fault::Fail);
    let answer = ask(&service, stall.pays(&offer, &config, PRICE)).await;
    let _ = assert_problem(answer, 503, "outcome_unknown").await;
    stall.shop.faults.heal();
    assert_eq!(charged(stall, &config).await, charge);
    (offer, config)
}

#[tokio::test(start_paused = true)]
async fn a_charge_whose_answer_never_left_is_taken_back_and_the_same_voucher_buys() {
    for is_new_quote in [false, true] {
        let stall = Stall::open().await;
        let (first, config) = died(&stall, 60).await;
        let counter = Counter::default();
        // Whatever the handler says this time.
        let service = layered(&stall.metered(), counting(&counter, Some(10)));
        let offer = if is_new_quote { offered(&service).await } else { first.clone() };
        for (fault, taken) in [(Fault::Fail, 60), (Fault::AnswerLost, 0)] {
            stall.shop.faults.next(Op::TakeBack, [fault]);
            let answer = ask(&service, stall.pays(&offer, &config, PRICE)).await;
            is_silent(&answer);
            let _ = assert_problem(answer, 503, "ledger_unavailable").await;
            assert_eq!(charged(&stall, &config).await, taken);
        }
        stall.shop.clock.advance(Duration::from_secs(61));
        assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (10, 10));
        // One answer for one charge: the quote that was not answered buys nothing more for the same voucher.
        let again = ask(&service, stall.pays(&first, &config, PRICE)).await;
        match is_new_quote {
            true => assert_eq!(refused(&again), "invalid_batch_settlement_evm_cumulative_amount_mismatch"),
            false => _ = assert_problem(again, 409, "already_consumed").await,
        }
        assert_eq!((counter.runs(), charged(&stall, &config).await), (1, 10));
        let next = offered(&service).await;
        assert_eq!(told(&ask(&service, stall.pays(&next, &config, 10 + PRICE)).await), (10, 20));
    }
}

/// A dearer or a cheaper request than the one that was not answered.
#[tokio::test]
async fn what_was_not_answered_is_no_part_of_another_price() {
    let stall = Stall::open().await;
    let (_, config) = died(&stall, 60).await;
    let dear =
        layered(&stall.shop.merchant.charge("dear", "0.0002 USDC").unwrap(), counting(&Counter::default(), None));
    let offer = offered(&dear).await;
    assert_eq!(told(&ask(&dear, stall.pays(&offer, &config, 2 * PRICE)).await), (2 * PRICE, 2 * PRICE));
}

/// The sale is under way, or its process died a moment ago: nothing is billed meanwhile.
#[tokio::test]
async fn while_an_answer_may_still_leave_its_charge_stands() {
    let stall = Stall::open().await;
    let service = layered(&stall.metered(), counting(&Counter::default(), Some(60)));
    let offer = offered(&service).await;
    let config = stall.channel(&offer, 1_000);
    stall.shop.faults.next(Op::Commit, [Fault::Hang]);
    let first = tokio::spawn({
        let (service, request) = (service.clone(), stall.pays(&offer, &config, PRICE));
        async move { ask(&service, request).await }
    });
    while stall.channels.reads() == 0 || charged(&stall, &config).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let another = offered(&service).await;
    let answer = ask(&service, stall.pays(&another, &config, PRICE)).await;
    is_silent(&answer);
    let _ = assert_problem(answer, 409, "channel_busy").await;
    assert_eq!(charged(&stall, &config).await, 60);
    first.abort();
}

#[tokio::test]
async fn what_was_sold_is_never_taken_back_nor_what_was_sold_too_long_ago_to_know() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
    let another = offered(&service).await;
    let answer = ask(&service, stall.pays(&another, &config, PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_amount_mismatch");
    assert_eq!((counter.runs(), charged(&stall, &config).await), (1, PRICE));

    let stall = Stall::open().await;
    let (_, config) = died(&stall, PRICE).await;
    stall.shop.clock.advance(Duration::from_secs(30 * 86_400));
    stall.shop.chain.set_head(ChainTime::from_unix(NOW + 30 * 86_400));
    let service = layered(&stall.metered(), counting(&counter, None));
    let offer = offered(&service).await;
    let answer = ask(&service, stall.pays(&offer, &config, PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_amount_mismatch");
}

/// The quote of an answer that never left is paid by a transfer meanwhile: one quote is charged once.
#[tokio::test]
async fn what_another_payment_bought_is_not_charged_to_the_channel_as_well() {
    for (deposits, claims) in [(false, false), (false, true), (true, false), (true, true)] {
        let stall = Stall::open().await;
        let (service, counter, offer, config) = serving(&stall).await;
        let config = if deposits { offer.channel_of(stall.payer(), [3; 32]).unwrap() } else { config };
        stall.shop.faults.always(Op::Commit, Fault::Fail);
        let first = match deposits {
            true => stall.deposits(&offer, &config, PRICE, 10 * PRICE),
            false => stall.pays(&offer, &config, PRICE),
        };
        let answer = ask(&service, first).await;
        let _ = assert_problem(answer, 503, "outcome_unknown").await;
        stall.shop.faults.heal();
        assert_eq!(charged(&stall, &config).await, PRICE);
        stall.shop.clock.advance(Duration::from_secs(61));
        let intent = offer.intent().unwrap().unwrap().to_string();
        let transaction = stall.shop.pay(PRICE);
        assert_eq!(ask(&service, by_header("GET", &intent, transaction)).await.status(), 200);
        assert_eq!(counter.runs(), 2);
        if claims {
            let claimed = stall.shop.merchant.claim_now().await.unwrap();
            assert_eq!((claimed.channels, claimed.left, stall.channels.claims().len()), (0, 0, 0));
            assert_eq!(charged(&stall, &config).await, 0);
        }
        // The voucher that bought nothing buys the next answer.
        let next = offered(&service).await;
        assert_eq!(told(&ask(&service, stall.pays(&next, &config, PRICE)).await), (PRICE, PRICE));
        let _ = stall.shop.merchant.claim_now().await.unwrap();
        assert_eq!(
            stall.channels.state(id(&config)).total_claimed,
            tower_x402::protocol::Amount::from_base_units(PRICE)
        );
    }
}

/// The worker claims what was answered, and no more.
#[tokio::test]
async fn what_was_not_answered_is_not_claimed() {
    let stall = Stall::open().await;
    let (_, config) = died(&stall, 60).await;
    let claimed = stall.shop.merchant.claim_now().await.unwrap();
    assert_eq!((claimed.channels, claimed.left, stall.channels.claims().len()), (0, 0, 0));
    assert_eq!(charged(&stall, &config).await, 0);
}

/// A lost word of the ledger claims nothing that was not answered: the next turn knows.
#[tokio::test(start_paused = true)]
async fn what_was_not_answered_is_not_claimed_where_the_ledgers_word_is_lost() {
    for (at, fault) in [(Op::IsConsumed, Fault::Fail), (Op::TakeBack, Fault::Fail), (Op::TakeBack, Fault::AnswerLost)] {
        let stall = Stall::open().await;
        let (_, config) = died(&stall, 60).await;
        stall.shop.faults.next(at, [fault]);
        let _ = stall.shop.merchant.claim_now().await.unwrap();
        assert_eq!(stall.channels.claims().len(), 0, "{at:?} {fault:?}");
        stall.shop.clock.advance(Duration::from_secs(61));
        let _ = stall.shop.merchant.claim_now().await.unwrap();
        assert_eq!((stall.channels.claims().len(), charged(&stall, &config).await), (0, 0), "{at:?} {fault:?}");
    }
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
        // So many handlers ran for nothing that the next one has to wait.
        429 => assert_eq!(answer.headers()["x402-error"], "too_many_attempts"),
        status => panic!("{status} {:?}", read(answer).await),
    }
    assert!(charged(&stall, &config).await <= PRICE);
}
