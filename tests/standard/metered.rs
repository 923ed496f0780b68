//! Metered answers: the official client allows a maximum, the handler says what its answer costs, and the official facilitator, or the
//! seller's own key, charges that to the unit.

use serde_json::{Value, json};
use tower_x402::{
    Merchant, MerchantBuilder,
    protocol::{
        Address, Amount, Asset, Network, TxHash,
        permit2::PERMIT2,
        v2::{PaymentOption, SchemePayload},
    },
    testing::contracts::{self, Word},
};

use super::{
    SELLER, Token, World,
    clients::{Client, Order, Purchase},
    facilitator::Facilitator,
    seller::{By, facilitated, merchant, wallet},
};
use crate::{
    metered_example::router,
    served::shop::{INSIGHTS, Shop, client},
    support::Counter,
};

/// Of a word, in base units.
pub const EACH: u128 = 1_000;

/// A seller of words on a chain, whose buyer has allowed Permit2 to move its tokens.
pub struct Stage {
    pub world: World,
    pub shop: Shop,
    pub facilitator: Option<Facilitator>,
}

impl Stage {
    pub async fn new(by: By) -> Option<Self> {
        Self::with(by, |builder| builder).await
    }

    pub async fn with(by: By, set: impl FnOnce(MerchantBuilder) -> MerchantBuilder) -> Option<Self> {
        let world = World::with(Token::Ours).await?;
        allow(&world, world.chain.usdc(), Amount::MAX).await;
        let (builder, facilitator) = settling(&world, by).await;
        let merchant = set(builder).build().await.unwrap();
        let app = router(&merchant, false).unwrap();
        let shop = Shop::serving(merchant, app, Counter::default()).await;
        Some(Self { world, shop, facilitator })
    }

    async fn buy(&self, wish: Value) -> Purchase {
        let url = self.shop.url("/words");
        Client::Fetch.buy(&self.world, Order::post(&url, wish)).await.unwrap()
    }
}

/// Takes permits.
pub async fn settling(world: &World, by: By) -> (MerchantBuilder, Option<Facilitator>) {
    let merchant = merchant(world).await;
    match by {
        By::Wallet => (merchant.permit_settler(wallet(world).await), None),
        By::Facilitator => {
            let facilitator = Facilitator::start(world).await;
            (merchant.permit_settler(facilitated(&facilitator)), Some(facilitator))
        }
    }
}

/// The buyer lets Permit2 move so many of its tokens.
pub async fn allow(world: &World, token: Address, amount: Amount) {
    let approve = contracts::approve(PERMIT2, amount);
    let sent = world.chain.send(world.buyer().address(), token, &approve).await.unwrap();
    world.chain.wait_until_mined(sent).await.unwrap();
}

pub fn wish(prompt: &str, words: usize) -> Value {
    json!({ "prompt": prompt, "words": words })
}

async fn pays_what_the_answer_costs(by: By) {
    let Some(stage) = Stage::new(by).await else { return };
    let mut charged = 0;
    for (prompt, words, made) in [
        ("to be or not", 5, 5),
        // At most twice the prompt.
        ("one two three", 100, 6),
        ("one two three", 1, 1),
        // Nothing is made, and nothing is settled.
        ("", 7, 0),
    ] {
        let bought = stage.buy(wish(prompt, words)).await;
        assert_eq!(bought.status(), 200, "{by:?} {prompt}: {bought:?}");
        assert_eq!(bought.body()["words"].as_array().unwrap().len(), made, "{by:?}: {bought:?}");
        let (allowed, cost) = (EACH * words as u128, EACH * made as u128);
        let PaymentOption::UpTo(offered) = &bought.payment().accepted else { panic!("{bought:?}") };
        assert_eq!(offered.amount.to_string(), allowed.to_string());
        let settled = bought.settled();
        assert_eq!((settled["success"].as_bool(), settled["amount"].as_str()), (Some(true), Some(&*cost.to_string())));
        assert_eq!(settled["extra"]["maximum"], allowed.to_string());
        assert_eq!(settled["transaction"].as_str().unwrap().parse::<TxHash>().is_ok(), cost > 0, "{settled}");
        charged += cost;
        assert_eq!(stage.world.balance(SELLER).await, charged, "{by:?} {prompt}");
    }
    // What fails costs nothing, and what cannot be made is refused before any bill.
    let failed = stage.buy(wish("fail", 9)).await;
    assert_eq!((failed.status(), stage.world.balance(SELLER).await), (500, charged), "{failed:?}");
    for words in [0, 1_001] {
        let answer = client().post(stage.shop.url("/words")).json(&wish("one", words)).send().await.unwrap();
        assert_eq!(answer.status(), 422);
        assert!(!answer.headers().contains_key("payment-required"));
    }
}

#[tokio::test]
async fn the_fetch_client_pays_our_own_key_what_the_answer_costs() {
    pays_what_the_answer_costs(By::Wallet).await;
}

