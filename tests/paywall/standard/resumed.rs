//! Payments that were settled for one request, whose process then stopped, and the requests with which they are shown again.

use axum::body::Body;
use http::Request;
use tower_x402::{
    Price,
    protocol::{Amount, Network, TxHash, headers::PAYMENT_SIGNATURE, redemption_message, v2::PaymentPayload},
    testing::{Settling, scripted_signature},
    verify::Verifier as _,
};

use super::{NONCE, Stall, authorization, paid, pays, requirements, sign};
use crate::{
    restored::{Behind, LAG},
    support::{Counter, ask, assert_problem, echo, fresh_intent, layered, payer, post},
};

/// Its table is what the test sees.
const SECURITY: &str = include_str!("../../repository/threats.md");

const CHEAP: &str = r#"{"q":"a"}"#;

fn dear() -> String {
    format!(r#"{{"q":"{}"}}"#, "a".repeat(40_000))
}

fn shown(body: &str, payment: &PaymentPayload) -> Request<Body> {
    let mut request = post(body);
    request.headers_mut().insert(PAYMENT_SIGNATURE, payment.to_header());
    request
}

/// A route whose price is the length of the body, and a payment for the short one, which was settled before its buyer left.
macro_rules! settled_unsold {
    ($stall:ident, $service:ident, $payment:ident, $counter:ident, $layer:ident => $set:expr) => {
        let $stall = Stall::open().await;
        let $layer = $stall
            .shop
            .merchant
            .price_with("by-length", |_, body| Price::Charge(Amount::from_base_units(body.len() as u128)));
        let $layer = $layer.unwrap();
        let $counter = Counter::default();
        let $service = layered(&$set, echo($counter.clone()));
        let $payment = pays(&requirements(&ask(&$service, post(CHEAP)).await));
        $stall.settler.script([Settling::SettledHanging]);
        let asking = tokio::time::timeout(std::time::Duration::from_secs(1), ask(&$service, shown(CHEAP, &$payment)));
        assert!(asking.await.is_err());
        $stall.lease_runs_out();
    };
}

#[tokio::test(start_paused = true)]
async fn a_payment_settled_for_a_cheap_request_buys_no_dear_one() {
    settled_unsold!(stall, service, payment, counter, layer => layer);
    for _ in 0..2 {
        let fresh = fresh_intent(ask(&service, shown(&dear(), &payment)).await, 404, "intent_not_found").await;
        assert_ne!(fresh, super::intent(payment.accepted.exact().unwrap()));
        stall.lease_runs_out();
    }
    assert_eq!(counter.runs(), 1);
    // Its own request resumes it.
    assert_eq!(ask(&service, shown(CHEAP, &payment)).await.status(), 200);
    assert_eq!(stall.settler.settlements(), 1);
    assert_problem(ask(&service, shown(&dear(), &payment)).await, 409, "already_consumed").await;
}

#[tokio::test(start_paused = true)]
async fn nor_another_request_of_a_route_that_binds_its_quotes() {
    settled_unsold!(stall, service, payment, counter, layer => layer.bind_request());
    let other = r#"{"q":"b"}"#;
    fresh_intent(ask(&service, shown(other, &payment)).await, 404, "intent_not_found").await;
    stall.lease_runs_out();
    assert_eq!(ask(&service, shown(CHEAP, &payment)).await.status(), 200);
    assert_eq!((counter.runs(), stall.settler.settlements()), (2, 1));
}

/// What is shown again, once the seller stopped between settlement and sale.
#[derive(Clone, Copy, Debug)]
enum Shown {
    OwnHeader,
    OwnHeaderDearer,
    UnderThiefsQuote,
    WithoutQuote,
    HashUnderOwnQuote,
    HashUnderThiefsQuote,
    HashWithPayersSignature,
}

impl Shown {
    const ALL: [(Self, &str); 7] = [
        (Self::OwnHeader, "the payer's `PAYMENT-SIGNATURE`, with its request"),
        (Self::OwnHeaderDearer, "the payer's `PAYMENT-SIGNATURE`, with a dearer request"),
        (Self::UnderThiefsQuote, "the same authorization, under another quote"),
        (Self::WithoutQuote, "the same authorization, without a quote"),
        (Self::HashUnderOwnQuote, "the transaction's hash, under the payer's own quote"),
        (Self::HashUnderThiefsQuote, "the transaction's hash, under another quote"),
        (Self::HashWithPayersSignature, "the transaction's hash, under another quote, signed by the payer"),
    ];
}

/// The rows `resumed` of the theft table.
#[tokio::test(start_paused = true)]
async fn what_was_settled_and_not_sold_is_its_payers_for_its_request() {
    let mut table = "| Shown after the seller stopped | What is answered |\n|---|---|\n".to_owned();
    for (shown, words) in Shown::ALL {
        settled_unsold!(stall, service, payment, counter, layer => layer);
        let offer = payment.accepted.exact().unwrap().clone();
        let signed = authorization(&offer, NONCE);
        let other = requirements(&ask(&service, post(CHEAP)).await);
        let transaction = TxHash::new([[0xfa; 24].as_slice(), &1_u64.to_be_bytes()].concat().try_into().unwrap());
        let answer = match shown {
            Shown::OwnHeader => ask(&service, self::shown(CHEAP, &payment)).await,
            Shown::OwnHeaderDearer => ask(&service, self::shown(&dear(), &payment)).await,
            Shown::UnderThiefsQuote => ask(&service, self::shown(CHEAP, &sign(&other, signed))).await,
            Shown::WithoutQuote => {
                let mut bare = offer.clone();
                bare.extra = Default::default();
                let bare = bare.with_token_domain("USD Coin", "2");
                ask(&service, self::shown(CHEAP, &sign(&bare, signed))).await
            }
            Shown::HashUnderOwnQuote | Shown::HashUnderThiefsQuote | Shown::HashWithPayersSignature => {
                let quote = if let Shown::HashUnderOwnQuote = shown { &offer } else { &other };
                let other = quote.intent().unwrap().unwrap();
                let message = redemption_message(Network::BASE, transaction, &other);
                let proof = match shown {
                    Shown::HashWithPayersSignature => {
                        format!(r#","paymentSignature":"{}""#, scripted_signature(payer(), &message))
                    }
                    _ => String::new(),
                };
                let mut request = post(CHEAP);
                let proof = format!(r#"{{"intentId":"{other}","txHash":"{transaction}"{proof}}}"#);
                request.headers_mut().insert("x402-payment", proof.parse().unwrap());
                ask(&service, request).await
            }
        };
        let told = match answer.status().as_u16() {
            200 => "the answer".to_owned(),
            _ => format!("`{}`", answer.headers()["x402-error"].to_str().unwrap()),
        };
        assert_eq!(stall.settler.settlements(), 1, "{words}");
        assert_eq!(counter.runs(), if told == "the answer" { 2 } else { 1 }, "{words}");
        table += &format!("| {words} | {told} |\n");
    }
    assert!(SECURITY.contains(&table), "threats.md has another table than\n{table}");
}

/// Quote, reservation and settlement within one second of chain time, as on chains with several blocks a second.
#[tokio::test(start_paused = true)]
async fn one_settled_in_the_second_of_its_reservation_is_its_own_payers() {
    let stall = Stall::open().await;
    let service = layered(&stall.shop.layer(), echo(Counter::default()));
    let payment = pays(&super::offered(&service).await);
    let head = stall.shop.chain.head().await.unwrap();
    stall.settler.script([Settling::Hanging]);
    let asking = tokio::time::timeout(std::time::Duration::from_secs(1), ask(&service, paid(&payment)));
    assert!(asking.await.is_err());
    let offer = payment.accepted.exact().unwrap();
    let transfer = super::made_from(offer.asset, &authorization(offer, NONCE), TxHash::new([0xab; 32]), head);
    stall.shop.chain.mine(TxHash::new([0xab; 32]), [transfer]);
    stall.lease_runs_out();
    assert_eq!(ask(&service, paid(&payment)).await.status(), 200);
}

/// A ledger that lost everything meanwhile begins by the question whether it would remember the payment. It must begin above what
/// was sold before, and the node may not have seen that yet.
#[tokio::test(start_paused = true)]
async fn an_emptied_ledger_does_not_begin_at_the_head_of_a_node_that_lags() {
    settled_unsold!(stall, service, payment, counter, layer => layer);
    let settler = stall.settler.clone();
    let verifier = Behind(stall.shop.chain.clone());
    let merchant = stall.shop.sibling(|builder| builder.verifier(verifier).settler(settler)).await;
    let layer = merchant.price_with("by-length", |_, body| Price::Charge(Amount::from_base_units(body.len() as u128)));
    let resuming = layered(&layer.unwrap(), echo(counter.clone()));
    let before = stall.shop.faults.begins().len();
    assert_eq!(ask(&resuming, shown(CHEAP, &payment)).await.status(), 200);
    assert_eq!((counter.runs(), stall.settler.settlements()), (2, 1));
    let horizon = stall.shop.chain.head().await.unwrap().after(LAG);
    let begins = stall.shop.faults.begins().split_off(before);
    assert!(!begins.is_empty() && begins.iter().all(|begin| *begin == horizon), "{begins:?}, not {horizon:?}");
    drop(service);
}
