//! A seller with a settler and nothing that reads the chain.

use std::{convert::Infallible, sync::Arc};

use axum::body::Body;
use http::{Request, Response, StatusCode};
use tower_x402::{
    Merchant, RequestBody,
    ledger::{Ledger, Maintenance as _, MemoryLedger},
    protocol::{ChainTime, Network, SealingKeys, TxHash, v2::Reason},
    settle::{SettleError, Validity},
    testing::{FakeClock, ScriptedSettler, ScriptedVerifier, Settling},
};

use super::{by_hash, intent, offered, paid, pays, settled, unquoted::unquoted};
use crate::{
    kinds::{Kind, Place},
    support::{Counter, Handler, NOW, ask, assert_problem, echo, layered, post, recipient},
};

async fn open(lazily: bool, up: bool) -> Result<(Merchant, ScriptedSettler, FakeClock), tower_x402::BuildError> {
    let clock = FakeClock::new(NOW);
    open_on(MemoryLedger::with_clock(clock.clone()), clock, lazily, up).await
}

async fn open_on(
    ledger: impl Ledger,
    clock: FakeClock,
    lazily: bool,
    up: bool,
) -> Result<(Merchant, ScriptedSettler, FakeClock), tower_x402::BuildError> {
    let settler = ScriptedSettler::new(ScriptedVerifier::new(ChainTime::from_unix(NOW)));
    if !up {
        settler.outage(SettleError::unavailable());
    }
    let builder = Merchant::builder(recipient())
        .settler(settler.clone())
        .ledger(ledger)
        .clock(clock.clone())
        .sealing_keys(SealingKeys::new([7; 32]));
    let builder = if lazily { builder.start_lazily() } else { builder };
    Ok((builder.build().await?, settler, clock))
}

#[tokio::test]
async fn it_asks_for_signed_payments_alone_and_sells_for_them() {
    let (merchant, settler, _) = open(false, true).await.unwrap();
    let counter = Counter::default();
    let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap(), echo(counter.clone()));
    let quote = ask(&service, post("{}")).await;
    assert!(!quote.headers().contains_key("pay") && !quote.headers().contains_key("x-payment-contracts"));
    let offer = super::requirements(&quote);
    let length: usize = quote.headers()["content-length"].to_str().unwrap().parse().unwrap();
    let body = assert_problem(quote, 402, "payment_required").await;
    assert_eq!((body["intentId"].as_str(), body.to_string().len()), (Some(&*intent(&offer)), length));
    assert_eq!(body["pay"], serde_json::Value::Null);
    let payment = pays(&offer);
    let answer = ask(&service, paid(&payment)).await;
    assert!(answer.status() == 200 && settled(&answer).transaction.is_some());
    assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
    let body =
        assert_problem(ask(&service, by_hash("AUbX", TxHash::new([1; 32]))).await, 400, "invalid_redemption").await;
    assert!(body["detail"].as_str().unwrap().contains("signed payments only"));
    assert_eq!((counter.runs(), settler.settlements()), (1, 1));
}

/// A settled payment is in a transaction: one that is named by nothing but zeros is none.
#[tokio::test]
async fn a_settlement_in_no_transaction_is_not_known() {
    let (merchant, settler, _) = open(false, true).await.unwrap();
    let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap(), echo(Counter::default()));
    settler.script([Settling::Claimed(TxHash::new([0; 32]))]);
    let answer = ask(&service, paid(&pays(&offered(&service).await))).await;
    let told = settled(&answer);
    assert_eq!((told.success, told.transaction), (false, None));
    assert_eq!(told.error_reason.unwrap().as_str(), "settlement_pending");
    assert_problem(answer, 503, "outcome_unknown").await;
}

