//! Payments that are odd and count, and what looks like a payment and is none.

use serde_json::json;
use tower_x402::{
    protocol::{Address, Amount, Asset, Network, TxHash},
    testing::contracts::{self, Lie},
};

use super::{
    market::{Market, PRICE, SELLER, usdc},
    shop::{DEAR, INSIGHTS, Shop},
};

#[tokio::test]
async fn the_payer_is_whose_money_it_was_not_who_sent_the_transaction() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let (payer, sender) = (market.buyer(1), market.buyer(2));
    let relay = market.deploy(contracts::RELAY).await;
    market.call(payer, market.chain.usdc(), &contracts::approve(relay, Amount::MAX)).await;

    let call = contracts::pay(market.chain.usdc(), payer, SELLER, usdc(PRICE));
    let answer = shop.buy_with(market.call(sender, relay, &call).await).await.sold();
    assert_eq!((&answer["payer"], &answer["position"]), (&json!(payer.to_string()), &json!(0)));

    // In two steps: the seller's money came from the relay, in the second event.
    let call = contracts::forward(market.chain.usdc(), payer, SELLER, usdc(PRICE));
    let payment = market.call(sender, relay, &call).await;
    let answer = shop.buy_with(payment).await.sold();
    assert_eq!((&answer["payer"], &answer["position"]), (&json!(relay.to_string()), &json!(1)));
    shop.buy_with(payment).await.refused("tx_already_used");
}

#[tokio::test]
async fn one_unit_less_is_too_little_and_one_more_is_fine() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let intent = shop.intent(INSIGHTS).await;

    let short = market.pay(PRICE - 1).await;
    let answer = shop.redeem(INSIGHTS, &intent, short).await.refused("insufficient_amount");
    assert_eq!((&answer.body["paid"], &answer.body["required"]), (&json!("489999"), &json!("490000")));
    let nothing = market.pay(0).await;
    let answer = shop.redeem(INSIGHTS, &intent, nothing).await.refused("insufficient_amount");
    assert_eq!(answer.body["paid"], "0");
    assert_eq!(shop.runs(), 0);

    shop.redeem(INSIGHTS, &intent, market.pay(PRICE).await).await.sold();
    let answer = shop.buy_with(market.pay(PRICE + 1).await).await.sold();
    assert_eq!(answer["amount"], "490001");
}

#[tokio::test]
async fn all_the_money_there_can_be_is_a_payment() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let rich = Address::new([0x11; 20]);
    market.chain.fund(rich, Amount::MAX).await.unwrap();
    let payment = market.chain.transfer(rich, SELLER, Amount::MAX).await.unwrap();
    market.block().await;
    let answer = shop.redeem(DEAR, &shop.intent(DEAR).await, payment).await.sold();
    assert_eq!(answer["amount"], Amount::MAX.to_string());
}

#[tokio::test]
async fn what_is_no_transfer_of_usdc_to_the_seller_buys_nothing() {
    let market = Market::new().await;
    let treasury = market.buyer(7);
    let verifier = market.verifier().deny_payers([treasury]).connect().await.unwrap();
    let shop = Shop::open(market.merchant().await.verifier(verifier)).await;
    let (buyer, token) = (market.buyer(0), market.chain.usdc());
    market.chain.fund(SELLER, usdc(PRICE)).await.unwrap();
    let coin = market.deploy_with(contracts::COIN, &[6.into()]).await;
    market.call(buyer, coin, &contracts::mint(buyer, usdc(PRICE))).await;

    let none = [
        ("wrong recipient", market.call(buyer, token, &contracts::transfer(market.buyer(1), usdc(PRICE))).await),
        ("wrong token", market.call(buyer, coin, &contracts::transfer(SELLER, usdc(PRICE))).await),
        ("mint", market.call(buyer, token, &contracts::mint(SELLER, usdc(PRICE))).await),
        ("self-transfer", market.call(SELLER, token, &contracts::transfer(SELLER, usdc(PRICE))).await),
        ("the seller's own spending", market.call(SELLER, token, &contracts::transfer(buyer, usdc(1))).await),
        ("the treasury's top-up", market.send(treasury, PRICE).await),
        ("an allowance", market.call(buyer, token, &contracts::approve(SELLER, usdc(PRICE))).await),
        ("ether", market.call(buyer, SELLER, &[]).await),
    ];
    assert_nothing_bought(&market, &shop, &none).await;
}

