//! The datasets program: who redeems a payment, and what is delivered again, as the flags say.

use std::time::Duration;

use tower_x402::{
    protocol::{
        PaymentTag,
        headers::PAYMENT_SIGNATURE,
        v2::{PaymentPayload, PaymentProof, PaymentRequired, SettleResponse},
    },
    testing::contracts,
};

use super::{
    app::{App, PATIENT},
    market::{Market, PRICE, SELLER, usdc},
    operating::app,
};

const MEMORY: [&str; 2] = ["--ledger", "memory"];

async fn start(market: &Market, flags: &[&str]) -> App {
    app(&std::env::temp_dir(), market, &[&MEMORY, flags].concat()).await
}

#[tokio::test]
async fn an_unbound_payment_waits_for_as_long_as_the_flag_says() {
    let market = Market::new().await;
    let app = start(&market, &["--hold-unbound", "10s"]).await;
    assert!(app.said().contains("held for 10s"), "{}", app.said());
    let (intent, payment) = (app.intent().await, market.pay(PRICE).await);
    let held = async {
        loop {
            let refused = app.present(&intent, payment).await.refused("tx_not_confirmed");
            // Until then the program has not seen the payment.
            if refused.headers["retry-after"] == "10" {
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENT, held).await.unwrap();
    market.block_at(market.now().await + 10).await;
    let _ = app.redeem(&intent, payment).await.taken();
}

#[tokio::test]
async fn an_unbound_payment_is_refused_where_bound_ones_are_required() {
    let market = Market::new().await;
    let app = start(&market, &["--require-bound"]).await;
    assert!(app.said().contains("refused without a signature"), "{}", app.said());
    let (intent, payment) = (app.intent().await, market.pay(PRICE).await);
    app.redeem(&intent, payment).await.refused("payer_proof_required");
}

#[tokio::test]
async fn an_answer_is_delivered_again_unless_that_is_switched_off() {
    let market = Market::new().await;
    let (keeping, not) = (start(&market, &["--redeliver", "1m"]).await, start(&market, &[]).await);
    assert!(not.said().contains("redelivery=\"off\""), "{}", not.said());
    for app in [&keeping, &not] {
        let (intent, payment) = (app.intent().await, market.pay(PRICE).await);
        let first = app.redeem(&intent, payment).await;
        let taken = first.taken();
        let again = app.present(&intent, payment).await;
        if std::ptr::eq(app, &keeping) {
            assert_eq!(again.headers["idempotent-replayed"], "true");
            assert_eq!((again.taken(), &again.body), (taken, &first.body));
        } else {
            again.refused("already_consumed");
        }
    }
}

/// Shows a transfer in the standard's header until it is confirmed.
async fn show(app: &App, payment: &PaymentPayload) -> reqwest::Response {
    let shown = async {
        loop {
            let request = reqwest::Client::new().post(app.insights()).header(PAYMENT_SIGNATURE, payment.to_header());
            let answer = request.json(&serde_json::json!({ "query": "pricing" })).send().await.unwrap();
            if answer.headers().get("x402-error").is_none_or(|code| code != "tx_not_confirmed") {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(PATIENT, shown).await.unwrap()
}

/// The client-submitted family on a chain: the tagged transfer is sold for, and a plain one wants its payer's proof.
#[tokio::test]
async fn transfers_are_taken_in_the_standards_header_where_the_flag_says_so() {
    let market = Market::new().await;
    let app = start(&market, &["--client-submitted"]).await;
    let plain = contracts::transfer(SELLER, usdc(PRICE));
    for tagged in [false, true] {
        let required = PaymentRequired::from_headers(&app.ask().await.headers).unwrap().unwrap();
        let offer = required.accepts[0].exact().unwrap().clone();
        let tag = PaymentTag::of(offer.intent().unwrap().unwrap().as_str()).to_call_data();
        let call_data = if tagged { [&plain[..], &tag].concat() } else { plain.clone() };
        let transaction = market.call(market.buyer(0), market.chain.usdc(), &call_data).await;
        let answer = show(&app, &PaymentPayload::new(offer, PaymentProof::new(transaction))).await;
        if tagged {
            let told = SettleResponse::from_headers(answer.headers()).unwrap().unwrap();
            assert_eq!((answer.status().as_u16(), told.success, told.transaction), (200, true, Some(transaction)));
        } else {
            assert_eq!(answer.headers()["x402-error"], "payer_proof_required");
        }
    }
}
