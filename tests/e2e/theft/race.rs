//! A hundred thousand presentations of bound payments, racing: none of a thief's is answered.

use std::sync::Arc;

use axum::body::Body;
use futures_util::future::join_all;
use http::Request;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tower_x402::{
    X402,
    protocol::{PaymentTag, TxHash},
};

use super::payments::{Payment, THIEF, signature};
use crate::{
    served::market::{Market, PRICE},
    support::{Counter, Handler, answering, ask, layered, post, quoted, with_status},
};

/// How many payments there are, in blocks of so many.
const BLOCKS: usize = 10;
const PAYMENTS: usize = 10;
/// How many thieves there are, and how often each presents a payment.
const THIEVES: usize = 50;
const PRESENTATIONS: usize = 20;

fn redemption(intent: &str, transaction: TxHash, more: &Value) -> Request<Body> {
    let mut body = json!({ "query": "why", "intentId": intent, "txHash": transaction.to_string() });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    post(body.to_string())
}

/// Presents one payment often, as all of them do; tells how often that was answered with something else than a refusal.
async fn steal<S: Handler>(service: X402<S>, intent: Arc<str>, transaction: TxHash, shown: Value) -> usize {
    let mut stolen = 0;
    for _ in 0..PRESENTATIONS {
        let answer = ask(&service, redemption(&intent, transaction, &shown)).await;
        let refused = matches!(answer.status().as_u16(), 403 | 409);
        stolen += usize::from(!refused);
    }
    stolen
}

/// Everything is real but the wire: the chain, the verifier with its memory of receipts, and the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_hundred_thousand_racing_presentations_nothing_is_stolen() {
    let market = Market::new().await;
    let merchant = market.merchant().await.hold_unbound(std::time::Duration::from_secs(5)).build().await.unwrap();
    let layer = merchant.charge("answer", tower_x402::protocol::Amount::from_base_units(PRICE)).unwrap();
    let counter = Counter::default();
    let service = layered(&layer, answering(counter.clone(), |_| with_status(200)));
    let intents: Vec<Arc<str>> =
        join_all((0..THIEVES).map(|_| quoted(&service))).await.into_iter().map(Into::into).collect();
    let mut stolen = 0;
    for _ in 0..BLOCKS {
        let mut payments = Vec::new();
        for number in 0..PAYMENTS {
            let payment = [Payment::Signed, Payment::Tagged, Payment::Nonce][number % 3];
            let intent = quoted(&service).await;
            payments.push((payment, payment.send(&market, &intent).await, intent));
        }
        market.block().await;
        for (payment, transaction, intent) in payments {
            let go = Arc::new(Barrier::new(THIEVES + 1));
            let thieves: Vec<_> = (0..THIEVES)
                .map(|number| {
                    let shown = match number {
                        // One only: recovering who signed takes longer than all the rest.
                        0 => signature(&market, THIEF, &intents[number], transaction),
                        1..25 => json!({ "paymentSecret": PaymentTag::of(&intent).to_string() }),
                        _ => json!({}),
                    };
                    let (service, intent, go) = (service.clone(), Arc::clone(&intents[number]), Arc::clone(&go));
                    tokio::spawn(async move {
                        go.wait().await;
                        steal(service, intent, transaction, shown).await
                    })
                })
                .collect();
            let own = redemption(&intent, transaction, &payment.shown(&market, &intent, transaction));
            go.wait().await;
            assert_eq!(ask(&service, own).await.status(), 200, "{payment:?}");
            stolen += join_all(thieves).await.into_iter().map(Result::unwrap).sum::<usize>();
        }
    }
    let presentations = BLOCKS * PAYMENTS * THIEVES * PRESENTATIONS;
    println!("{presentations} presentations by thieves, {stolen} answered");
    assert_eq!((presentations, stolen, counter.runs()), (100_000, 0, BLOCKS * PAYMENTS));
}
