//! What an official client signed, shown as it should not be.

use alloy::signers::{SignerSync as _, local::PrivateKeySigner};
use serde_json::json;
use tower_x402::protocol::TxHash;

use super::{
    PRICE, SELLER, Token, World, circle,
    clients::{Client, Order},
    facilitator::Facilitator,
    question,
    seller::{By, settling, show},
};
use crate::served::shop::{GOALS, INSIGHTS, Shop};

async fn stage(by: By) -> Option<(World, Shop, Option<Facilitator>)> {
    let world = World::with(Token::Circles).await?;
    let (merchant, facilitator) = settling(&world, by).await;
    Some((world, Shop::open(merchant).await, facilitator))
}

async fn sign(world: &World, shop: &Shop) -> String {
    Client::sign(world, Order::post(&shop.url(INSIGHTS), question())).await
}

#[tokio::test]
async fn five_at_once_buy_one_answer() {
    let Some((world, shop, _)) = stage(By::Wallet).await else { return };
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

/// Shown at another route, then at its own, then as the transaction that it became: by a stranger, and by its payer.
async fn is_shown_everywhere(by: By) {
    let Some((world, shop, _facilitator)) = stage(by).await else { return };
    let signature = sign(&world, &shop).await;
    let elsewhere = show(&shop, GOALS, &question(), &signature).await;
    assert_eq!((elsewhere.status, elsewhere.code()), (402, "authorization_refused"), "{}", elsewhere.body);
    assert_eq!(elsewhere.body["reason"], "invalid_payment_requirements");
    assert_eq!((shop.runs(), world.balance(SELLER).await), (0, 0));

    let sold = show(&shop, INSIGHTS, &question(), &signature).await;
    let transaction: TxHash = sold.taken()["transaction"].as_str().unwrap().parse().unwrap();
    let key: PrivateKeySigner = world.buyer().private_key().parse().unwrap();
    for path in [INSIGHTS, GOALS] {
        let intent = shop.intent(path).await;
        let strangers = shop.redeem(path, &intent, transaction).await;
        assert_eq!((strangers.status, strangers.code()), (403, "payment_bound"), "{}", strangers.body);
        let signed = key.sign_message_sync(strangers.body["message"].as_str().unwrap().as_bytes()).unwrap();
        let mut proof = question();
        proof["intentId"] = intent.into();
        proof["txHash"] = transaction.to_string().into();
        proof["paymentSignature"] = signed.to_string().into();
        let payers = shop.post(path, &proof).await;
        assert_eq!((payers.status, payers.code()), (409, "tx_already_used"), "{}", payers.body);
    }
    assert_eq!((shop.runs(), world.balance(SELLER).await), (1, PRICE));
}

#[tokio::test]
async fn what_a_wallet_settled_buys_once() {
    is_shown_everywhere(By::Wallet).await;
}

#[tokio::test]
async fn what_a_facilitator_settled_buys_once() {
    is_shown_everywhere(By::Facilitator).await;
}

#[tokio::test]
async fn a_payer_whom_the_issuer_barred_is_refused_and_gets_nothing() {
    let Some((world, shop, _)) = stage(By::Wallet).await else { return };
    let signature = sign(&world, &shop).await;
    circle::blacklist(&world.chain, world.buyer().address()).await;
    let answer = show(&shop, INSIGHTS, &question(), &signature).await;
    assert_eq!((answer.status, answer.code()), (402, "authorization_refused"), "{}", answer.body);
    assert_eq!((shop.runs(), world.balance(SELLER).await), (0, 0));
    // It is quoted anew: another account may pay.
    assert!(answer.headers.contains_key("payment-required"));
    assert_eq!(answer.body["status"], json!(402));
}
