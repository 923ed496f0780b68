//! The datasets program: who redeems a payment, and what is delivered again, as the flags say.

use super::{
    app::App,
    market::{Market, PRICE},
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
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    tokio::time::timeout(super::app::PATIENT, held).await.unwrap();
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