/// Its word is what there is; where it has none, the payment is neither sold for nor asked for again.
#[tokio::test(start_paused = true)]
async fn what_the_settler_does_not_know_nobody_does() {
    let (merchant, settler, clock) = open(false, true).await.unwrap();
    let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    settler.script([Settling::SettledUnheard]);
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    for verdict in [Validity::Used, Validity::Refused(Reason::INSUFFICIENT_FUNDS)] {
        clock.advance(std::time::Duration::from_secs(61));
        settler.answer_verify(Ok(verdict));
        assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    }
    // Nor when its time is over by the clock: what was sent in time may be mined.
    clock.advance(std::time::Duration::from_secs(301));
    assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    // One that is called used has perhaps paid here.
    let offer = offered(&service).await;
    settler.answer_verify(Ok(Validity::Used));
    let late =
        super::authorization(&offer, [8; 32]).valid_between(ChainTime::from_unix(0), ChainTime::from_unix(NOW + 9_999));
    let unheard = super::sign(&offer, late);
    assert_problem(ask(&service, paid(&unheard)).await, 503, "verification_unavailable").await;
    settler.answer_verify(Ok(Validity::Refused(Reason::INSUFFICIENT_FUNDS)));
    // Refused before anything was sent is refused.
    let other = super::sign(payment.accepted.exact().unwrap(), super::authorization(&offered(&service).await, [9; 32]));
    assert_problem(ask(&service, paid(&other)).await, 409, "redemption_in_progress").await;
    let offer = offered(&service).await;
    let fresh = super::sign(&offer, super::authorization(&offer, [9; 32]));
    assert_problem(ask(&service, paid(&fresh)).await, 402, "authorization_refused").await;
}

#[tokio::test]
async fn without_its_settler_it_quotes_nothing() {
    assert!(open(false, false).await.unwrap_err().is_transient());
    let (merchant, settler, clock) = open(true, false).await.unwrap();
    let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap(), echo(Counter::default()));
    assert_problem(ask(&service, post("{}")).await, 503, "verification_unavailable").await;
    settler.outage(None);
    clock.advance(std::time::Duration::from_secs(6));
    assert_eq!(ask(&service, post("{}")).await.status(), 503);
    tokio::task::yield_now().await;
    assert_eq!(ask(&service, post("{}")).await.status(), 402);
}

/// The time of such a sale is the clock's. Set back while the payment is settled, it makes the sale no older than its reservation.
#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_while_a_payment_is_settled_loses_no_sale() {
    let (merchant, settler, clock) = open(false, true).await.unwrap();
    let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap(), echo(Counter::default()));
    let payment = pays(&offered(&service).await);
    settler.delay(std::time::Duration::from_secs(2));
    let mut asking = Box::pin(ask(&service, paid(&payment)));
    let settles = std::time::Duration::from_secs(3);
    assert!(tokio::time::timeout(settles, &mut asking).await.is_err(), "it is checked, and being settled");
    clock.set_unix(NOW - 60);
    assert_eq!(asking.await.status(), 200);
}

/// Fails in its first `failures` runs.
fn fails(counter: Counter, failures: usize) -> impl Handler {
    tower::service_fn(move |_: Request<RequestBody<Body>>| {
        let failed = counter.run() <= failures;
        let status = if failed { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK };
        async move {
            let mut response = Response::new(Body::from("done"));
            *response.status_mut() = status;
            Ok::<_, Infallible>(response)
        }
    })
}

/// What the settler confirmed is recorded: nothing else would ever tell of it.
#[tokio::test]
async fn what_was_settled_first_buys_the_answer_by_the_same_header() {
    spent_by_the_same_header(open(false, true).await.unwrap()).await;
    for kind in [Kind::Sqlite, Kind::Postgres, Kind::Redis] {
        let Some(place) = Place::new(kind).await else { continue };
        let ledger = place.ledger().await;
        ledger.migrate().await.unwrap();
        spent_by_the_same_header(open_on(ledger, FakeClock::new(NOW), false, true).await.unwrap()).await;
        place.remove().await;
    }
}

async fn spent_by_the_same_header((merchant, settler, clock): (Merchant, ScriptedSettler, FakeClock)) {
    let counter = Counter::default();
    let layer = merchant.charge("answer", "0.49 USDC").unwrap().settle_first();
    let service = layered(&layer, fails(counter.clone(), 2));
    let payment = pays(&offered(&service).await);
    let told = settled(&ask(&service, paid(&payment)).await);
    assert!(!told.success && told.transaction.is_some());
    // Another quote, whose payer copied the authorization, is none of it.
    let other = offered(&service).await;
    let copied = super::sign(&other, super::authorization(&other, super::NONCE));
    assert_problem(ask(&service, paid(&copied)).await, 409, "redemption_in_progress").await;
    // The settler says that it is used; or it is behind.
    for (verdict, status) in [(None, 500), (Some(Ok(Validity::Valid)), 200)] {
        clock.advance(std::time::Duration::from_secs(3));
        settler.answer_verify(verdict);
        let answer = ask(&service, paid(&payment)).await;
        assert_eq!(answer.status().as_u16(), status);
        if status == 200 {
            assert_eq!((settled(&answer).success, settled(&answer).transaction), (true, told.transaction));
        }
    }
    assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
    assert_problem(ask(&service, paid(&copied)).await, 409, "tx_already_used").await;
    assert_eq!((counter.runs(), settler.settlements()), (3, 1));
}

