//! What was sold stays sold: one transfer, one intent, one answer.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use tower_x402::{
    protocol::{Amount, TxHash},
    testing::contracts,
};

use super::{
    market::{CONTACT, Market, PRICE, SELLER, usdc},
    node,
    shop::{CHEAP, DEAR, GOALS, INSIGHTS, Shop},
};

#[tokio::test]
async fn a_second_redemption_buys_nothing_whatever_else_is_true() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let intent = shop.intent(INSIGHTS).await;
    let (payment, other) = (market.pay(PRICE).await, market.pay(PRICE).await);
    let waiting = market.send(market.buyer(1), PRICE).await;
    shop.redeem(INSIGHTS, &intent, payment).await.sold();

    shop.redeem(INSIGHTS, &intent, payment).await.refused("already_consumed");
    shop.redeem(INSIGHTS, &intent, other).await.refused("already_consumed");
    shop.redeem(INSIGHTS, &intent, waiting).await.refused("already_consumed");
    shop.redeem(INSIGHTS, &intent, TxHash::new([9; 32])).await.refused("already_consumed");
    let unfit = json!({ "fail": true, "intentId": intent, "txHash": payment.to_string() });
    shop.post(INSIGHTS, &unfit).await.refused("already_consumed");
    let in_header = format!(r#"{{"intentId":"{intent}","txHash":"{payment}"}}"#);
    shop.post_with(INSIGHTS, &in_header).await.refused("already_consumed");
    assert_eq!(shop.runs(), 1);

    // Nothing of this touched the other payment.
    shop.buy_with(other).await.sold();

    let fresh = shop.intent(INSIGHTS).await;
    let Market { chain, clock, .. } = market;
    let _gone = node::gone(chain);
    clock.advance(Duration::from_secs(2));
    shop.redeem(INSIGHTS, &intent, payment).await.refused("already_consumed");
    shop.redeem(INSIGHTS, &intent, TxHash::new([9; 32])).await.refused("already_consumed");
    // Of a pair that bought nothing yet, nobody can tell now.
    shop.redeem(INSIGHTS, &fresh, TxHash::new([9; 32])).await.refused("verification_unavailable");
    assert_eq!(shop.runs(), 2);
    // A quote needs nobody.
    shop.intent(GOALS).await;
}

#[tokio::test]
async fn shown_many_times_at_once_it_buys_one_answer() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;
    let answers = join_all((0..32).map(|_| shop.redeem(INSIGHTS, &intent, payment))).await;
    let (sold, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 200);
    assert_eq!((sold.len(), shop.runs()), (1, 1));
    for answer in refused {
        let code = answer.code().to_owned();
        assert!(["already_consumed", "redemption_in_progress"].contains(&code.as_str()), "{code}");
        answer.refused(&code);
    }
    shop.redeem(INSIGHTS, &intent, payment).await.refused("already_consumed");
}

/// Everybody asks until the answer is final: three paid, so three are served, whoever they are.
#[tokio::test]
async fn three_transfers_shown_by_many_at_once_buy_three_answers() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let payment = batch(&market, [PRICE; 3]).await;
    let ask = async || {
        let intent = shop.intent(INSIGHTS).await;
        loop {
            let answer = shop.redeem(INSIGHTS, &intent, payment).await;
            match answer.code() {
                "redemption_in_progress" => drop(answer.refused("redemption_in_progress")),
                "tx_already_used" => break Err(answer.refused("tx_already_used")),
                _ => break Ok(answer.sold()["payer"].as_str().unwrap().to_owned()),
            }
        }
    };
    let answers = join_all((0..12).map(|_| ask())).await;
    let mut payers: Vec<_> = answers.into_iter().filter_map(Result::ok).collect();
    let mut expected = [1, 2, 3].map(|buyer| market.buyer(buyer).to_string());
    payers.sort();
    expected.sort();
    assert_eq!(payers, expected);
    assert_eq!(shop.runs(), 3);
}

#[tokio::test]
async fn months_later_it_still_buys_nothing() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;
    shop.redeem(INSIGHTS, &intent, payment).await.sold();

    market.block_at(market.now().await + 90 * 24 * 3600).await;
    shop.redeem(INSIGHTS, &intent, payment).await.refused("already_consumed");
    shop.buy_with(payment).await.refused("payment_too_old");

    // The next sale lets the ledger forget. Age alone refuses now.
    shop.buy_with(market.pay(PRICE).await).await.sold();
    let fresh = shop.redeem(INSIGHTS, &intent, payment).await.refused("intent_expired").fresh_intent();
    shop.redeem(INSIGHTS, &fresh, payment).await.refused("payment_too_old");
    assert_eq!(shop.runs(), 2);
}

