//! Payments that name no quote, in bad moments.

use std::{
    future::Future as _,
    pin::pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::Duration,
};

use tower_x402::{
    Price,
    protocol::{
        Amount, Asset, ChainTime, Network, Terms, TxHash,
        v2::{PaymentPayload, PaymentRequirements},
    },
    testing::{ScriptedVerifier, Settling},
    verify::{Verdict, Verifier as _},
};

use super::{NONCE, Stall, authorization, offered, paid, pays, requirements, sign};
use crate::support::{
    Counter, NOW, ask, assert_problem, echo,
    faults::{handler, ok, start},
    layered, payer, recipient,
};

pub fn unquoted(offer: &PaymentRequirements) -> PaymentRequirements {
    let mut offer = offer.clone();
    offer.extra = Default::default();
    offer.with_token_domain("USD Coin", "2")
}

/// Without a quote nothing says since when it may have been used: "not found lately" is no proof that it did not pay here.
#[tokio::test(start_paused = true)]
async fn a_payment_without_a_quote_that_is_used_is_never_billed_anew() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&unquoted(&offered(&service).await));
    stall.settler.script([Settling::SettledHanging]);
    let asking = tokio::time::timeout(Duration::from_secs(20), ask(&service, paid(&payment)));
    assert!(asking.await.is_err());
    // Longer ago than the search goes.
    let chain = &stall.shop.chain;
    let transaction = (1..99_u64).map(numbered).find(|hash| chain_has(chain, *hash)).unwrap();
    chain.forget(transaction);
    chain.cancel(payment.accepted.exact().unwrap().asset, payer(), NONCE);
    for _ in 0..2 {
        stall.lease_runs_out();
        let answer = ask(&service, paid(&payment)).await;
        assert_problem(answer, 404, "intent_not_found").await;
    }
}

fn numbered(number: u64) -> TxHash {
    let mut bytes = [0xfa; 32];
    bytes[24..].copy_from_slice(&number.to_be_bytes());
    TxHash::new(bytes)
}

fn chain_has(chain: &ScriptedVerifier, transaction: TxHash) -> bool {
    let terms = Terms::builder(Network::BASE, recipient(), Amount::from_base_units(1))
        .resource("any")
        .assets([Asset::USDC_BASE])
        .max_payment_age(Duration::from_secs(86_400))
        .build();
    let mut verdict = pin!(chain.verify(&terms, transaction));
    let polled = verdict.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    matches!(polled, Poll::Ready(Ok(Verdict::Paid { .. })))
}