/// A client that leaves while its payment is settled has paid.
#[tokio::test(start_paused = true)]
async fn what_is_settled_for_a_client_that_left_buys_the_answer_by_the_same_header() {
    for first in [false, true] {
        let (merchant, settler, clock) = open(false, true).await.unwrap();
        let counter = Counter::default();
        let layer = merchant.charge("answer", "0.49 USDC").unwrap();
        let layer = if first { layer.settle_first() } else { layer };
        let service = layered(&layer, echo(counter.clone()));
        let payment = pays(&offered(&service).await);
        settler.delay(std::time::Duration::from_secs(2));
        let leaves = std::time::Duration::from_secs(3);
        let asking = tokio::time::timeout(leaves, ask(&service, paid(&payment)));
        assert!(asking.await.is_err(), "it is checked, and being settled");
        tokio::time::sleep(leaves).await;
        clock.advance(std::time::Duration::from_secs(61));
        assert_eq!(ask(&service, paid(&payment)).await.status(), 200, "{first}");
        assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
        assert_eq!((counter.runs(), settler.settlements()), (if first { 1 } else { 2 }, 1));
    }
}

/// Its payer could never prove to be the payer: it is not settled before there is an answer.
#[tokio::test(start_paused = true)]
async fn a_payment_without_a_quote_is_not_settled_first() {
    let (merchant, settler, _) = open(false, true).await.unwrap();
    let counter = Counter::default();
    let charge = || merchant.charge("answer", "0.49 USDC").unwrap();
    let service = layered(&charge().settle_first(), echo(counter.clone()));
    let payment = pays(&unquoted(&offered(&service).await));
    assert_problem(ask(&service, paid(&payment)).await, 402, "authorization_refused").await;
    assert_eq!((counter.runs(), settler.settlements()), (0, 0));
    let answer_first = layered(&charge(), echo(counter.clone()));
    assert_eq!(ask(&answer_first, paid(&payment)).await.status(), 200);
    assert_problem(ask(&service, paid(&payment)).await, 409, "already_consumed").await;
}

/// A restored backup may have such a record of what was sold since: its mark is raised.
#[tokio::test(start_paused = true)]
async fn what_was_settled_before_the_mark_was_raised_buys_nothing() {
    let clock = FakeClock::new(NOW);
    let ledger = Arc::new(MemoryLedger::with_clock(clock.clone()));
    let (merchant, settler, clock) = open_on(Arc::clone(&ledger), clock, false, true).await.unwrap();
    let counter = Counter::default();
    let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap().settle_first(), fails(counter.clone(), 1));
    let payment = pays(&offered(&service).await);
    assert_eq!(ask(&service, paid(&payment)).await.status(), 500);
    clock.advance(std::time::Duration::from_secs(5));
    let _ = ledger.raise_mark_to(Network::BASE, ChainTime::from_unix(NOW + 4)).await.unwrap();
    assert_problem(ask(&service, paid(&payment)).await, 422, "payment_too_old").await;
    assert_eq!((counter.runs(), settler.settlements()), (1, 1));
}

/// Whether it paid here, nobody knows any more: its payer is not asked to pay again.
#[tokio::test(start_paused = true)]
async fn what_the_ledger_has_forgotten_is_not_billed_anew() {
    let (merchant, settler, clock) = open(false, true).await.unwrap();
    let service = layered(&merchant.charge("answer", "0.49 USDC").unwrap(), echo(Counter::default()));
    let offer = offered(&service).await;
    for payment in [pays(&offer), super::sign(&unquoted(&offer), super::authorization(&offer, [8; 32]))] {
        settler.script([Settling::SettledUnheard]);
        assert_problem(ask(&service, paid(&payment)).await, 503, "outcome_unknown").await;
    }
    // Over, and not long ago.
    let never_sent = super::sign(&offer, super::authorization(&offer, [9; 32]));
    clock.advance(std::time::Duration::from_secs(20 * 60));
    assert_problem(ask(&service, paid(&never_sent)).await, 409, "redemption_in_progress").await;
    clock.advance(std::time::Duration::from_secs(4 * 24 * 60 * 60));
    for _ in 0..3 {
        for payment in [pays(&offer), super::sign(&unquoted(&offer), super::authorization(&offer, [8; 32]))] {
            assert_problem(ask(&service, paid(&payment)).await, 422, "payment_too_old").await;
        }
    }
}
