//! What an official client signed, shown as it should not be.

use serde_json::json;

use super::{
    PRICE, SELLER, Token, World, circle,
    clients::{Client, Order},
    question,
    seller::{By, settling, show},
};
use crate::e2e::shop::{GOALS, INSIGHTS, Shop};

async fn stage() -> Option<(World, Shop)> {
    let world = World::with(Token::Circles).await?;
    let shop = Shop::open(settling(&world, By::Wallet).await.0).await;
    Some((world, shop))
}

async fn sign(world: &World, shop: &Shop) -> String {
    Client::sign(world, Order::post(&shop.url(INSIGHTS), question())).await
}

#[tokio::test]
async fn five_at_once_buy_one_answer() {
    let Some((world, shop)) = stage().await else { return };
    let signature = sign(&world, &shop).await;
    let body = question();
    let show = || show(&shop, INSIGHTS, &body, &signature);
    let answers = tokio::join!(show(), show(), show(), show(), show());
    let answers = [answers.0, answers.1, answers.2, answers.3, answers.4];
    let mut told: Vec<_> = answers.iter().map(|answer| (answer.status, answer.code())).collect();
    told.sort_unstable();
    assert_eq!(told[0], (200, ""), "{told:?}");
    assert!(told[1..].iter().all(|(status, _)| *status == 409), "{told:?}");
    assert_eq!((shop.runs(), world.balance(SELLER).await), (1, PRICE));
}

#[tokio::test]
async fn it_buys_nothing_at_another_route_or_by_the_other_door() {
    let Some((world, shop)) = stage().await else { return };
    let signature = sign(&world, &shop).await;
    let elsewhere = show(&shop, GOALS, &question(), &signature).await;
    assert_eq!((elsewhere.status, elsewhere.code()), (402, "authorization_refused"), "{}", elsewhere.body);
    assert_eq!(elsewhere.body["reason"], "invalid_payment_requirements");
    assert_eq!((shop.runs(), world.balance(SELLER).await), (0, 0));

    let sold = show(&shop, INSIGHTS, &question(), &signature).await;
    let transaction = sold.taken()["transaction"].as_str().unwrap().parse().unwrap();
    shop.buy_with(transaction).await.refused("tx_already_used");
    let _ = shop.redeem(GOALS, &shop.intent(GOALS).await, transaction).await.refused("tx_already_used");
    assert_eq!(shop.runs(), 1);
}

#[tokio::test]
async fn a_payer_whom_the_issuer_barred_is_refused_and_gets_nothing() {
    let Some((world, shop)) = stage().await else { return };
    let signature = sign(&world, &shop).await;
    circle::blacklist(&world.chain, world.buyer().address()).await;
    let answer = show(&shop, INSIGHTS, &question(), &signature).await;
    assert_eq!((answer.status, answer.code()), (402, "authorization_refused"), "{}", answer.body);
    assert_eq!((shop.runs(), world.balance(SELLER).await), (0, 0));
    // It is quoted anew: another account may pay.
    assert!(answer.headers.contains_key("payment-required"));
    assert_eq!(answer.body["status"], json!(402));
}
