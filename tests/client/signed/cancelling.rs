//! An authorization is made void on the chain before its time is over.

use std::time::Duration;

use std::error::Error as _;

use tokio::time::timeout;
use tower_x402::{
    client::{BudgetDenial, JournalEntry, PayLayer, Payer as _, PreparedTransfer, PurchaseId, PurchaseState},
    testing::Sending,
};

use super::{
    super::{
        rig::{Diary, Slip},
        told::Told,
    },
    *,
};

/// An authorization that its seller did not take.
async fn outstanding(market: &Market) -> PurchaseId {
    let seller = seller(|_, _| refusal("insufficient_funds", &[way("490000")]));
    assert!(buy(market, &seller).await.is_err());
    market.journal.entries().remove(0).id
}

fn entry(market: &Market) -> JournalEntry {
    market.journal.entries().remove(0)
}

async fn left_after(seconds: u64, layer: &PayLayer, purchase: PurchaseId) {
    assert!(timeout(Duration::from_secs(seconds), layer.cancel(purchase)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn once_it_is_cancelled_the_same_request_pays_anew() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| match shows {
        0 => refusal("insufficient_funds", &[way("490000")]),
        _ => delivered(settle(&chain, payment)),
    });
    let layer = market.layer().await;
    let error = ask(&layer, &seller, question("{}")).await.unwrap_err();
    assert_eq!(error.kind(), PayErrorKind::Outstanding, "{error}");
    let purchase = error.purchase().unwrap();
    assert_eq!(layer.cancel(purchase).await.unwrap(), Some(PurchaseState::Void));
    assert_eq!(layer.cancel(purchase).await.unwrap(), None, "it is closed");
    assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer");
    assert_eq!((nonces(&seller).0.len(), market.wallet.authorizations_signed()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn one_that_was_used_is_not_cancelled() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| match shows {
        0 => refusal("insufficient_funds", &[way("490000")]),
        _ => delivered(settle(&chain, payment)),
    });
    let layer = market.layer().await;
    assert!(ask(&layer, &seller, question("{}")).await.is_err());
    let payment = seller.asked().iter().find_map(shown).unwrap();
    settle(&market.shop.chain, &payment);
    let open = layer.unfinished().remove(0);
    assert_eq!(layer.cancel(open.id).await.unwrap(), Some(PurchaseState::Redeeming));
    assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer");
    assert_eq!(market.wallet.authorizations_signed(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_cancelled_stays_as_it_is() {
    let market = Market::open().await;
    let layer = market.layer().await;
    assert_eq!(layer.cancel(PurchaseId::new([1; 16])).await.unwrap(), None);
    let seller = seller(|_, _| refusal("insufficient_funds", &[way("490000")]));
    assert!(ask(&layer, &seller, question("{}")).await.is_err());
    market.wallet.outage(true);
    let open = layer.unfinished().remove(0);
    assert!(layer.cancel(open.id).await.is_err());
    assert_eq!(layer.unfinished(), [open]);
}

/// The process ends between the journal's word and the node's.
#[tokio::test(start_paused = true)]
async fn a_cancellation_that_was_recorded_and_not_sent_is_sent_after_a_restart() {
    let market = Market::open().await;
    let purchase = outstanding(&market).await;
    let diary = Diary::of(market.journal.clone()).slip(1, Slip::HangsWritten);
    let budget = Market::budget().build().unwrap();
    let builder = PayLayer::builder(market.wallet.clone(), budget, diary).clock(market.shop.clock.clone());
    left_after(5, &builder.build().await.unwrap(), purchase).await;
    assert_eq!((entry(&market).cancellations().len(), market.wallet.sent()), (1, 0));
    assert_eq!(market.layer().await.cancel(purchase).await.unwrap(), Some(PurchaseState::Void));
    assert_eq!((market.wallet.prepared(), market.wallet.sent()), (1, 1), "the recorded one");
}

/// It was sent, and every node lost it.
#[tokio::test(start_paused = true)]
async fn a_cancellation_that_was_left_is_gone_on_with() {
    for restarted in [false, true] {
        let market = Market::open().await;
        let purchase = outstanding(&market).await;
        market.wallet.script([Sending::Lost]);
        let layer = market.layer().await;
        left_after(5, &layer, purchase).await;
        let layer = if restarted { market.layer().await } else { layer };
        assert_eq!(layer.cancel(purchase).await.unwrap(), Some(PurchaseState::Void));
        assert_eq!((market.wallet.prepared(), market.wallet.sent()), (1, 2), "{restarted}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_no_block_takes_is_replaced_at_a_higher_fee() {
    let market = Market::open().await;
    let purchase = outstanding(&market).await;
    market.wallet.script([Sending::Held]);
    assert_eq!(market.layer().await.cancel(purchase).await.unwrap(), Some(PurchaseState::Void));
    let nonces: Vec<_> = entry(&market).cancellations().iter().map(PreparedTransfer::nonce).collect();
    assert_eq!((nonces.len(), nonces[0], market.wallet.sent()), (2, nonces[1], 2));
}

#[tokio::test(start_paused = true)]
async fn the_bids_of_a_cancellation_are_bounded_and_the_next_call_goes_on() {
    let market = Market::open().await;
    let purchase = outstanding(&market).await;
    market.wallet.script([Sending::Held; 100]);
    let error = market.layer().await.cancel(purchase).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Unsettled, "{error}");
    assert_eq!((market.wallet.prepared(), market.wallet.sent()), (6, 6));
    market.wallet.release();
    assert_eq!(market.layer().await.cancel(purchase).await.unwrap(), Some(PurchaseState::Void));
    assert_eq!(market.wallet.prepared(), 6);
}

#[tokio::test(start_paused = true)]
async fn of_two_cancels_at_once_one_is_sent() {
    let market = Market::open().await;
    let purchase = outstanding(&market).await;
    let layer = market.layer().await;
    let (one, other) = tokio::join!(layer.cancel(purchase), layer.cancel(purchase));
    assert_eq!((one.unwrap(), other.unwrap()), (Some(PurchaseState::Void), None));
    assert_eq!((market.wallet.prepared(), market.wallet.sent()), (1, 1));
}

/// Something else took its nonce: it can never be mined.
#[tokio::test(start_paused = true)]
async fn a_cancellation_that_was_displaced_is_prepared_anew() {
    let market = Market::open().await;
    let purchase = outstanding(&market).await;
    market.wallet.script([Sending::Held]);
    left_after(5, &market.layer().await, purchase).await;
    market.wallet.displace();
    assert_eq!(market.layer().await.cancel(purchase).await.unwrap(), Some(PurchaseState::Void));
    let nonces: Vec<_> = entry(&market).cancellations().iter().map(PreparedTransfer::nonce).collect();
    assert!(nonces.len() == 2 && nonces[0] != nonces[1], "{nonces:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_comes_too_late_leaves_the_purchase_paid() {
    let market = Market::open().await;
    let chain = market.shop.chain.clone();
    let seller = seller(move |payment, shows| match shows {
        0 => refusal("insufficient_funds", &[way("490000")]),
        _ => delivered(settle(&chain, payment)),
    });
    let layer = market.layer().await;
    assert!(ask(&layer, &seller, question("{}")).await.is_err());
    let purchase = entry(&market).id;
    market.wallet.script([Sending::Held]);
    left_after(5, &layer, purchase).await;
    settle(&market.shop.chain, &seller.asked().iter().find_map(shown).unwrap());
    market.wallet.release();
    assert_eq!(layer.cancel(purchase).await.unwrap(), Some(PurchaseState::Redeeming));
    assert_eq!(ask(&layer, &seller, question("{}")).await.unwrap().text, "the answer");
    assert_eq!((market.wallet.authorizations_signed(), market.wallet.prepared()), (1, 1));
}

/// What is not in the journal for certain is not sent.
#[tokio::test(start_paused = true)]
async fn a_cancellation_that_the_journal_refuses_is_not_sent() {
    for slip in [Slip::Fails, Slip::FailsWritten] {
        let market = Market::open().await;
        let purchase = outstanding(&market).await;
        let diary = Diary::of(market.journal.clone()).slip(1, slip);
        let budget = Market::budget().build().unwrap();
        let builder = PayLayer::builder(market.wallet.clone(), budget, diary).clock(market.shop.clock.clone());
        let layer = builder.build().await.unwrap();
        let error = layer.cancel(purchase).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::NotCancelled, "{error}");
        assert_eq!(market.wallet.sent(), 0);
        assert_eq!(layer.cancel(purchase).await.unwrap(), Some(PurchaseState::Void));
        assert_eq!((market.wallet.prepared(), market.wallet.sent()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_waits_for_the_payments_before_it() {
    let market = Market::open().await;
    let purchase = outstanding(&market).await;
    let turn = market.wallet.submit_guard(Network::BASE).await;
    let layer = market.layer().await;
    let (cancelled, ()) = tokio::join!(layer.cancel(purchase), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(market.wallet.prepared(), 0, "prepared in another's turn");
        drop(turn);
    });
    assert_eq!(cancelled.unwrap(), Some(PurchaseState::Void));
}

/// 0.0001 ether, in wei.
const FEE: u128 = 100_000_000_000_000;

async fn paying_gas(market: &Market, fees: &[u128]) -> PayLayer {
    let payer = Told::of(&market.wallet);
    payer.fees.lock().unwrap().extend(fees);
    let budget = Market::budget().gas_per_payment("0.0002").gas_per_day("0.00025").build().unwrap();
    let builder = PayLayer::builder(payer, budget, market.journal.clone()).clock(market.shop.clock.clone());
    builder.patience(Duration::from_secs(80)).build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_gas_of_a_cancellation_counts_against_the_budget() {
    let market = Market::open().await;
    let purchase = outstanding(&market).await;
    let denial = |error: PayError| {
        assert_eq!(error.kind(), PayErrorKind::NotCancelled, "{error}");
        (error.denial().unwrap(), error.source().unwrap().to_string())
    };
    let layer = paying_gas(&market, &[2 * FEE + 1]).await;
    let dear = denial(layer.cancel(purchase).await.unwrap_err());
    assert_eq!(dear.0, BudgetDenial::GasPerPayment);
    assert!(
        dear.1.starts_with("a network fee of 0.000200000000000001 would exceed the limit of 0.0002 "),
        "{}",
        dear.1
    );
    assert_eq!((market.wallet.sent(), entry(&market).cancellations().len()), (0, 0));
    // A dearer one is not sent, either.
    market.wallet.script([Sending::Held; 2]);
    let layer = paying_gas(&market, &[FEE, 3 * FEE, 2 * FEE]).await;
    assert!(layer.cancel(purchase).await.is_err_and(|error| error.kind() == PayErrorKind::Unsettled));
    assert_eq!((market.wallet.sent(), entry(&market).cancellations().len()), (2, 2));
    market.wallet.release();
    assert_eq!(layer.cancel(purchase).await.unwrap(), Some(PurchaseState::Void));
    // After a restart and a second purchase.
    let seller = seller(|_, _| refusal("insufficient_funds", &[way("490000")]));
    let layer = paying_gas(&market, &[FEE]).await;
    assert!(ask(&layer, &seller, question("{}")).await.is_err());
    let purchase = layer.unfinished().remove(0).id;
    let spent = denial(layer.cancel(purchase).await.unwrap_err());
    assert_eq!(spent.0, BudgetDenial::GasPerDay);
    let says = "a network fee of 0.0001 would exceed the daily limit of 0.00025 (0.0002 already spent)";
    assert!(spent.1.starts_with(says), "{}", spent.1);
}