#[tokio::test]
async fn a_payment_buys_one_answer_however_many_intents_are_shown() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let intents = [shop.intent(INSIGHTS).await, shop.intent(INSIGHTS).await];
    let elsewhere = shop.intent(GOALS).await;
    let payment = market.pay(PRICE).await;
    shop.redeem(INSIGHTS, &intents[0], payment).await.sold();
    shop.redeem(INSIGHTS, &intents[1], payment).await.refused("tx_already_used");
    shop.redeem(GOALS, &elsewhere, payment).await.refused("tx_already_used");
    assert_eq!(shop.runs(), 1);

    // The intents are as good as before.
    shop.redeem(INSIGHTS, &intents[1], market.pay(PRICE).await).await.sold();
    shop.redeem(GOALS, &elsewhere, market.pay(PRICE).await).await.sold();
}

#[tokio::test]
async fn three_payers_in_one_transaction_get_three_answers_and_nobody_a_fourth() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let payment = batch(&market, [PRICE; 3]).await;
    for payer in 1..=3 {
        let answer = shop.buy_with(payment).await.sold();
        assert_eq!(answer["payer"], market.buyer(payer).to_string());
    }
    shop.buy_with(payment).await.refused("tx_already_used");
    assert_eq!((shop.runs(), market.takings().await), (3, 3 * PRICE));
}

#[tokio::test]
async fn of_several_transfers_the_smallest_that_is_enough_is_taken() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let payment = batch(&market, [600_000, PRICE - 1, PRICE]).await;
    let first = shop.buy_with(payment).await.sold();
    assert_eq!((&first["payer"], &first["amount"]), (&json!(market.buyer(3).to_string()), &json!("490000")));
    let second = shop.buy_with(payment).await.sold();
    assert_eq!((&second["payer"], &second["amount"]), (&json!(market.buyer(1).to_string()), &json!("600000")));
    shop.buy_with(payment).await.refused("tx_already_used");
    // What was too little here is enough where less is asked.
    let third = shop.redeem(CHEAP, &shop.intent(CHEAP).await, payment).await.sold();
    assert_eq!(third["payer"], market.buyer(2).to_string());
    shop.redeem(CHEAP, &shop.intent(CHEAP).await, payment).await.refused("tx_already_used");
}

#[tokio::test]
async fn transfers_are_not_added_up() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let payment = batch(&market, [200_000, 300_000, 100_000]).await;
    let answer = shop.buy_with(payment).await.refused("insufficient_amount");
    assert_eq!((&answer.body["paid"], &answer.body["required"]), (&json!("300000"), &json!("490000")));
    assert_eq!(shop.runs(), 0);
}

#[tokio::test]
async fn a_payment_at_one_price_is_no_second_one_at_another() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let large = market.pay(10_000_000).await;
    shop.redeem(CHEAP, &shop.intent(CHEAP).await, large).await.sold();
    shop.redeem(DEAR, &shop.intent(DEAR).await, large).await.refused("tx_already_used");

    let small = market.pay(10_000).await;
    let answer = shop.redeem(DEAR, &shop.intent(DEAR).await, small).await.refused("insufficient_amount");
    assert_eq!((&answer.body["paid"], &answer.body["required"]), (&json!("10000"), &json!("10000000")));
    shop.redeem(CHEAP, &shop.intent(CHEAP).await, small).await.sold();
    assert_eq!(shop.runs(), 2);
}

#[tokio::test]
async fn a_quote_for_one_resource_is_none_for_another() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let cheap = shop.intent(CHEAP).await;
    let payment = market.pay(10_000_000).await;
    let dear = shop.redeem(DEAR, &cheap, payment).await.refused("intent_not_found").fresh_intent();
    assert_eq!(shop.runs(), 0);
    assert_eq!(shop.redeem(DEAR, &dear, payment).await.sold()["resource"], "dear");
    shop.redeem(CHEAP, &cheap, payment).await.refused("tx_already_used");
    shop.redeem(CHEAP, &cheap, market.pay(10_000).await).await.sold();
}

