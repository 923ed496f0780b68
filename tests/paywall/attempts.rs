//! Attempts: how often a handler may be started for a payment, by its payer and by everybody else.

use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use serde_json::json;
use tokio::time::sleep;
use tower_x402::{
    protocol::{ChainTime, IntentId, Network, TxHash, redemption_message},
    testing::scripted_signature,
};

use crate::{
    support::faults::{Fault, Op, Stage, failed, handler, ok, quoted, settle, start},
    support::{NOW, ask, assert_problem, layered, payer, post, redemption},
};

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn retry_after<B>(response: &Response<B>) -> u64 {
    response.headers()["retry-after"].to_str().unwrap().parse().unwrap()
}

/// A redemption that its payer has signed.
fn signed_redemption(intent: &str, tx: TxHash) -> Request<Body> {
    let message = redemption_message(Network::BASE, tx, &IntentId::new(intent).unwrap());
    let signature = scripted_signature(payer(), &message).to_string();
    post(json!({ "intentId": intent, "txHash": tx.to_string(), "paymentSignature": signature }).to_string())
}

#[tokio::test(start_paused = true)]
async fn sixteen_failures_then_a_cool_down_that_doubles_to_a_quarter_of_an_hour() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|run| async move { if run == 24 { ok() } else { failed() } }));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    for _ in 0..16 {
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 500);
    }
    for cool_down in [60, 120, 240, 480, 900, 900, 900] {
        let refused = ask(&service, redemption(&intent, tx)).await;
        assert_eq!(retry_after(&refused), cool_down);
        assert_problem(refused, 429, "too_many_attempts").await;
        sleep(seconds(cool_down) - Duration::from_millis(1)).await;
        assert_problem(ask(&service, redemption(&intent, tx)).await, 429, "too_many_attempts").await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 500);
    }
    sleep(seconds(900)).await;
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200, "the payment stays good");
}

/// A sale is no failed attempt, and ends the count of those before it: should its ledger lose the sale, the pair begins anew.
#[tokio::test(start_paused = true)]
async fn a_sale_is_not_counted_among_the_attempts() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|run| async move { if run == 16 { ok() } else { failed() } }));
    let (intent, tx) = (quoted(&service).await, stage.shop.pay(490_000));
    stage.ledger.forgets_sales();
    for _ in 0..15 {
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 500);
    }
    assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 200);
    for _ in 0..16 {
        assert_eq!(ask(&service, redemption(&intent, tx)).await.status(), 500);
    }
    assert_problem(ask(&service, redemption(&intent, tx)).await, 429, "too_many_attempts").await;
}

#[tokio::test(start_paused = true)]
async fn polls_and_refusals_are_no_attempts() {
    let stage = Stage::open().await;
    let service = layered(
        &stage.layer(),
        handler(|_| async {
            sleep(seconds(1)).await;
            failed()
        }),
    );
    let (intent, tx) = (quoted(&service).await, stage.shop.pay_at(490_000, NOW + 10));
    for _ in 0..40 {
        assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "tx_not_confirmed").await;
    }
    stage.shop.chain.set_head(ChainTime::from_unix(NOW + 10));
    stage.ledger.next(Op::Reserve, [Fault::Fail; 40]);
    for _ in 0..40 {
        assert_problem(ask(&service, redemption(&intent, tx)).await, 503, "ledger_unavailable").await;
    }
    for _ in 0..16 {
        let attempt = start(&service, redemption(&intent, tx));
        settle().await;
        for _ in 0..40 {
            assert_problem(ask(&service, redemption(&intent, tx)).await, 409, "redemption_in_progress").await;
        }
        assert_eq!(attempt.await.unwrap().status(), 500);
    }
    for _ in 0..40 {
        let refused = ask(&service, redemption(&intent, tx)).await;
        assert_eq!(retry_after(&refused), 60);
        assert_problem(refused, 429, "too_many_attempts").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_strangers_failures_do_not_use_up_the_payers_attempts() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|run| async move { if run > 16 { ok() } else { failed() } }));
    let (stranger, payer, tx) = (quoted(&service).await, quoted(&service).await, stage.shop.pay(490_000));
    for _ in 0..16 {
        assert_eq!(ask(&service, redemption(&stranger, tx)).await.status(), 500);
    }
    assert_problem(ask(&service, redemption(&stranger, tx)).await, 429, "too_many_attempts").await;
    assert_eq!(ask(&service, redemption(&payer, tx)).await.status(), 200);
}

