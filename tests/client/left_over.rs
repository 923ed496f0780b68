//! Payments that bought nothing yet: what they are put to, and what is never paid a second time on their account.

use std::time::Duration;

use tower_x402::{
    client::{MemoryJournal, PayErrorKind, PayLayer, PayerError, PurchaseState},
    protocol::ProblemCode,
    testing::{ScriptedPayer, Sending},
};

use super::{
    Market, cause, question,
    rig::{Asked, Bill, Reply, Seller, ask, problem, reply, sold},
};
use crate::support::{NOW, payer};

/// A payment that the seller took no notice of.
async fn left_over(market: &Market) -> PayLayer {
    let layer = market.layer().await;
    ask(&layer, &Seller::paid(|_| reply(400, &[], "no")), question("[1]")).await.unwrap();
    assert_eq!(market.journal.entries()[0].state, PurchaseState::Unspent);
    layer
}

/// Sold at the first showing, lost on the way, and refused at the second: it may have bought this very answer.
#[tokio::test(start_paused = true)]
async fn one_that_may_have_bought_the_lost_answer_is_not_followed_by_another() {
    for code in [ProblemCode::AlreadyConsumed, ProblemCode::TxAlreadyUsed] {
        let market = Market::open().await;
        let layer = left_over(&market).await;
        let losing = Seller::paid(move |asked: &Asked| match asked.proofs {
            0 => Reply::Broken,
            _ => problem(409, code.as_str(), &[]),
        });
        let error = ask(&layer, &losing, question("[2]")).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Refused, "{error}");
        assert_eq!(market.wallet.transfers(), 1, "{code}");
    }
}

/// Why it is refused matters, too: one that is found wanting is an error, not a reason to pay.
#[tokio::test(start_paused = true)]
async fn one_that_is_found_wanting_is_an_error() {
    for code in [ProblemCode::TransferNotFound, ProblemCode::InsufficientAmount, ProblemCode::AlreadyConsumed] {
        let market = Market::open().await;
        let layer = left_over(&market).await;
        let refusing = Seller::paid(move |_| problem(code.status().as_u16(), code.as_str(), &[]));
        let error = ask(&layer, &refusing, question("[2]")).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::Refused, "{error}");
        assert_eq!(market.wallet.transfers(), 1, "{code}");
    }
}

/// A seller of ours confirms what it takes. An answer without that is handed over, and the payment is not thrown away.
#[tokio::test(start_paused = true)]
async fn an_answer_that_took_nothing_keeps_the_payment() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let later = Seller::paid(|asked| if asked.proofs == 0 { reply(202, &[], "still working") } else { sold() });
    let got = ask(&layer, &later, question("{}")).await.unwrap();
    assert_eq!((got.text.as_str(), got.purchase.unwrap().state), ("still working", PurchaseState::Unspent));
    assert_eq!(ask(&layer, &later, question("{}")).await.unwrap().text, "the answer");
    assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (1, 0));
}

/// A seller who takes and does not say so is paid for each answer all the same.
#[tokio::test(start_paused = true)]
async fn a_seller_who_never_confirms_is_paid_for_each_answer() {
    let market = Market::open().await;
    let layer = market.layer().await;
    let spent = std::sync::Mutex::new(std::collections::HashSet::new());
    let silent = Seller::paid(move |asked| {
        let (_, transaction, _) = asked.proof.clone().unwrap();
        let is_new = spent.lock().unwrap().insert(transaction);
        if is_new { reply(200, &[], "the answer") } else { problem(409, "tx_already_used", &[]) }
    });
    for bought in 1..=3 {
        let got = ask(&layer, &silent, question("{}")).await.unwrap();
        assert_eq!((got.text.as_str(), market.wallet.transfers()), ("the answer", bought));
        assert_eq!(layer.unfinished().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_larger_one_is_not_wasted_on_a_small_price() {
    let market = Market::open().await;
    let layer = left_over(&market).await;
    let cheap = Seller::new(|asked| if asked.proof.is_some() { sold() } else { Bill::of("10000").reply() });
    assert_eq!(ask(&layer, &cheap, question("[2]")).await.unwrap().purchase.unwrap().amount.to_string(), "10000");
    assert_eq!((market.wallet.transfers(), layer.unfinished().len()), (2, 1));
}

/// Other kinds of servers send `PAYMENT-RESPONSE` with payments that failed.
#[tokio::test(start_paused = true)]
async fn a_bill_that_says_payment_response_is_a_bill() {
    let failed = "eyJzdWNjZXNzIjpmYWxzZX0="; // {"success":false}
    for header in ["e30=", failed, "?"] {
        let market = Market::open().await;
        let billing = Seller::paid(move |_| reply(402, &[("payment-response", header)], ""));
        let error = ask(&market.layer().await, &billing, question("{}")).await.unwrap_err();
        assert!(error.kind() == PayErrorKind::BilledAgain && error.is_resumable(), "{error}");
    }
    let market = Market::open().await;
    let failing = Seller::paid(move |_| reply(200, &[("payment-response", failed)], "hm"));
    let got = ask(&market.layer().await, &failing, question("{}")).await.unwrap();
    let purchase = got.purchase.unwrap();
    assert_eq!((purchase.state, purchase.confirmed), (PurchaseState::Unspent, false));
}

/// A transfer that would be mined too late for its price is not hurried.
#[tokio::test(start_paused = true)]
async fn a_payment_is_not_bumped_for_a_price_that_is_over() {
    for (price, prepared) in [("490000", 2), ("490001", 1)] {
        let market = Market::open().await;
        market.wallet.script([Sending::Held; 9]);
        let clock = market.shop.clock.clone();
        let seller = Seller::new(move |asked| match asked.before {
            0 => Bill { expiry: NOW + 20, ..Bill::default() }.reply(),
            _ => Bill { expiry: NOW + 900, ..Bill::of(price) }.reply(),
        });
        let layer = market
            .layer_with(|builder| {
                builder.patience(Duration::from_secs(40)).on_event(move |step| {
                    if step.name() == "paying" {
                        clock.set_unix(NOW + 21)
                    }
                })
            })
            .await;
        ask(&layer, &seller, question("{}")).await.unwrap_err();
        assert_eq!(market.wallet.prepared(), prepared, "{price}");
    }
}

/// The journal of another wallet: no patience makes its payments this one's.
#[tokio::test(start_paused = true)]
async fn a_purchase_of_another_wallet_is_an_error_at_once() {
    let market = Market::open().await;
    market.wallet.script([Sending::Held]);
    let layer = market.layer_with(|builder| builder.patience(Duration::from_secs(5))).await;
    ask(&layer, &Seller::honest(), question("{}")).await.unwrap_err();

    let other = ScriptedPayer::new(market.shop.chain.clone(), payer());
    let budget = Market::budget().build().unwrap();
    let journal: MemoryJournal = market.journal.clone();
    let builder = PayLayer::builder(other.clone(), budget, journal).clock(market.shop.clock.clone());
    let begun = tokio::time::Instant::now();
    let error = ask(&builder.build().await.unwrap(), &Seller::honest(), question("{}")).await.unwrap_err();
    assert!(error.kind() == PayErrorKind::Unsettled && matches!(cause(&error), Some(PayerError::Foreign)), "{error:?}");
    assert_eq!((begun.elapsed(), other.transfers()), (Duration::ZERO, 0));
}
