//! Blocks that are replaced, with payments in them.

use serde_json::{Value, json};
use tower_x402::{
    protocol::{Amount, TxHash},
    testing::contracts,
};

use super::{
    market::{Market, PRICE, SELLER, usdc},
    shop::{INSIGHTS, Shop},
};

/// A shop that opened a while ago: `anvil` gives the blocks that stay the time of the last one they stand on, and what is
/// not later than the opening is refused.
async fn shop_of_before(market: &Market) -> Shop {
    let shop = market.shop().await;
    market.block().await;
    shop
}

async fn signed(market: &Market, transaction: TxHash) -> Value {
    market.chain.rpc("eth_getRawTransactionByHash", json!([transaction.to_string()])).await.unwrap()
}

async fn send_again(market: &Market, signed: &Value) {
    market.chain.rpc("eth_sendRawTransaction", json!([signed])).await.unwrap();
    market.block().await;
}

#[tokio::test]
async fn a_payment_that_disappears_before_it_is_redeemed_is_waited_for() {
    let market = Market::new().await;
    let shop = shop_of_before(&market).await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;
    let signed = signed(&market, payment).await;
    // Seen by the verifier, and remembered.
    shop.redeem_in_vain(INSIGHTS, &intent, payment).await;

    market.reorg(1, &[]).await;
    assert_eq!(market.takings().await, 0);
    for _ in 0..2 {
        shop.redeem(INSIGHTS, &intent, payment).await.refused("tx_not_confirmed");
        market.block().await;
    }
    send_again(&market, &signed).await;
    let answer = shop.redeem(INSIGHTS, &intent, payment).await.sold();
    assert_eq!(answer["blockNumber"], market.chain.block_number().await.unwrap());
    assert_eq!(answer["blockTime"], market.now().await);
    assert_eq!((shop.runs(), market.takings().await), (2, PRICE));
}

/// The same, where nobody asked before the blocks were replaced, and several of them were.
#[tokio::test]
async fn a_payment_in_blocks_that_nobody_looked_at_is_found_where_it_is_now() {
    let market = Market::new().await;
    let shop = shop_of_before(&market).await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;
    market.block().await;
    market.block().await;
    market.reorg(3, &[&[], &[payment]]).await;
    let answer = shop.redeem(INSIGHTS, &intent, payment).await.sold();
    assert_eq!(answer["blockNumber"], market.chain.block_number().await.unwrap() - 1);
}

#[tokio::test]
async fn a_payment_that_another_moves_along_stays_spent() {
    let market = Market::new().await;
    let shop = shop_of_before(&market).await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;
    assert_eq!(shop.redeem(INSIGHTS, &intent, payment).await.sold()["position"], 0);
    let other = market.send(market.buyer(1), PRICE).await;

    market.reorg(1, &[&[other, payment]]).await;
    assert_eq!(market.receipt(payment).await["logs"][0]["logIndex"], "0x1");
    shop.redeem(INSIGHTS, &intent, payment).await.refused("already_consumed");
    shop.buy_with(payment).await.refused("tx_already_used");
    assert_eq!(shop.runs(), 1);

    // The one in front has the place in the block that ours had, and is a payment like any other.
    assert_eq!(market.receipt(other).await["logs"][0]["logIndex"], "0x0");
    let answer = shop.buy_with(other).await.sold();
    assert_eq!((&answer["payer"], &answer["position"]), (&json!(market.buyer(1).to_string()), &json!(0)));
    shop.buy_with(other).await.refused("tx_already_used");
}

#[tokio::test]
async fn a_payment_that_disappears_after_it_bought_something_buys_nothing_more() {
    let market = Market::new().await;
    let shop = shop_of_before(&market).await;
    let (intent, other) = (shop.intent(INSIGHTS).await, shop.intent(INSIGHTS).await);
    let payment = market.pay(PRICE).await;
    let signed = signed(&market, payment).await;
    shop.redeem(INSIGHTS, &intent, payment).await.sold();

    market.reorg(1, &[]).await;
    shop.redeem(INSIGHTS, &intent, payment).await.refused("already_consumed");
    shop.redeem(INSIGHTS, &other, payment).await.refused("tx_not_confirmed");
    send_again(&market, &signed).await;
    shop.redeem(INSIGHTS, &intent, payment).await.refused("already_consumed");
    shop.redeem(INSIGHTS, &other, payment).await.refused("tx_already_used");
    assert_eq!(shop.runs(), 1);
    shop.redeem(INSIGHTS, &other, market.pay(PRICE).await).await.sold();
}