/// Intents are free, so what one pair is allowed bounds nothing by itself.
#[tokio::test(start_paused = true)]
async fn strangers_with_any_number_of_intents_start_the_handler_64_times_and_stop_no_payer_who_signs() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|run| async move { if run > 64 { ok() } else { failed() } }));
    let tx = stage.shop.pay(490_000);
    for _ in 0..64 {
        let stranger = quoted(&service).await;
        assert_eq!(ask(&service, redemption(&stranger, tx)).await.status(), 500);
    }
    let intent = quoted(&service).await;
    let refused = ask(&service, redemption(&intent, tx)).await;
    assert_eq!(retry_after(&refused), 60);
    assert_problem(refused, 429, "too_many_attempts").await;
    assert_eq!(ask(&service, signed_redemption(&intent, tx)).await.status(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_payer_who_signs_for_one_intent_after_the_other_has_16_attempts_in_all() {
    let stage = Stage::open().await;
    let service = layered(&stage.layer(), handler(|_| async { failed() }));
    let tx = stage.shop.pay(490_000);
    for _ in 0..16 {
        let intent = quoted(&service).await;
        assert_eq!(ask(&service, signed_redemption(&intent, tx)).await.status(), 500);
    }
    let intent = quoted(&service).await;
    assert_problem(ask(&service, signed_redemption(&intent, tx)).await, 429, "too_many_attempts").await;
}

/// Strangers who know the hash take turns with slow requests that fail: once its payer signs, it has the next turn.
#[tokio::test(start_paused = true)]
async fn a_payer_who_signs_waits_for_one_stranger_at_most() {
    let stage = Stage::open().await;
    let slow = |run| async move {
        if run == 2 {
            return ok();
        }
        sleep(seconds(10)).await;
        failed()
    };
    let service = layered(&stage.layer(), handler(slow));
    let (tx, payer) = (stage.shop.pay(490_000), quoted(&service).await);
    let (first, next) = (quoted(&service).await, quoted(&service).await);
    let first = start(&service, redemption(&first, tx));
    settle().await;
    assert_problem(ask(&service, signed_redemption(&payer, tx)).await, 409, "redemption_in_progress").await;
    assert_eq!(first.await.unwrap().status(), 500);
    let stands_back = ask(&service, redemption(&next, tx)).await;
    assert_eq!(retry_after(&stands_back), 5);
    assert_problem(stands_back, 409, "redemption_in_progress").await;
    assert_eq!(ask(&service, signed_redemption(&payer, tx)).await.status(), 200);
}

/// A payer that signed and never came back keeps nobody out for long.
#[tokio::test(start_paused = true)]
async fn strangers_stand_back_for_half_a_minute() {
    let stage = Stage::open().await;
    let service = layered(
        &stage.layer(),
        handler(|run| async move {
            if run == 1 {
                sleep(seconds(10)).await;
                return failed();
            }
            ok()
        }),
    );
    let (tx, payer, stranger) = (stage.shop.pay(490_000), quoted(&service).await, quoted(&service).await);
    let first = start(&service, redemption(&stranger, tx));
    settle().await;
    assert_problem(ask(&service, signed_redemption(&payer, tx)).await, 409, "redemption_in_progress").await;
    assert_eq!(first.await.unwrap().status(), 500);
    sleep(seconds(19)).await;
    assert_problem(ask(&service, redemption(&stranger, tx)).await, 409, "redemption_in_progress").await;
    sleep(seconds(1)).await;
    assert_eq!(ask(&service, redemption(&stranger, tx)).await.status(), 200);
}
