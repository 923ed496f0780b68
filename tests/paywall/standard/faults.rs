//! What goes wrong between the handler and the answer: nobody is charged twice, and nobody for nothing.

use std::time::Duration;

use tower_x402::{
    protocol::{Address, Amount, Asset, Binding, ChainTime, Network, Transfer, TxHash, v2::Reason},
    settle::SettleError,
    testing::Settling,
};

use super::{NONCE, Stall, authorization, offered, paid, pays, settled, sign};
use crate::support::{Counter, NOW, ask, assert_problem, echo, layered, payer, recipient};

/// How long a settler may take to check a payment is its own setting; the lease is kept meanwhile.
#[tokio::test(start_paused = true)]
async fn a_settler_that_takes_a_minute_to_check_is_waited_for() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    stall.settler.delay(Duration::from_secs(60));
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
}

/// What the first presentation meets, what it is answered, and what the payer has lost for good.
#[tokio::test(start_paused = true)]
async fn the_chain_is_believed_and_the_settler_is_not() {
    for (settling, status) in [
        (Settling::Settled, 200),
        (Settling::SettledUnsure, 200),
        (Settling::SettledUnheard, 200),
        (Settling::SettledHanging, 200),
        (Settling::SettledDenied(Reason::INSUFFICIENT_FUNDS), 200),
        (Settling::Refused(Reason::INSUFFICIENT_FUNDS), 402),
        (Settling::Unknown, 503),
        (Settling::Held, 503),
        (Settling::Hanging, 503),
        (Settling::Invented, 503),
        (Settling::Claimed(TxHash::new([9; 32])), 503),
    ] {
        let stall = Stall::open().await;
        let counter = Counter::default();
        let service = layered(&stall.shop.layer(), echo(counter.clone()));
        let payment = pays(&offered(&service).await);
        stall.settler.script([settling.clone()]);
        let answer = ask(&service, paid(&payment)).await;
        assert_eq!(answer.status(), status, "{settling:?}");
        let told = settled(&answer);
        match status {
            200 => assert!(told.success, "{settling:?}"),
            402 => assert_eq!(told.error_reason, Some(Reason::INSUFFICIENT_FUNDS)),
            _ => {
                assert_eq!(told.error_reason, Some(Reason::SETTLEMENT_PENDING), "{settling:?}");
                assert_problem(answer, 503, "outcome_unknown").await;
                // The same header again, at once: its lease holds it.
                assert_problem(ask(&service, paid(&payment)).await, 409, "redemption_in_progress").await;
                stall.lease_runs_out();
            }
        }
        let mined = stall.settler.release().len();
        if status != 200 {
            let again = ask(&service, paid(&payment)).await;
            assert_eq!(again.status(), 200, "{settling:?}");
            assert!(settled(&again).success);
        }
        assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
        let sent = stall.settler.settlements();
        assert_eq!(sent, if status == 200 || mined == 1 { 1 } else { 2 }, "{settling:?}");
    }
}

/// The process dies between settling and its commit, whatever the settler said.
#[tokio::test(start_paused = true)]
async fn what_was_settled_and_not_sold_is_had_by_the_same_header() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::SettledHanging]);
    let asking = tokio::time::timeout(Duration::from_secs(20), ask(&service, paid(&payment)));
    assert!(asking.await.is_err(), "the client is gone while it settles");
    tokio::task::yield_now().await;
    assert_problem(ask(&service, paid(&payment)).await, 409, "redemption_in_progress").await;
    stall.lease_runs_out();
    let answer = ask(&service, paid(&payment)).await;
    assert_eq!(answer.status(), 200);
    assert_eq!((counter.runs(), stall.settler.settlements()), (2, 1));
}

/// Also when its quote is over by then, the price has changed, and the authorization's time has passed.
#[tokio::test(start_paused = true)]
async fn it_is_had_later_as_well() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Held]);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 503);
    let mined = stall.settler.release();
    assert_eq!(mined.len(), 1);
    stall.lease_runs_out();
    stall.shop.clock.set_unix(crate::support::NOW + 2 * 60 * 60);
    let answer = ask(&service, paid(&payment)).await;
    assert_eq!((answer.status().as_u16(), settled(&answer).transaction), (200, Some(mined[0])));
}

/// Whoever could tell whether it may be settled does not answer: what is on the chain needs no such word.
#[tokio::test(start_paused = true)]
async fn it_is_had_while_the_settler_is_gone() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Held]);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 503);
    stall.lease_runs_out();
    stall.settler.answer_verify(Err(SettleError::unavailable()));
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    let mined = stall.settler.release();
    stall.lease_runs_out();
    let answer = ask(&service, paid(&payment)).await;
    assert_eq!((answer.status().as_u16(), settled(&answer).transaction), (200, Some(mined[0])));
}

