//! A seller who changes address, token or keys, while quotes are open and payments under way.

use tower_x402::{
    protocol::{Address, Asset, Network, SealingKeys},
    testing::contracts,
};

use super::{
    market::{Market, PRICE, SELLER, usdc},
    shop::{INSIGHTS, Shop},
};

const SUCCESSOR: Address = Address::new([0x5f; 20]);

#[tokio::test]
async fn a_quote_of_a_former_recipient_is_honoured_for_payments_to_it() {
    let market = Market::new().await;
    let ledger = market.ledger();
    let before = Shop::open(market.merchant().await.ledger(ledger.clone())).await;
    let (old, other) = (before.intent(INSIGHTS).await, before.intent(INSIGHTS).await);

    let builder = market.merchant_paid_at(SUCCESSOR).await.ledger(ledger.clone()).former_recipient(SELLER);
    let after = Shop::open(builder).await;
    let quote = after.quote(INSIGHTS).await;
    assert_eq!(quote.recipient, SUCCESSOR);
    let new = quote.intent.as_str();

    let to_old = market.pay(PRICE).await;
    let to_new = market.call(market.buyer(0), market.chain.usdc(), &contracts::transfer(SUCCESSOR, usdc(PRICE))).await;
    after.redeem(INSIGHTS, &old, to_new).await.refused("transfer_not_found");
    after.redeem(INSIGHTS, new, to_old).await.refused("transfer_not_found");
    assert_eq!(after.redeem(INSIGHTS, &old, to_old).await.sold()["recipient"], SELLER.to_string());
    assert_eq!(after.redeem(INSIGHTS, new, to_new).await.sold()["recipient"], SUCCESSOR.to_string());
    after.redeem(INSIGHTS, &other, to_old).await.refused("tx_already_used");

    // A successor who does not own up to it does not honour it either.
    let stranger = Shop::open(market.merchant_paid_at(SUCCESSOR).await.ledger(ledger)).await;
    let to_old = market.pay(PRICE).await;
    let fresh = stranger.redeem(INSIGHTS, &other, to_old).await.refused("intent_not_found").fresh_intent();
    stranger.redeem(INSIGHTS, &fresh, to_old).await.refused("transfer_not_found");
    after.redeem(INSIGHTS, &other, to_old).await.sold();
}

#[tokio::test]
async fn a_former_token_counts_and_is_quoted_no_more() {
    let market = Market::new().await;
    let ledger = market.ledger();
    let coin = market.deploy_with(contracts::COIN, &[6.into()]).await;
    let new = Asset::new(Network::BASE, coin, 6, "COIN");
    market.call(market.buyer(0), coin, &contracts::mint(market.buyer(0), usdc(10 * PRICE))).await;
    let before = Shop::open(market.merchant().await.ledger(ledger.clone())).await;
    let intents = [before.intent(INSIGHTS).await, before.intent(INSIGHTS).await];

    let builder = market.merchant().await.ledger(ledger.clone()).asset(new.clone());
    let after = Shop::open(builder.former_asset(Asset::USDC_BASE)).await;
    let quote = after.quote(INSIGHTS).await;
    assert_eq!((quote.contracts.as_slice(), quote.symbol.as_str()), (&[coin][..], "COIN"));

    let (in_usdc, more) = (market.pay(PRICE).await, market.pay(PRICE).await);
    let in_coin = market.call(market.buyer(0), coin, &contracts::transfer(SELLER, usdc(PRICE))).await;
    // One who forgets the old token refuses what was paid in it; the money is not lost by that.
    let forgetful = Shop::open(market.merchant().await.ledger(ledger).asset(new)).await;
    forgetful.redeem(INSIGHTS, &intents[0], in_usdc).await.refused("transfer_not_found");

    let sold = after.redeem(INSIGHTS, &intents[0], in_usdc).await.sold();
    assert_eq!(sold["token"], market.chain.usdc().to_string());
    assert_eq!(after.redeem(INSIGHTS, &intents[1], in_coin).await.sold()["token"], coin.to_string());
    // Also for a quote that does not name it any more.
    after.redeem(INSIGHTS, quote.intent.as_str(), more).await.sold();
}

#[tokio::test]
async fn of_two_tokens_either_will_do() {
    let market = Market::new().await;
    let coin = market.deploy_with(contracts::COIN, &[6.into()]).await;
    market.call(market.buyer(0), coin, &contracts::mint(market.buyer(0), usdc(PRICE))).await;
    let second = Asset::new(Network::BASE, coin, 6, "COIN");
    let shop = Shop::open(market.merchant().await.asset(Asset::USDC_BASE).asset(second)).await;
    let quote = shop.quote(INSIGHTS).await;
    assert_eq!((quote.contracts.as_slice(), quote.symbol.as_str()), (&[market.chain.usdc(), coin][..], "USDC"));

    let in_coin = market.call(market.buyer(0), coin, &contracts::transfer(SELLER, usdc(PRICE))).await;
    shop.redeem(INSIGHTS, quote.intent.as_str(), in_coin).await.sold();
    shop.buy_with(in_coin).await.refused("tx_already_used");
    shop.buy_with(market.pay(PRICE).await).await.sold();
}

#[tokio::test]
async fn a_quote_under_a_former_key_is_honoured_and_under_an_unknown_one_replaced() {
    let market = Market::new().await;
    let ledger = market.ledger();
    let before = Shop::open(market.merchant().await.ledger(ledger.clone())).await;
    let (spent, open) = (before.intent(INSIGHTS).await, before.intent(INSIGHTS).await);
    let paid = market.pay(PRICE).await;
    before.redeem(INSIGHTS, &spent, paid).await.sold();

    let keys = SealingKeys::new([8; 32]).with_former([7; 32]).unwrap();
    let rotated = Shop::open(market.merchant().await.ledger(ledger.clone()).sealing_keys(keys)).await;
    rotated.redeem(INSIGHTS, &spent, paid).await.refused("already_consumed");
    let payment = market.pay(PRICE).await;
    rotated.redeem(INSIGHTS, &open, payment).await.sold();

    let lost = market.merchant().await.ledger(ledger).sealing_keys(SealingKeys::new([9; 32]));
    let lost = Shop::open(lost).await;
    let payment = market.pay(PRICE).await;
    let fresh = lost.redeem(INSIGHTS, &rotated.intent(INSIGHTS).await, payment).await;
    let fresh = fresh.refused("intent_not_found").fresh_intent();
    lost.redeem(INSIGHTS, &fresh, payment).await.sold();
    lost.redeem(INSIGHTS, &fresh, paid).await.refused("already_consumed");
    lost.buy_with(paid).await.refused("tx_already_used");
}
