//! Official clients of MPP buy, unmodified, and are charged once.

use axum::{Json, routing::post};
use serde_json::json;
use tower_x402::protocol::Amount;

use super::{
    PRICE, SELLER, Token, World,
    clients::{Client, Order},
    question,
    seller::{By, settling},
};
use crate::{served::shop::Shop, support::Counter};

const REALM: &str = "api.example.com";

async fn buys(client: Client) {
    for by in [By::Wallet, By::Facilitator] {
        let Some(world) = World::with(Token::Circles).await else { return };
        let (merchant, _facilitator) = settling(&world, by).await;
        let merchant = merchant.mpp(REALM).build().await.unwrap();
        let paid = merchant.charge("fixed", Amount::from_base_units(PRICE)).unwrap();
        let app = axum::Router::new().route("/fixed", post(async || Json(json!({ "reply": 42 }))).route_layer(paid));
        let shop = Shop::serving(merchant, app, Counter::default()).await;
        for bought in 1..=2_u8 {
            let url = shop.url("/fixed");
            let Some(purchase) = client.buy(&world, Order::post(&url, question())).await else { return };
            assert_eq!((purchase.status(), purchase.body()), (200, &json!({ "reply": 42 })), "{purchase:?}");
            let receipt = purchase.settled();
            assert_eq!((&receipt["status"], &receipt["method"]), (&json!("success"), &json!("evm")), "{purchase:?}");
            assert_eq!((&receipt["chainId"], purchase.signed()), (&json!(8453), 1), "{purchase:?}");
            let transaction = receipt["reference"].as_str().unwrap().parse().unwrap();
            let mined = world.chain.receipt(transaction).await.unwrap().expect("mined");
            assert_eq!(mined["status"], "0x1");
            assert_eq!(world.balance(SELLER).await, u128::from(bought) * PRICE);
        }
    }
}

#[tokio::test]
async fn mppx() {
    buys(Client::Mppx).await;
}

#[tokio::test]
async fn pympp() {
    buys(Client::Pympp).await;
}