/// Nothing was settled, and the time for it is over: only then is the payer told to sign anew.
#[tokio::test(start_paused = true)]
async fn a_payer_signs_anew_only_when_the_first_can_no_longer_be_settled() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Unknown]);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 503);
    stall.lease_runs_out();
    // The clock says that it is over; the chain is not there yet.
    stall.shop.clock.set_unix(crate::support::NOW + 301);
    let answer = ask(&service, paid(&payment)).await;
    assert_eq!(settled(&answer).error_reason, Some(Reason::SETTLEMENT_PENDING));
    assert_problem(answer, 503, "outcome_unknown").await;
    stall.lease_runs_out();
    stall.shop.chain.set_head(tower_x402::protocol::ChainTime::from_unix(crate::support::NOW + 301));
    assert_problem(ask(&service, paid(&payment)).await, 402, "authorization_refused").await;
    assert_eq!(stall.settler.settlements(), 1);
}

/// What the first may still pay, no other pays beside it: a payer that signs anew for the same quote waits.
#[tokio::test(start_paused = true)]
async fn a_second_signature_for_one_quote_waits_while_the_first_may_be_settled() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let offer = offered(&service).await;
    let (first, second) = (pays(&offer), sign(&offer, authorization(&offer, [9; 32])));
    stall.settler.script([Settling::Held]);
    assert_eq!(ask(&service, paid(&first)).await.status(), 503);
    stall.lease_runs_out();
    assert_problem(ask(&service, paid(&second)).await, 409, "redemption_in_progress").await;
    let mined = stall.settler.release();
    assert_problem(ask(&service, paid(&second)).await, 409, "redemption_in_progress").await;
    let answer = ask(&service, paid(&first)).await;
    assert_eq!((answer.status().as_u16(), settled(&answer).transaction), (200, Some(mined[0])));
    assert_problem(ask(&service, paid(&second)).await, 409, "already_consumed").await;
    assert_eq!(stall.settler.settlements(), 1);
}

/// Its payer cancels it while the handler works: nothing is taken, and the answer does not leave.
#[tokio::test(start_paused = true)]
async fn what_is_cancelled_before_it_is_settled_is_refused() {
    for settling in [Settling::Settled, Settling::Unknown] {
        let stall = Stall::open().await;
        let chain = stall.shop.chain.clone();
        let canceller = tower::service_fn(move |_: http::Request<tower_x402::RequestBody<axum::body::Body>>| {
            chain.cancel(Asset::USDC_BASE.contract(), payer(), NONCE);
            async { Ok::<_, std::convert::Infallible>(http::Response::new(axum::body::Body::from("precious"))) }
        });
        let service = layered(&stall.shop.layer(), canceller);
        let payment = pays(&offered(&service).await);
        stall.settler.script([settling]);
        let body = assert_problem(ask(&service, paid(&payment)).await, 402, "authorization_refused").await;
        assert_eq!(body["reason"], "invalid_transaction_state");
        assert_eq!(stall.shop.ledger.counts().unwrap().held, 0);
        let body = assert_problem(ask(&service, paid(&payment)).await, 402, "authorization_refused").await;
        assert_eq!(body["reason"], "invalid_exact_evm_nonce_already_used");
    }
}

/// A reorganisation, or a verifier that is behind: what is settled is waited for.
#[tokio::test(start_paused = true)]
async fn what_the_verifier_does_not_see_is_not_sold() {
    let stall = Stall::open().await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let payment = pays(&offered(&service).await);
    stall.settler.script([Settling::Held]);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 503);
    let mined = stall.settler.release()[0];
    stall.shop.chain.forget(mined);
    stall.settler.answer_verify(Ok(tower_x402::settle::Validity::Used));
    stall.lease_runs_out();
    let answer = ask(&service, paid(&payment)).await;
    assert_eq!(settled(&answer).error_reason, Some(Reason::SETTLEMENT_PENDING));
    assert_problem(answer, 503, "outcome_unknown").await;
    assert_eq!(counter.runs(), 1);
}

/// A token that logs its nonces elsewhere, or keeps a fee, may have paid all the same: whoever paid gets no other bill.
#[tokio::test]
async fn a_used_nonce_whose_transaction_paid_here_otherwise_brings_no_bill() {
    let (elsewhere, stranger) = (Address::new([0xee; 20]), Address::new([0xbb; 20]));
    let transfer = |from, to, units| {
        Transfer::new(Network::BASE, TxHash::new([0; 32]), 0)
            .with_token(Asset::USDC_BASE.contract())
            .with_payer(from)
            .with_recipient(to)
            .with_amount(Amount::from_base_units(units))
            .with_block(7, ChainTime::from_unix(NOW))
    };
    let by_nonce = |to, units| transfer(payer(), to, units).with_binding(Binding::none().with_nonce(NONCE));
    for (transfers, status, code) in [
        (vec![by_nonce(elsewhere, 490_000), transfer(payer(), recipient(), 490_000)], 403, "payment_bound"),
        (vec![by_nonce(recipient(), 489_000)], 503, "outcome_unknown"),
        (vec![by_nonce(elsewhere, 490_000), transfer(stranger, recipient(), 490_000)], 402, "authorization_refused"),
        (vec![by_nonce(elsewhere, 490_000)], 402, "authorization_refused"),
    ] {
        let stall = Stall::open().await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let offer = offered(&service).await;
        stall.shop.chain.mine(TxHash::new([9; 32]), transfers);
        for _ in 0..2 {
            assert_problem(ask(&service, paid(&pays(&offer))).await, status, code).await;
        }
        assert_eq!(stall.settler.settlements(), 0);
    }
}
