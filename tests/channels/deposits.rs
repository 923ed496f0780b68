//! A deposit is made once, behind the handler and before the answer.

use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use tower_x402::{
    ChannelPolicy, RequestBody,
    ledger::{AccountId, AccountLedger as _, Draw, DrawLease, DrawOutcome},
    protocol::{
        ChainTime, Network,
        headers::PAYMENT_REQUIRED,
        v2::{Reason, SettleResponse},
    },
    settle::{ChannelOnChain, Validity},
    testing::ChannelStep,
};

use crate::{
    counter::{PRICE, Stall, counting, id, is_silent, offered, refused, serving, told, units},
    support::{
        Answer, Counter, NOW, ask, assert_problem,
        faults::{Fault, Op},
        layered, status,
    },
};

#[tokio::test]
async fn it_opens_a_channel_and_pays_the_first_answer() {
    let stall = Stall::open().await;
    let (service, counter, offer, _) = serving(&stall).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    let answer = ask(&service, stall.deposits(&offer, &config, PRICE, 10 * PRICE)).await;
    assert_eq!(told(&answer), (PRICE, PRICE));
    let settled = SettleResponse::from_headers(answer.headers()).unwrap().unwrap();
    assert_eq!(settled.amount, Some(units(10 * PRICE)));
    assert_eq!(settled.channel_state().unwrap().balance, units(10 * PRICE));
    assert!(settled.transaction.is_some());
    // The same header again makes no second deposit, and buys nothing more.
    let again = ask(&service, stall.deposits(&offer, &config, PRICE, 10 * PRICE)).await;
    assert_eq!(again.status(), 409);
    let offer = offered(&service).await;
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, 2 * PRICE)).await), (PRICE, 2 * PRICE));
    assert_eq!((counter.runs(), stall.channels.deposits()), (2, 1));
}

#[tokio::test]
async fn none_is_made_for_an_answer_that_is_not_sold() {
    let stall = Stall::open().await;
    let service = layered(&stall.fixed(), status(500));
    let offer = offered(&service).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    assert_eq!(ask(&service, stall.deposits(&offer, &config, PRICE, 10 * PRICE)).await.status(), 500);
    assert_eq!(stall.channels.deposits(), 0);
}

#[tokio::test]
async fn one_that_cannot_be_made_is_refused_before_the_handler_runs() {
    let stall = Stall::open_with(ChannelPolicy::new().min_deposit(units(500))).await;
    let (service, counter, offer, _) = serving(&stall).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    let answer = ask(&service, stall.deposits(&offer, &config, PRICE, 499)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_deposit_below_min_deposit");
    let answer = ask(&service, stall.deposits(&offer, &config, 2 * PRICE, 500)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_amount_mismatch");
    stall.channels.answer_verify(Validity::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_INSUFFICIENT_BALANCE));
    let answer = ask(&service, stall.deposits(&offer, &config, PRICE, 500)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_insufficient_balance");
    assert_eq!((counter.runs(), stall.channels.deposits()), (0, 0));
}

/// Of each fault, how often the handler ran and the deposit was asked for in the end: it is made once.
#[tokio::test(start_paused = true)]
async fn what_is_not_known_is_shown_again_and_paid_once() {
    for step in [ChannelStep::DoneUnsure, ChannelStep::DoneUnheard] {
        let stall = Stall::open().await;
        let (service, _, offer, _) = serving(&stall).await;
        let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
        stall.channels.script([step.clone()]);
        let answer = ask(&service, stall.deposits(&offer, &config, PRICE, 10 * PRICE)).await;
        let _ = assert_problem(answer, 503, "outcome_unknown").await;
        // The lease is left to run out, since the deposit may be on its way.
        stall.shop.clock.advance(std::time::Duration::from_secs(61));
        let answer = ask(&service, stall.deposits(&offer, &config, PRICE, 10 * PRICE)).await;
        assert_eq!((answer.status(), &step), (StatusCode::OK, &step));
        assert_eq!(told(&answer), (PRICE, PRICE));
        assert_eq!(stall.channels.deposits(), 1);
        assert_eq!(stall.channels.state(config.id(tower_x402::protocol::Network::BASE)).balance, units(10 * PRICE));
    }
}

#[tokio::test]
async fn a_refused_deposit_leaves_the_quote_usable() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.fixed(), counting(&counter, None));
    let offer = offered(&service).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    stall.channels.script([ChannelStep::Refused(Reason::INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_SIMULATION_FAILED)]);
    let answer = ask(&service, stall.deposits(&offer, &config, PRICE, 10 * PRICE)).await;
    assert_eq!(refused(&answer), "invalid_batch_settlement_evm_deposit_simulation_failed");
    let answer = ask(&service, stall.deposits(&offer, &config, PRICE, 10 * PRICE)).await;
    assert_eq!(told(&answer), (PRICE, PRICE));
}