#[tokio::test]
async fn the_fetch_client_pays_by_the_official_facilitator_what_the_answer_costs() {
    pays_what_the_answer_costs(By::Facilitator).await;
}

/// The header of a failure buys the answer to a good prompt of as many words; and no answer a second time, not even one that cost nothing.
async fn one_header_buys_one_answer(by: By) {
    let Some(stage) = Stage::new(by).await else { return };
    let show = async |header: &str, prompt: &str| {
        let request = client().post(stage.shop.url("/words")).json(&wish(prompt, 4));
        request.header("payment-signature", header).send().await.unwrap().status().as_u16()
    };
    let mut charged = 0;
    for (prompt, made) in [("a b c", 4), ("", 0)] {
        let url = stage.shop.url("/words");
        let header = Client::sign(&stage.world, Order::post(&url, wish("fail", 4))).await;
        for (prompt, status) in [("fail", 500), (prompt, 200), (prompt, 409), ("another", 409)] {
            assert_eq!(show(&header, prompt).await, status, "{by:?} {prompt}");
        }
        charged += EACH * made;
        assert_eq!(stage.world.balance(SELLER).await, charged, "{by:?} {prompt}");
    }
}

#[tokio::test]
async fn by_our_own_key_one_header_buys_one_answer() {
    one_header_buys_one_answer(By::Wallet).await;
}

#[tokio::test]
async fn by_a_facilitator_one_header_buys_one_answer() {
    one_header_buys_one_answer(By::Facilitator).await;
}

/// The transaction that charged an answer is shown as if it were a transfer.
#[tokio::test]
async fn what_was_charged_buys_nothing_as_a_transfer() {
    for by in [By::Wallet, By::Facilitator] {
        let Some(stage) = Stage::with(by, |builder| builder.hold_unbound(std::time::Duration::ZERO)).await else {
            return;
        };
        let bought = stage.buy(wish("one two three four five", 10)).await;
        assert_eq!(bought.status(), 200, "{bought:?}");
        let transaction = bought.settled()["transaction"].as_str().unwrap().to_owned();
        // A route that costs less than was charged.
        let app = axum::Router::new().route(
            "/cheap",
            axum::routing::post(|| async { "sold" })
                .route_layer(stage.shop.merchant.charge("cheap", "0.001 USDC").unwrap()),
        );
        let cheap = Shop::serving(stage.shop.merchant.clone(), app, Counter::default()).await;
        let quote = client().post(cheap.url("/cheap")).send().await.unwrap();
        let intent = quote.headers()["x-price-intent"].to_str().unwrap();
        let proof = json!({ "intentId": intent, "txHash": transaction }).to_string();
        let answer = client().post(cheap.url("/cheap")).header("x402-payment", proof).send().await.unwrap();
        assert_eq!(answer.status(), 403, "{by:?}");
        assert_eq!(answer.headers()["x402-error"], "payment_bound", "{by:?}");
    }
}

/// A token that has no authorizations is paid by a permit of the whole price.
async fn pays_a_coin_by_permit(by: By) {
    let Some(world) = World::with(Token::Ours).await else { return };
    let coin = world.chain.deploy(contracts::COIN.creation, &[Word::from(6u128)]).await.unwrap();
    let mint = contracts::mint(world.buyer().address(), Amount::from_base_units(5_000_000));
    let sent = world.chain.send(world.settler().address(), coin, &mint).await.unwrap();
    world.chain.wait_until_mined(sent).await.unwrap();
    allow(&world, coin, Amount::MAX).await;
    let (builder, _facilitator) = settling(&world, by).await;
    let asset = Asset::new(Network::BASE, coin, 6, "COIN");
    let merchant: Merchant = builder.asset(asset).build().await.unwrap();
    let paid = merchant.charge("coins", "0.49 COIN").unwrap();
    let app = axum::Router::new().route(INSIGHTS, axum::routing::post(|| async { "sold" }).route_layer(paid));
    let shop = Shop::serving(merchant, app, Counter::default()).await;
    let url = shop.url(INSIGHTS);
    let bought = Client::Fetch.buy(&world, Order::post(&url, json!({}))).await.unwrap();
    assert_eq!(bought.status(), 200, "{by:?}: {bought:?}");
    assert!(matches!(bought.payment().payload, SchemePayload::Permit(_)), "{bought:?}");
    assert_eq!(bought.settled()["amount"], "490000");
    let balance = world.chain.call(coin, &contracts::balance_of(SELLER)).await.unwrap();
    assert_eq!(balance, Amount::from_base_units(490_000).to_be_bytes());
}

#[tokio::test]
async fn the_fetch_client_pays_a_token_without_authorizations_to_our_own_key() {
    pays_a_coin_by_permit(By::Wallet).await;
}

#[tokio::test]
async fn the_fetch_client_pays_a_token_without_authorizations_by_the_official_facilitator() {
    pays_a_coin_by_permit(By::Facilitator).await;
}
