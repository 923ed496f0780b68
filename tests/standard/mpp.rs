//! Official clients of MPP buy, unmodified, and are charged once.

use axum::{Json, routing::post};
use serde_json::json;
use tower_x402::protocol::Amount;

use super::{
    PRICE, SELLER, Token, World,
    clients::{Client, Order},
    facilitator::Facilitator,
    question,
    seller::{By, facilitated, merchant, settling},
};
use crate::{
    served::shop::{INSIGHTS, Shop},
    support::Counter,
};

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

/// What an official client is charged for one purchase, whatever the facilitator does: one price per answer, and no second signature
/// where the first may still be used.
async fn is_charged_once_at_most(client: Client, faults: &[&str]) {
    let Some(world) = World::with(Token::Circles).await else { return };
    let facilitator = Facilitator::start(&world).await;
    let shop = Shop::open(merchant(&world).await.settler(facilitated(&facilitator)).mpp(REALM)).await;
    for fault in faults {
        let (before, settles) = (world.balance(SELLER).await, fault.starts_with("settles"));
        facilitator.fault(fault).await;
        let url = shop.url(INSIGHTS);
        let Some(purchase) = client.buy(&world, Order::post(&url, question())).await else { return };
        facilitator.fault("").await;
        let answer = purchase.answer();
        // Some clients report an outcome that is not known by an error.
        let expected = match *fault {
            "says-refused" => answer == Some(402),
            _ if settles => answer.is_none_or(|status| [200, 503].contains(&status)),
            _ => answer.is_none_or(|status| status == 503),
        };
        assert!(expected, "{client:?} {fault}: {purchase:?}");
        // Only where the first was certainly not used, another may be signed.
        let most = if *fault == "says-refused" { 3 } else { 1 };
        assert!((1..=most).contains(&purchase.signed()), "{client:?} {fault}: {purchase:?}");
        let charged = (world.balance(SELLER).await - before) / PRICE;
        assert_eq!(charged, u128::from(settles), "{client:?} {fault}: {purchase:?}");
    }
}

#[tokio::test]
async fn a_facilitator_that_misbehaves_charges_mppx_once_at_most() {
    let faults = [
        "settles-and-hangs",
        "settles-and-errs",
        "settles-and-babbles",
        "settles-and-says-refused",
        "says-refused",
        "says-failed",
        "says-settled",
        "hangs",
        "drops",
        "redirects",
    ];
    is_charged_once_at_most(Client::Mppx, &faults).await;
}

#[tokio::test]
async fn a_facilitator_that_misbehaves_charges_pympp_once_at_most() {
    let faults = ["settles-and-errs", "settles-and-says-refused", "says-refused", "says-settled", "drops"];
    is_charged_once_at_most(Client::Pympp, &faults).await;
}
