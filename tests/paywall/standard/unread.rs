//! A seller with a settler and nothing that reads the chain.

use tower_x402::{
    Merchant,
    ledger::MemoryLedger,
    protocol::{ChainTime, SealingKeys, TxHash, v2::Reason},
    settle::{SettleError, Validity},
    testing::{FakeClock, ScriptedSettler, ScriptedVerifier, Settling},
};

use super::{by_hash, intent, offered, paid, pays, settled};
use crate::support::{Counter, NOW, ask, assert_problem, echo, layered, post, recipient};

async fn open(lazily: bool, up: bool) -> Result<(Merchant, ScriptedSettler, FakeClock), tower_x402::BuildError> {
    let clock = FakeClock::new(NOW);
    let settler = ScriptedSettler::new(ScriptedVerifier::new(ChainTime::from_unix(NOW)));
    if !up {
        settler.outage(SettleError::unavailable());
    }
    let builder = Merchant::builder(recipient())
        .settler(settler.clone())
        .ledger(MemoryLedger::with_clock(clock.clone()))
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
