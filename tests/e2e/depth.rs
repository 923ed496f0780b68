//! How deep a payment must be before it counts.

use tower_x402::{testing::DevChain, verify::Finality};

use super::{
    market::{Market, PRICE},
    shop::{INSIGHTS, Shop},
};

async fn shop_with(market: &Market, finality: Finality) -> Shop {
    let verifier = market.verifier().finality(finality).connect().await.unwrap();
    Shop::open(market.merchant().await.verifier(verifier)).await
}

/// Polls as blocks are mined: refused until the payment is in that many, its own included.
async fn assert_sold_in_block(market: &Market, shop: &Shop, blocks: usize, retry_after: &str) {
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.send(market.buyer(0), PRICE).await;
    for block in 0..blocks {
        let early = shop.redeem(INSIGHTS, &intent, payment).await;
        assert_eq!(early.code(), "tx_not_confirmed", "after {block} blocks");
        let early = early.refused("tx_not_confirmed");
        assert_eq!(early.headers["retry-after"], retry_after);
        market.block().await;
    }
    assert_eq!(shop.runs(), 0);
    shop.redeem(INSIGHTS, &intent, payment).await.sold();
}

#[tokio::test]
async fn three_confirmations_are_the_payments_block_and_two_more() {
    let market = Market::new().await;
    let shop = shop_with(&market, Finality::Confirmations(3)).await;
    assert_sold_in_block(&market, &shop, 3, "1").await;
}

#[tokio::test]
async fn a_safe_payment_is_one_that_the_node_calls_safe() {
    let market = Market::on(DevChain::builder().safe_depth(2)).await;
    let shop = shop_with(&market, Finality::Safe).await;
    assert_sold_in_block(&market, &shop, 3, "10").await;
}

#[tokio::test]
async fn a_final_payment_is_one_that_the_node_calls_final() {
    let market = Market::on(DevChain::builder().safe_depth(2)).await;
    let shop = shop_with(&market, Finality::Finalized).await;
    assert_sold_in_block(&market, &shop, 5, "60").await;
}
