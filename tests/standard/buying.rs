//! Official clients buy from `datasets`, as they buy from anyone.

use std::{collections::HashSet, sync::Arc, time::Duration};

use axum::{Json, routing::post};
use serde_json::{Value, json};
use tower_x402::{
    MerchantBuilder, Redelivery,
    protocol::{Amount, v2::PaymentRequired},
};

use super::{
    PRICE, Payer, SELLER, Token, World,
    clients::{Client, Order, Purchase},
    question,
    seller::{By, settling},
};
use crate::{
    served::program::{self as datasets, Service, data::Data},
    served::shop::{INSIGHTS, Shop},
    support::Counter,
    x402_clients_example,
};

/// All headers of a quote together may have so many bytes: a platform lost one of 3.5 KB.
const QUOTE_MAX: usize = 2_900;

/// The service, whose prices closures tell, and a route whose price is fixed.
async fn open(merchant: MerchantBuilder) -> Shop {
    let merchant = merchant.build().await.unwrap();
    let service = Arc::new(Service::new(Data::example().unwrap()).await.unwrap());
    let priced = datasets::router(service, &merchant, "0.49", Redelivery::lasting(Duration::ZERO), None).unwrap();
    let fixed = merchant.charge("fixed", Amount::from_base_units(PRICE)).unwrap();
    let app = priced.route("/fixed", post(async || Json(json!({ "reply": "# 42" }))).route_layer(fixed));
    Shop::serving(merchant, app, Counter::default()).await
}

async fn buys(client: Client, by: By, token: Token, payers: &[Payer]) {
    let Some(world) = World::with(token).await else { return };
    let (merchant, _facilitator) = settling(&world, by).await;
    let shop = open(merchant).await;
    let mut transactions = HashSet::new();
    for payer in payers {
        for path in [INSIGHTS, "/fixed"] {
            let (url, order) = (shop.url(path), question());
            let Some(purchase) = client.buy(&world, Order::post(&url, order).by(*payer)).await else { return };
            let reply = &purchase.sold(&world, *payer)["reply"];
            assert!(reply.as_str().unwrap().starts_with("# "), "{reply}");
            assert_eq!(purchase.settled()["amount"], PRICE.to_string());
            echoed(&purchase, &url);
            transactions.insert(mined(&world, purchase.settled()).await);
        }
    }
    // One each, of exactly the price.
    assert_eq!(transactions.len(), 2 * payers.len());
    assert_eq!(world.balance(SELLER).await, 2 * payers.len() as u128 * PRICE);
}

/// What was offered came back whole, with the intent.
fn echoed(purchase: &Purchase, url: &str) {
    let offered: PaymentRequired = purchase.offered();
    let header = offered.to_header();
    assert!(header.len() < QUOTE_MAX, "{}", header.len());
    assert_eq!(offered.resource.as_ref().unwrap().url, url);
    let (offered, payment) = (offered.accepts[0].exact().unwrap(), purchase.payment());
    assert_eq!(payment.accepted.exact(), Some(offered));
    assert!(offered.intent().unwrap().is_some(), "{offered:?}");
}

/// The transaction that is named is there, and did not fail.
async fn mined(world: &World, settled: &Value) -> String {
    let transaction = settled["transaction"].as_str().unwrap();
    let receipt = world.chain.receipt(transaction.parse().unwrap()).await.unwrap().expect("mined");
    assert_eq!(receipt["status"], "0x1");
    transaction.to_owned()
}

#[tokio::test]
async fn the_example_for_x402_clients_sells_to_one() {
    let Some(world) = World::with(Token::Ours).await else { return };
    let (merchant, _facilitator) = settling(&world, By::Facilitator).await;
    let merchant = merchant.build().await.unwrap();
    let app = x402_clients_example::router(&merchant).unwrap();
    let shop = Shop::serving(merchant, app, Counter::default()).await;
    let url = shop.url("/forecast");
    let Some(purchase) = Client::Fetch.buy(&world, Order::get(&url)).await else { return };
    let told = purchase.sold(&world, Payer::Plain).as_str().unwrap().to_owned();
    assert_eq!(told, format!("# Rain\n\nForecast for {}.\n", world.buyer().address()));
    assert_eq!(world.balance(SELLER).await, PRICE);
}

async fn buys_in_all_ways(client: Client, by: By) {
    buys(client, by, Token::Ours, &[Payer::Plain]).await;
    buys(client, by, Token::Circles, &[Payer::Plain, Payer::Contract]).await;
}

#[tokio::test]
async fn the_typescript_client_where_a_wallet_settles() {
    buys_in_all_ways(Client::Fetch, By::Wallet).await;
}

#[tokio::test]
async fn the_typescript_client_where_a_facilitator_settles() {
    buys_in_all_ways(Client::Fetch, By::Facilitator).await;
}

#[tokio::test]
async fn the_python_client_where_a_wallet_settles() {
    buys_in_all_ways(Client::Httpx, By::Wallet).await;
}

#[tokio::test]
async fn the_python_client_where_a_facilitator_settles() {
    buys_in_all_ways(Client::Httpx, By::Facilitator).await;
}
