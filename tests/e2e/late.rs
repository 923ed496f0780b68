//! A shop that opens before its node does: nothing is proved less for it, only later.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::json;
use tower_x402::{
    BuildError, HealthError, Merchant, MerchantBuilder,
    protocol::{Asset, Network, SealingKeys},
    testing::contracts,
    verify::VerifyErrorKind,
};

use super::{
    market::{Market, PRICE, SELLER},
    node::Node,
    shop::{INSIGHTS, Shop},
};
use crate::support::faults::{Fault, Faulty, Op};

fn ledger(market: &Market) -> Faulty {
    Faulty::over(Arc::new(market.ledger()))
}

/// A merchant whose node is that one.
fn merchant(market: &Market, node: &Node, ledger: &Faulty) -> MerchantBuilder {
    let verifier = market.verifier_at(&node.url()).connect_lazily(Network::BASE).unwrap();
    Merchant::builder(SELLER)
        .hold_unbound(Duration::ZERO)
        .verifier(verifier)
        .ledger(ledger.clone())
        .clock(market.clock.clone())
        .sealing_keys(SealingKeys::new([7; 32]))
}

/// Neither a bill nor a sale.
async fn sells_nothing(shop: &Shop, ledger: &Faulty, code: &str) {
    let answer = shop.post(INSIGHTS, &json!({ "query": "why" })).await;
    assert_eq!((answer.status, answer.code()), (503, code), "{}", answer.body);
    assert!(answer.headers.contains_key("retry-after"));
    assert!(!answer.headers.contains_key("pay") && !answer.headers.contains_key("x-price-intent"));
    assert!(!ledger.take_asked().contains(&Op::Reserve));
    assert_eq!(shop.runs(), 0);
}

#[tokio::test]
async fn until_the_node_is_up_nothing_is_quoted_or_sold() {
    let market = Market::new().await;
    let ledger = ledger(&market);
    let before = Shop::open(market.merchant().await.ledger(ledger.clone())).await;
    let (intent, payment) = (before.intent(INSIGHTS).await, market.pay(PRICE).await);
    ledger.take_asked();

    let mut node = Node::down();
    let eager = merchant(&market, &node, &ledger).build().await;
    assert!(matches!(eager, Err(error @ BuildError::Health(HealthError::Verifier(_))) if error.is_transient()));
    let shop = Shop::open(merchant(&market, &node, &ledger).start_lazily()).await;
    sells_nothing(&shop, &ledger, "verification_unavailable").await;
    shop.redeem(INSIGHTS, &intent, payment).await.refused("verification_unavailable");
    assert!(matches!(shop.merchant.health().await, Err(HealthError::Verifier(_))));
    assert!(!ledger.take_asked().contains(&Op::Begin));

    node.comes_up(&market).await;
    market.block().await;
    // The ledger begins before anything is reserved, and once.
    shop.redeem(INSIGHTS, &intent, payment).await.sold();
    let asked = ledger.take_asked();
    let reserved = asked.iter().position(|question| *question == Op::Reserve).unwrap();
    let begun = |asked: &[Op]| asked.iter().filter(|question| **question == Op::Begin).count();
    assert_eq!((begun(&asked), begun(&asked[..reserved])), (1, 1), "{asked:?}");
    shop.merchant.health().await.unwrap();
    shop.buy_with(market.pay(PRICE).await).await.sold();
    assert_eq!(begun(&ledger.take_asked()), 0);

    // From now on it is a shop like any other: while the node is down it quotes, and keeps what was paid.
    node.goes_down().await;
    let intent = shop.intent(INSIGHTS).await;
    let payment = market.pay(PRICE).await;
    shop.redeem(INSIGHTS, &intent, payment).await.refused("verification_unavailable");
    node.comes_up(&market).await;
    market.block_at(market.now().await + 60).await;
    shop.redeem(INSIGHTS, &intent, payment).await.sold();
}

#[tokio::test]
async fn a_node_of_another_chain_never_gets_it_started() {
    let market = Market::new().await;
    let (ledger, mut node) = (ledger(&market), Node::down());
    let shop = Shop::open(merchant(&market, &node, &ledger).start_lazily()).await;
    market.chain.rpc("anvil_setChainId", json!([84532])).await.unwrap();
    node.comes_up(&market).await;
    for _ in 0..3 {
        market.block().await;
        sells_nothing(&shop, &ledger, "verification_unavailable").await;
    }
    let Err(HealthError::Verifier(error)) = shop.merchant.health().await else { panic!("it is healthy") };
    let wrong = VerifyErrorKind::WrongChain { expected: Network::BASE, found: Network::BASE_SEPOLIA };
    assert_eq!(*error.kind(), wrong);

    // Where that can be known at once, it is an error at once.
    let known = merchant(&market, &node, &ledger).start_lazily().build().await;
    assert!(matches!(known, Err(BuildError::Health(HealthError::Verifier(error))) if *error.kind() == wrong));
}

#[tokio::test]
async fn nor_does_a_token_with_other_decimals() {
    let market = Market::new().await;
    let coin = market.deploy_with(contracts::COIN, &[18.into()]).await;
    let (ledger, mut node) = (ledger(&market), Node::down());
    let builder = merchant(&market, &node, &ledger).asset(Asset::new(Network::BASE, coin, 6, "COIN"));
    let shop = Shop::open(builder.start_lazily()).await;
    node.comes_up(&market).await;
    market.block().await;
    sells_nothing(&shop, &ledger, "verification_unavailable").await;
    let Err(HealthError::Verifier(error)) = shop.merchant.health().await else { panic!("it is healthy") };
    assert_eq!(*error.kind(), VerifyErrorKind::WrongToken { contract: coin, expected: 6, found: Some(18) });
}

#[tokio::test]
async fn nor_without_its_ledger() {
    let market = Market::new().await;
    let (ledger, mut node) = (ledger(&market), Node::down());
    node.comes_up(&market).await;
    ledger.always(Op::Begin, Fault::Fail);
    let shop = Shop::open(merchant(&market, &node, &ledger).start_lazily()).await;
    sells_nothing(&shop, &ledger, "ledger_unavailable").await;
    ledger.heal();
    market.block().await;
    let intent = shop.intent(INSIGHTS).await;
    shop.redeem(INSIGHTS, &intent, market.pay(PRICE).await).await.sold();
}

#[tokio::test]
async fn of_many_who_come_at_once_one_starts_it() {
    let market = Market::new().await;
    let (ledger, mut node) = (ledger(&market), Node::down());
    let shop = Shop::open(merchant(&market, &node, &ledger).start_lazily()).await;
    node.comes_up(&market).await;
    market.block().await;
    let intents = join_all((0..50).map(|_| shop.intent(INSIGHTS))).await;
    assert_eq!((intents.len(), ledger.take_asked()), (50, vec![Op::Begin]));
}
