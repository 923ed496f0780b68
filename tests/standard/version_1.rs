//! Official clients of version 1 buy, unmodified, and are charged once.

use axum::{Json, routing::post};
use serde_json::json;
use tower_x402::protocol::Amount;

use super::{
    PRICE, Payer, SELLER, Token, World,
    clients::{Client, Order},
    question,
    seller::{By, settling},
};
use crate::{served::shop::Shop, support::Counter};

async fn buys(client: Client) {
    for by in [By::Wallet, By::Facilitator] {
        let Some(world) = World::with(Token::Circles).await else { return };
        let (merchant, _facilitator) = settling(&world, by).await;
        let merchant = merchant.build().await.unwrap();
        let paid = merchant.charge("fixed", Amount::from_base_units(PRICE)).unwrap();
        let app = axum::Router::new().route("/fixed", post(async || Json(json!({ "reply": 42 }))).route_layer(paid));
        let shop = Shop::serving(merchant, app, Counter::default()).await;
        for bought in 1..=2_u8 {
            let url = shop.url("/fixed");
            let Some(purchase) = client.buy(&world, Order::post(&url, question())).await else { return };
            assert_eq!((purchase.status(), purchase.body()), (200, &json!({ "reply": 42 })), "{purchase:?}");
            let settled = purchase.settled();
            assert_eq!((&settled["success"], &settled["network"]), (&json!(true), &json!("base")), "{purchase:?}");
            let payer = settled["payer"].as_str().unwrap().to_lowercase();
            assert_eq!(payer, world.address_of(Payer::Plain).to_string().to_lowercase());
            let transaction = settled["transaction"].as_str().unwrap().parse().unwrap();
            let receipt = world.chain.receipt(transaction).await.unwrap().expect("mined");
            assert_eq!(receipt["status"], "0x1");
            assert_eq!(world.balance(SELLER).await, u128::from(bought) * PRICE);
        }
    }
}

#[tokio::test]
async fn the_fetch_client() {
    buys(Client::FetchV1).await;
}

#[tokio::test]
async fn the_axios_client() {
    buys(Client::AxiosV1).await;
}

#[tokio::test]
async fn the_python_client() {
    buys(Client::HttpxV1).await;
}