/// The price changed while it was not known whether a payment without a quote is settled.
#[tokio::test(start_paused = true)]
async fn a_payment_without_a_quote_that_may_still_be_mined_is_not_billed_anew_at_another_price() {
    let stall = Stall::open().await;
    let price = Arc::new(Mutex::new(490_000_u128));
    let now = Arc::clone(&price);
    let layer = stall
        .shop
        .merchant
        .price_with("changing", move |_, _| Price::Charge(Amount::from_base_units(*now.lock().unwrap())));
    let service = layered(&layer.unwrap(), echo(Counter::default()));
    let payment = pays(&unquoted(&offered(&service).await));
    stall.settler.script([Settling::Held]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    *price.lock().unwrap() = 500_000;
    assert_problem(ask(&service, paid(&payment)).await, 409, "redemption_in_progress").await;
    stall.lease_runs_out();
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    *price.lock().unwrap() = 490_000;
    stall.lease_runs_out();
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    stall.settler.release();
    *price.lock().unwrap() = 500_000;
    stall.lease_runs_out();
    assert_problem(ask(&service, paid(&payment)).await, 403, "payment_bound").await;
    // One that nobody has seen is refused, and asked for again.
    let other = sign(payment.accepted.exact().unwrap(), authorization(payment.accepted.exact().unwrap(), [9; 32]));
    let answer = ask(&service, paid(&other)).await;
    assert_eq!(requirements(&answer).amount, Amount::from_base_units(500_000));
    assert_problem(answer, 402, "authorization_refused").await;
}

/// Only open quotes name a former recipient.
#[tokio::test(start_paused = true)]
async fn a_payment_without_a_quote_to_a_former_recipient_is_refused() {
    let former = tower_x402::protocol::Address::new([9; 20]);
    let stall = Stall::open_with(|builder| builder.former_recipient(former)).await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let mut offer = unquoted(&offered(&service).await);
    offer.pay_to = former;
    let answer = ask(&service, paid(&sign(&offer, authorization(&offer, NONCE)))).await;
    assert_eq!(requirements(&answer).pay_to, recipient());
    assert_problem(answer, 402, "authorization_refused").await;
    assert_eq!((counter.runs(), stall.settler.settlements()), (0, 0));
}

/// What the ledger forgets must be over.
#[tokio::test]
async fn a_payment_is_over_before_the_ledger_forgets_it() {
    const HOUR: u64 = 3_600;
    let age = Duration::from_secs(2 * HOUR);
    let stall = Stall::open_with(|builder| builder.max_payment_age(age)).await;
    let counter = Counter::default();
    let service = layered(&stall.shop.layer(), echo(counter.clone()));
    let quoted = offered(&service).await;
    for (nonce, offer) in [(NONCE, unquoted(&quoted)), ([9; 32], quoted)] {
        let runs = counter.runs();
        for end in [NOW + 2 * HOUR + 1, u64::MAX] {
            let answer = ask(&service, paid(&until(&offer, nonce, end))).await;
            let body = assert_problem(answer, 402, "authorization_refused").await;
            assert_eq!(body["reason"], "invalid_exact_evm_payload_authorization_valid_before");
        }
        assert_eq!((counter.runs(), stall.settler.settlements()), (runs, runs));
        assert_eq!(ask(&service, paid(&until(&offer, nonce, NOW + 2 * HOUR))).await.status(), 200);
    }
}

fn until(offer: &PaymentRequirements, nonce: [u8; 32], end: u64) -> PaymentPayload {
    sign(offer, authorization(offer, nonce).valid_between(ChainTime::from_unix(0), ChainTime::from_unix(end)))
}

/// A reorganisation removes what settled it, and days later the same authorization is shown under another quote.
#[tokio::test]
async fn an_authorization_buys_nothing_once_the_ledger_has_forgotten_what_it_bought() {
    const DAY: u64 = 86_400;
    for end in [NOW + DAY, u64::MAX] {
        let stall = Stall::open().await;
        let service = layered(&stall.shop.layer(), echo(Counter::default()));
        let first = ask(&service, paid(&until(&offered(&service).await, NONCE, end))).await;
        let mut sold = usize::from(first.status() == 200);
        if sold == 1 {
            stall.shop.chain.forget(super::settled(&first).transaction.unwrap());
        }
        for day in [4, 8] {
            stall.shop.clock.set_unix(NOW + day * DAY);
            stall.shop.chain.set_head(ChainTime::from_unix(NOW + day * DAY));
            // Another customer's payment, by which the ledger forgets.
            let offer = offered(&service).await;
            let other = until(&offer, [u8::try_from(day).unwrap(); 32], NOW + day * DAY + 300);
            assert_eq!(ask(&service, paid(&other)).await.status(), 200);
            let again = ask(&service, paid(&until(&offered(&service).await, NONCE, end))).await;
            sold += usize::from(again.status() == 200);
        }
        assert!(sold <= 1, "valid before {end}: sold {sold} times");
    }
}

/// All that it shows is public once it is settled: nobody resumes it, and nobody has its answer again.
#[tokio::test(start_paused = true)]
async fn what_is_shown_without_a_quote_proves_nothing_once_it_is_settled() {
    let stall = Stall::open().await;
    let layer = stall.shop.layer().redeliver(tower_x402::Redelivery::lasting(Duration::from_secs(60)));
    let service = layered(&layer, echo(Counter::default()));
    let offer = unquoted(&offered(&service).await);
    let payment = pays(&offer);
    stall.settler.script([Settling::Held]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    stall.settler.release();
    stall.lease_runs_out();
    assert_problem(ask(&service, paid(&payment)).await, 403, "payment_bound").await;
    let other = sign(&offer, authorization(&offer, [9; 32]));
    assert_eq!(ask(&service, paid(&other)).await.status(), 200);
    assert_problem(ask(&service, paid(&other)).await, 409, "already_consumed").await;
    // To somebody else it pays nothing here.
    let mut elsewhere = offer;
    elsewhere.pay_to = tower_x402::protocol::Address::new([9; 20]);
    let elsewhere = sign(&elsewhere, authorization(&elsewhere, [10; 32]));
    assert_problem(ask(&service, paid(&elsewhere)).await, 402, "authorization_refused").await;
}

/// Another request took the lease over and sold the answer, which is kept. What a payment without a quote shows is public by then.
#[tokio::test(start_paused = true)]
async fn a_withheld_answer_is_given_again_under_a_quote_alone() {
    for quoted in [false, true] {
        let stall = Stall::open().await;
        let layer = stall.shop.layer().redeliver(tower_x402::Redelivery::lasting(Duration::from_secs(600)));
        let slow_at_first = handler(|run| async move {
            tokio::time::sleep(Duration::from_secs(if run == 1 { 30 } else { 0 })).await;
            ok()
        });
        let service = layered(&layer, slow_at_first);
        let offer = offered(&service).await;
        let payment = pays(&if quoted { offer } else { unquoted(&offer) });
        let slow = start(&service, paid(&payment));
        tokio::time::sleep(Duration::from_secs(1)).await;
        stall.lease_runs_out();
        assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
        let told = slow.await.unwrap();
        if quoted {
            assert_eq!((told.status().as_u16(), told.headers()["idempotent-replayed"].as_bytes()), (200, &b"true"[..]));
        } else {
            assert_problem(told, 409, "already_consumed").await;
        }
        assert_eq!(stall.settler.settlements(), 1);
    }
}