/// Spent twice: in the blocks that stay, the payer's money went elsewhere first.
#[tokio::test]
async fn a_payment_that_fails_in_the_blocks_that_stay_is_none() {
    let market = Market::new().await;
    let shop = shop_of_before(&market).await;
    let (payer, thief, token) = (market.buyer(0), market.buyer(1), market.chain.usdc());
    market.call(payer, token, &contracts::approve(thief, Amount::MAX)).await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;
    shop.redeem_in_vain(INSIGHTS, &intent, payment).await;

    let rest = market.chain.usdc_balance(payer).await.unwrap();
    let all = rest.checked_add(usdc(PRICE)).unwrap();
    let away = market.chain.send(thief, token, &contracts::transfer_from(payer, thief, all)).await.unwrap();
    market.reorg(1, &[&[away, payment]]).await;
    assert_eq!(market.receipt(payment).await["status"], "0x0");
    shop.redeem(INSIGHTS, &intent, payment).await.refused("transfer_not_found");
    assert_eq!((shop.runs(), market.takings().await), (1, 0));

    let honest = market.send(market.buyer(2), PRICE).await;
    market.block().await;
    shop.redeem(INSIGHTS, &intent, honest).await.sold();
}

/// The other way round: what failed in the blocks that were replaced is a payment in those that stay. Whoever was told
/// in between that it failed for good would pay again.
#[tokio::test]
async fn a_failure_that_is_undone_is_never_final() {
    let market = Market::new().await;
    let shop = shop_of_before(&market).await;
    let (payer, friend, token) = (market.buyer(3), market.buyer(4), market.chain.usdc());
    let all = market.chain.usdc_balance(payer).await.unwrap();
    market.call(payer, token, &contracts::transfer(friend, all)).await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.send(payer, PRICE).await;
    market.block().await;
    let help = market.chain.transfer(friend, payer, usdc(PRICE)).await.unwrap();

    // The verifier looks at the head, a second later at the payment, and a second later at the head that replaced it: what
    // it heard before that head does not count any more.
    let second = std::time::Duration::from_secs(1);
    shop.buy_with(TxHash::new([9; 32])).await.refused("tx_not_confirmed");
    market.clock.advance(second);
    shop.redeem(INSIGHTS, &intent, payment).await.refused("transfer_not_found");
    market.chain.reorg(1, &[&[help, payment]]).await.unwrap();
    assert_eq!(market.receipt(payment).await["status"], "0x1");
    market.clock.advance(second);
    shop.redeem(INSIGHTS, &intent, payment).await.sold();
    assert_eq!((shop.runs(), market.takings().await), (1, PRICE));
}

/// A chain that becomes shorter for a while, as a node that is set back does.
#[tokio::test]
async fn a_chain_that_becomes_shorter_takes_its_payments_with_it() {
    let market = Market::new().await;
    let shop = shop_of_before(&market).await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;
    let signed = signed(&market, payment).await;
    market.block().await;
    shop.redeem_in_vain(INSIGHTS, &intent, payment).await;

    market.chain.rpc("anvil_rollback", json!([2])).await.unwrap();
    market.clock.advance(std::time::Duration::from_secs(2));
    shop.redeem(INSIGHTS, &intent, payment).await.refused("tx_not_confirmed");
    send_again(&market, &signed).await;
    shop.redeem(INSIGHTS, &intent, payment).await.sold();
}

/// Deep enough again only when as many blocks stand on it in the chain that stays.
#[tokio::test]
async fn confirmations_are_counted_anew() {
    use tower_x402::verify::Finality;

    let market = Market::new().await;
    let verifier = market.verifier().finality(Finality::Confirmations(3)).connect().await.unwrap();
    let shop = Shop::open(market.merchant().await.verifier(verifier)).await;
    market.block().await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;
    market.block().await;
    shop.redeem(INSIGHTS, &intent, payment).await.refused("tx_not_confirmed");
    market.reorg(2, &[&[], &[payment]]).await;
    market.block().await;
    shop.redeem(INSIGHTS, &intent, payment).await.refused("tx_not_confirmed");
    market.block().await;
    let answer = shop.redeem(INSIGHTS, &intent, payment).await.sold();
    assert_eq!(answer["recipient"], SELLER.to_string());
}