/// Two nodes, one of them down: the ledger would not believe the other one that more is there.
#[tokio::test(start_paused = true)]
async fn while_most_nodes_are_silent_no_deposit_is_made_for_an_answer_that_could_not_be_sold() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let holds = |balance| ChannelOnChain::new(units(balance), units(0));
    stall.channels.set_state(id(&config), holds(PRICE).at_block(10));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
    stall.channels.set_state(id(&config), holds(PRICE));
    let offer = offered(&service).await;
    let top_up = || stall.deposits(&offer, &config, 2 * PRICE, 5 * PRICE);
    let answer = ask(&service, top_up()).await;
    let _ = assert_problem(answer, 503, "verification_unavailable").await;
    assert_eq!((counter.runs(), stall.channels.deposits()), (1, 0));
    // The node goes down behind the deposit: that it is there is not denied, and the same header buys by it later.
    stall.channels.set_state(id(&config), holds(PRICE).at_block(11));
    stall.channels.script([ChannelStep::DoneUnsure]);
    let _ = assert_problem(ask(&service, top_up()).await, 503, "outcome_unknown").await;
    stall.channels.set_state(id(&config), holds(6 * PRICE));
    stall.shop.clock.advance(std::time::Duration::from_secs(61));
    let _ = assert_problem(ask(&service, top_up()).await, 503, "verification_unavailable").await;
    stall.channels.set_state(id(&config), holds(6 * PRICE).at_block(12));
    stall.shop.clock.advance(std::time::Duration::from_secs(61));
    assert_eq!(told(&ask(&service, top_up()).await), (PRICE, 2 * PRICE));
    assert_eq!(stall.channels.deposits(), 1);
}

/// What the deposit adds would be read as something from before.
#[tokio::test(start_paused = true)]
async fn by_the_word_of_a_node_that_is_behind_no_deposit_is_made() {
    let stall = Stall::open().await;
    let (service, counter, offer, config) = serving(&stall).await;
    let holds = |block| ChannelOnChain::new(units(PRICE), units(0)).at_block(block);
    stall.channels.set_state(id(&config), holds(10));
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
    stall.channels.set_state(id(&config), holds(9));
    let offer = offered(&service).await;
    let top_up = || stall.deposits(&offer, &config, 2 * PRICE, 5 * PRICE);
    let _ = assert_problem(ask(&service, top_up()).await, 503, "verification_unavailable").await;
    assert_eq!((counter.runs(), stall.channels.deposits()), (1, 0));
    stall.channels.set_state(id(&config), holds(10));
    assert_eq!(told(&ask(&service, top_up()).await), (PRICE, 2 * PRICE));
}

/// One node says that the deposit is used, and the worst of all does not have it yet: in a new channel, and on top of what is there.
#[tokio::test]
async fn one_that_is_used_and_not_seen_yet_is_not_denied() {
    for before in [0, PRICE] {
        let stall = Stall::open().await;
        let (service, counter, offer, _) = serving(&stall).await;
        let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
        let holds = |balance| stall.channels.set_state(id(&config), ChannelOnChain::new(units(balance), units(0)));
        holds(before);
        if before > 0 {
            assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
        }
        let (offer, runs) = (offered(&service).await, counter.runs());
        let shown = || stall.deposits(&offer, &config, before + PRICE, 10 * PRICE);
        stall.channels.answer_verify(Validity::Used);
        for _ in 0..2 {
            is_silent_but_for_its_outcome(ask(&service, shown()).await).await;
        }
        assert_eq!(counter.runs(), runs);
        holds(before + 10 * PRICE);
        assert_eq!(told(&ask(&service, shown()).await), (PRICE, before + PRICE));
        assert_eq!((counter.runs(), stall.channels.deposits()), (runs + 1, 0));
    }
}

/// It was given back, or its authorization was cancelled: its payer is told once neither quote nor authorization can count any more.
#[tokio::test]
async fn one_that_is_used_and_gone_is_refused_in_the_end() {
    let stall = Stall::open().await;
    let (service, _, offer, _) = serving(&stall).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    let shown = || stall.deposits(&offer, &config, PRICE, 10 * PRICE);
    stall.channels.answer_verify(Validity::Used);
    let at = |seconds| {
        stall.shop.clock.set_unix(NOW + seconds);
        stall.shop.chain.set_head(ChainTime::from_unix(NOW + seconds));
    };
    // The authorization ends after ten minutes, the quote after sixteen.
    for seconds in [0, 601, 959] {
        at(seconds);
        is_silent_but_for_its_outcome(ask(&service, shown()).await).await;
    }
    at(961);
    assert_eq!(refused(&ask(&service, shown()).await), "invalid_batch_settlement_evm_channel_not_found");
}