#[tokio::test]
async fn two_merchants_with_one_ledger_sell_a_payment_once() {
    let market = Market::new().await;
    let ledger = market.ledger();
    let one = Shop::open(market.merchant().await.ledger(ledger.clone()).realm("one")).await;
    let two = Shop::open(market.merchant().await.ledger(ledger.clone()).realm("two")).await;
    let payment = market.pay(PRICE).await;

    let foreign = one.intent(INSIGHTS).await;
    let own = two.redeem(INSIGHTS, &foreign, payment).await.refused("intent_not_found").fresh_intent();
    one.redeem(INSIGHTS, &foreign, payment).await.sold();
    two.redeem(INSIGHTS, &own, payment).await.refused("tx_already_used");
    two.redeem(INSIGHTS, &own, market.pay(PRICE).await).await.sold();
    assert_eq!((one.runs(), two.runs()), (1, 1));
    assert_eq!(ledger.counts().unwrap().consumed, 2);
}

/// Replicas: the same keys, the same ledger.
#[tokio::test]
async fn a_quote_from_one_replica_is_good_at_another_once() {
    let market = Market::new().await;
    let ledger = market.ledger();
    let one = Shop::open(market.merchant().await.ledger(ledger.clone())).await;
    let two = Shop::open(market.merchant().await.ledger(ledger)).await;
    let intent = one.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;
    two.redeem(INSIGHTS, &intent, payment).await.sold();
    one.redeem(INSIGHTS, &intent, payment).await.refused("already_consumed");
    one.buy_with(payment).await.refused("tx_already_used");
}

#[tokio::test]
async fn a_restart_with_a_ledger_in_memory_refuses_every_payment_made_before_it() {
    let market = Market::new().await;
    let before = market.shop().await;
    let (spent, open) = (before.intent(INSIGHTS).await, before.intent(INSIGHTS).await);
    let paid = market.pay(PRICE).await;
    before.redeem(INSIGHTS, &spent, paid).await.sold();
    let unspent = market.pay(PRICE).await;

    let after = market.shop().await;
    for (intent, payment) in [(&spent, paid), (&open, paid), (&open, unspent)] {
        let answer = after.redeem(INSIGHTS, intent, payment).await.refused("payment_too_old");
        assert_eq!(answer.body["contact"], CONTACT);
    }
    after.buy_with(unspent).await.refused("payment_too_old");
    assert_eq!(after.runs(), 0);

    // A quote from before is good for a payment from now on.
    after.redeem(INSIGHTS, &open, market.pay(PRICE).await).await.sold();
}

#[tokio::test]
async fn a_restart_with_the_ledger_kept_refuses_nothing_that_is_owed() {
    let market = Market::new().await;
    let ledger = market.ledger();
    let before = Shop::open(market.merchant().await.ledger(ledger.clone())).await;
    let (spent, open) = (before.intent(INSIGHTS).await, before.intent(INSIGHTS).await);
    let paid = market.pay(PRICE).await;
    before.redeem(INSIGHTS, &spent, paid).await.sold();
    let unspent = market.pay(PRICE).await;

    let after = Shop::open(market.merchant().await.ledger(ledger)).await;
    after.redeem(INSIGHTS, &spent, paid).await.refused("already_consumed");
    after.redeem(INSIGHTS, &open, paid).await.refused("tx_already_used");
    after.redeem(INSIGHTS, &open, unspent).await.sold();
}

/// A setting that is raised must not open what the ledger has forgotten.
#[tokio::test]
async fn a_raised_age_brings_nothing_back_that_was_forgotten() {
    let market = Market::new().await;
    let ledger = market.ledger();
    let shop = Shop::open(market.merchant().await.ledger(ledger.clone())).await;
    let old = market.pay(PRICE).await;
    shop.buy_with(old).await.sold();
    market.block_at(market.now().await + 3 * 24 * 3600).await;
    shop.buy_with(market.pay(PRICE).await).await.sold();
    assert_eq!(ledger.counts().unwrap().remembered, 1, "the first sale is forgotten");

    let month = Duration::from_secs(30 * 24 * 3600);
    let patient = Shop::open(market.merchant().await.ledger(ledger).max_payment_age(month)).await;
    let answer = patient.buy_with(old).await.refused("payment_too_old");
    assert_eq!(answer.body["contact"], CONTACT);
    assert_eq!(patient.runs(), 0);
}

/// Three buyers pay the seller in one transaction that a fourth one sends.
async fn batch(market: &Market, units: [u128; 3]) -> TxHash {
    let batch = market.deploy(contracts::BATCH).await;
    let payments = [1, 2, 3].map(|buyer| (market.buyer(buyer), usdc(units[buyer - 1])));
    for (payer, _) in payments {
        market.chain.send(payer, market.chain.usdc(), &contracts::approve(batch, Amount::MAX)).await.unwrap();
    }
    market.call(market.buyer(0), batch, &contracts::collect(market.chain.usdc(), SELLER, payments)).await
}