#[tokio::test]
async fn what_is_reverted_buys_nothing() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let reverter = market.deploy(contracts::REVERTER).await;
    let (payer, token) = (market.buyer(1), market.chain.usdc());
    market.call(payer, token, &contracts::approve(reverter, Amount::MAX)).await;
    let (poor, much) = (Address::new([0x22; 20]), usdc(PRICE));
    market.chain.fund(poor, usdc(PRICE - 1)).await.unwrap();

    let none = [
        ("paid, then taken back", market.call(payer, reverter, &contracts::pay(token, payer, SELLER, much)).await),
        ("more than there is", market.call(poor, token, &contracts::transfer(SELLER, much)).await),
        ("not allowed", market.call(poor, token, &contracts::transfer_from(payer, SELLER, much)).await),
    ];
    for (what, transaction) in &none {
        assert_eq!(market.receipt(*transaction).await["status"], "0x0", "{what}");
    }
    assert_nothing_bought(&market, &shop, &none).await;
    assert_eq!(market.takings().await, PRICE);
}

#[tokio::test]
async fn a_contract_that_only_says_transfer_buys_nothing() {
    let market = Market::new().await;
    let shop = market.shop().await;
    let liar = market.deploy(contracts::LIAR).await;
    let mut lies = Vec::new();
    for shape in Lie::CROOKED.into_iter().chain([Lie::Plain, Lie::Everything]) {
        lies.push(("a lie", lie(&market, liar, shape).await));
    }
    market.block().await;
    assert_nothing_bought(&market, &shop, &lies).await;
}

/// Even from a token that the seller trusts, only the exact shape of a transfer counts.
#[tokio::test]
async fn a_trusted_token_must_say_transfer_exactly() {
    let market = Market::new().await;
    let liar = market.deploy(contracts::LIAR).await;
    let trusted = Asset::new(Network::BASE, liar, 6, "LIE");
    let shop = Shop::open(market.merchant().await.asset(Asset::USDC_BASE).asset(trusted)).await;
    let mut lies = Vec::new();
    for shape in Lie::CROOKED.into_iter().chain([Lie::Everything]) {
        lies.push(("a crooked shape", lie(&market, liar, shape).await));
    }
    let right = lie(&market, liar, Lie::Plain).await;
    market.block().await;
    assert_nothing_bought(&market, &shop, &lies).await;
    // Were it not for the shape, each of them would have been sold.
    assert_eq!(shop.buy_with(right).await.sold()["token"], liar.to_string());
}

async fn lie(market: &Market, liar: Address, shape: Lie) -> TxHash {
    let call = contracts::lie(shape, market.buyer(0), SELLER, usdc(PRICE));
    market.chain.send(market.buyer(0), liar, &call).await.unwrap()
}

/// None of these is a payment; and one intent that was tried with them all is still good for one.
async fn assert_nothing_bought(market: &Market, shop: &Shop, transactions: &[(&str, TxHash)]) {
    let intent = shop.intent(INSIGHTS).await;
    market.block().await;
    for (what, transaction) in transactions {
        let answer = shop.redeem(INSIGHTS, &intent, *transaction).await;
        assert_eq!(answer.code(), "transfer_not_found", "{what}: {}", answer.body);
        answer.refused("transfer_not_found");
    }
    assert_eq!(shop.runs(), 0);
    shop.redeem(INSIGHTS, &intent, market.pay(PRICE).await).await.sold();
}