/// Whoever was asked to make it may have sent it, and does not know of it any more.
#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_doubt_is_not_believed_while_the_deposit_can_be_made() {
    let stall = Stall::open().await;
    let (service, _, offer, _) = serving(&stall).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    let shown = || stall.deposits(&offer, &config, PRICE, 10 * PRICE);
    let refusal = Reason::INVALID_BATCH_SETTLEMENT_EVM_DEPOSIT_SIMULATION_FAILED;
    stall.channels.script([ChannelStep::Unknown]);
    stall.channels.always(ChannelStep::Refused(refusal.clone()));
    for _ in 0..3 {
        is_silent_but_for_its_outcome(ask(&service, shown()).await).await;
        stall.shop.clock.advance(std::time::Duration::from_secs(61));
    }
    assert_eq!(stall.channels.deposits(), 3);
    // Its voucher alone does not tell whether the deposit comes, and removes no record of it.
    let alone = ask(&service, stall.pays(&offer, &config, PRICE)).await;
    is_silent(&alone);
    let _ = assert_problem(alone, 409, "redemption_in_progress").await;
    // By whom it is refused does not matter.
    stall.channels.answer_verify(Validity::Refused(refusal));
    is_silent_but_for_its_outcome(ask(&service, shown()).await).await;
    // Until it can no longer be made.
    stall.channels.answer_verify(Validity::Valid);
    stall.shop.chain.set_head(ChainTime::from_unix(NOW + 600));
    assert_eq!(refused(&ask(&service, shown()).await), "invalid_batch_settlement_evm_deposit_simulation_failed");
    assert_eq!(stall.channels.deposits(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_quote_refuses_no_deposit_that_may_be_on_its_way() {
    let stall = Stall::open().await;
    let (service, _, offer, _) = serving(&stall).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    let shown = || stall.deposits(&offer, &config, PRICE, 10 * PRICE);
    stall.channels.script([ChannelStep::Unknown]);
    is_silent_but_for_its_outcome(ask(&service, shown()).await).await;
    stall.shop.clock.advance(std::time::Duration::from_secs(970));
    is_silent_but_for_its_outcome(ask(&service, shown()).await).await;
    stall.shop.chain.set_head(ChainTime::from_unix(NOW + 600));
    assert_eq!(refused(&ask(&service, shown()).await), "invalid_payment_requirements");
    assert_eq!(stall.channels.deposits(), 1);
}

/// The process died behind the deposit, and its payer comes back long after.
#[tokio::test(start_paused = true)]
async fn one_that_was_begun_in_time_pays_after_the_end_of_its_quote() {
    let stall = Stall::open().await;
    let (service, counter, offer, _) = serving(&stall).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    let shown = || stall.deposits(&offer, &config, PRICE, 10 * PRICE);
    stall.channels.script([ChannelStep::DoneUnsure]);
    is_silent_but_for_its_outcome(ask(&service, shown()).await).await;
    stall.shop.clock.advance(std::time::Duration::from_secs(970));
    stall.shop.chain.set_head(ChainTime::from_unix(NOW + 970));
    assert_eq!(told(&ask(&service, shown()).await), (PRICE, PRICE));
    assert_eq!((counter.runs(), stall.channels.deposits()), (2, 1));
}

/// Something else holds the channel once the deposit is made: it pays for its quote later, and after its end as well.
#[tokio::test(start_paused = true)]
async fn one_that_was_made_and_found_the_channel_busy_is_remembered() {
    let stall = Stall::open().await;
    let (service, _, offer, config) = serving(&stall).await;
    assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
    let account = AccountId::new(id(&config).account_bytes(Network::BASE));
    let draw = Draw::new(account, units(1), std::time::Duration::from_secs(60));
    let (ledger, held) = (Arc::clone(&stall.shop.ledger), Arc::<Mutex<Option<DrawLease>>>::default());
    let holding = Arc::clone(&held);
    let holds = layered(
        &stall.fixed(),
        tower::service_fn(move |_: Request<RequestBody<Body>>| {
            let (ledger, draw, holding) = (Arc::clone(&ledger), draw.clone(), Arc::clone(&holding));
            async move {
                let DrawOutcome::Granted(lease) = ledger.draw(&draw).await.unwrap() else { panic!("not granted") };
                *holding.lock().unwrap() = Some(lease);
                Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
            }
        }),
    );
    let offer = offered(&holds).await;
    let shown = || stall.deposits(&offer, &config, 2 * PRICE, 5 * PRICE);
    let _ = assert_problem(ask(&holds, shown()).await, 409, "channel_busy").await;
    assert_eq!(stall.channels.deposits(), 1);
    let lease = held.lock().unwrap().take().unwrap();
    stall.shop.ledger.release_draw(&lease).await.unwrap();
    stall.shop.clock.advance(std::time::Duration::from_secs(970));
    stall.shop.chain.set_head(ChainTime::from_unix(NOW + 970));
    assert_eq!(told(&ask(&service, shown()).await), (PRICE, 2 * PRICE));
    assert_eq!(stall.channels.deposits(), 1);
}

/// Another request is answered in the channel meanwhile. A client signs its next voucher under the quote that it has.
#[tokio::test(start_paused = true)]
async fn one_that_was_made_and_follows_no_more_leaves_its_quote_to_the_next_voucher() {
    for is_known in [true, false] {
        let stall = Stall::open().await;
        let (service, _, offer, config) = serving(&stall).await;
        assert_eq!(told(&ask(&service, stall.pays(&offer, &config, PRICE)).await), (PRICE, PRICE));
        let (offer, other) = (offered(&service).await, offered(&service).await);
        let between = Arc::new(Mutex::new(Some(stall.pays(&other, &config, 2 * PRICE))));
        let (beside, first) = (Arc::new(service), Arc::clone(&between));
        let overtaken = layered(
            &stall.fixed(),
            tower::service_fn(move |_: Request<RequestBody<Body>>| {
                let (beside, between) = (Arc::clone(&beside), Arc::clone(&between));
                async move {
                    let request = between.lock().unwrap().take();
                    if let Some(request) = request {
                        assert_eq!(told(&ask(&*beside, request).await), (PRICE, 2 * PRICE));
                    }
                    Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
                }
            }),
        );
        let shown = || stall.deposits(&offer, &config, 2 * PRICE, 5 * PRICE);
        if !is_known {
            // Whether it is made is not known before the other one is answered.
            let request = first.lock().unwrap().take();
            stall.channels.script([ChannelStep::DoneUnsure]);
            is_silent_but_for_its_outcome(ask(&overtaken, shown()).await).await;
            assert_eq!(told(&ask(&overtaken, request.unwrap()).await), (PRICE, 2 * PRICE));
            stall.shop.clock.advance(std::time::Duration::from_secs(61));
            // Another process may be selling by it, as far as this one hears: then its payer is not told to sign another.
            stall.shop.faults.always(Op::Renew, Fault::Fail);
            let answer = ask(&overtaken, shown()).await;
            is_silent(&answer);
            let _ = assert_problem(answer, 409, "redemption_in_progress").await;
            stall.shop.faults.heal();
        }
        let answer = ask(&overtaken, shown()).await;
        assert_eq!(refused(&answer), "invalid_batch_settlement_evm_cumulative_amount_mismatch");
        assert_eq!(told(&ask(&overtaken, stall.pays(&offer, &config, 3 * PRICE)).await), (PRICE, 3 * PRICE));
        assert_eq!(stall.channels.deposits(), 1);
    }
}

/// It could be kept for a time at which the answer costs more.
#[tokio::test(start_paused = true)]
async fn one_that_was_begun_pays_for_an_hour_after_the_end_of_its_quote() {
    let stall = Stall::open().await;
    let (service, counter, offer, _) = serving(&stall).await;
    let config = offer.channel_of(stall.payer(), [3; 32]).unwrap();
    let shown = || stall.deposits(&offer, &config, PRICE, 10 * PRICE);
    stall.channels.script([ChannelStep::DoneUnsure]);
    is_silent_but_for_its_outcome(ask(&service, shown()).await).await;
    stall.shop.clock.advance(std::time::Duration::from_secs(960 + 3_601));
    stall.shop.chain.set_head(ChainTime::from_unix(NOW + 960 + 3_601));
    // Another process may be selling by it, as far as this one hears: then its payer is not told to sign another.
    stall.shop.faults.always(Op::Renew, Fault::Fail);
    let answer = ask(&service, shown()).await;
    is_silent(&answer);
    let _ = assert_problem(answer, 409, "redemption_in_progress").await;
    stall.shop.faults.heal();
    assert_eq!(refused(&ask(&service, shown()).await), "invalid_payment_requirements");
    assert_eq!(counter.runs(), 1);
}

/// No bill, and the problem of what is not known.
async fn is_silent_but_for_its_outcome(answer: Answer) {
    assert!(!answer.headers().contains_key(PAYMENT_REQUIRED));
    let _ = assert_problem(answer, 503, "outcome_unknown").await;
}
