//! Our own client buys metered answers, and pays by permit for a token without authorizations: at our own seller, settled by its key or by the
//! official facilitator, and at the official server.

use std::time::Duration;

use axum::{Router, routing::post};
use http::{Request, header::CONTENT_TYPE};
use serde_json::{Value, json};
use tower_x402::{
    client::{
        Body, Budget, MemoryJournal, PayErrorKind, PayLayer, PayerError, PaymentMethod, PurchaseState, WalletPayer,
    },
    protocol::{Amount, Asset, Network, permit2::PERMIT2},
    testing::contracts::{self, Word},
};

use super::{
    SELLER, Token, World,
    foreign::{
        ForeignSeller, Make,
        paying::{Buyer, Got, buy, get},
    },
    metered::{EACH, Stage, allow, settling, wish},
    seller::By,
};
use crate::{
    served::shop::{INSIGHTS, Shop},
    support::Counter,
};

/// Of the sellers here, so that no test waits for a minute.
const LEASE: Duration = Duration::from_secs(4);

fn ask(url: &str, wish: &Value) -> Request<Body> {
    let request = Request::post(url).header(CONTENT_TYPE, "application/json");
    request.body(Body::from(wish.to_string())).unwrap()
}

fn units(units: u128) -> Amount {
    Amount::from_base_units(units)
}

async fn pays_what_the_answer_costs(by: By) {
    let Some(stage) = Stage::new(by).await else { return };
    let buyer = Buyer::of(&stage.world).await;
    let (layer, url) = (buyer.layer().await, stage.shop.url("/words"));
    let (mut charged, mut held) = (0, 0);
    for (prompt, words, made) in [("to be or not", 5, 5), ("one two three", 100, 6), ("one", 1, 1), ("", 7, 0)] {
        let got = buy(&layer, ask(&url, &wish(prompt, words))).await.unwrap();
        assert_eq!((got.status, got.json()["words"].as_array().unwrap().len()), (200, made), "{by:?}: {got:?}");
        let purchase = got.purchase.unwrap();
        let (allowed, cost) = (EACH * words as u128, EACH * made as u128);
        assert_eq!((purchase.paid_by, purchase.state), (PaymentMethod::Permit, PurchaseState::Answered));
        assert_eq!((purchase.amount, purchase.charged), (units(allowed), Some(units(cost))), "{by:?} {prompt}");
        assert_eq!((purchase.confirmed, purchase.transaction.is_some()), (true, cost > 0), "{by:?} {prompt}");
        charged += cost;
        // A permit of which nothing was charged can be used until it ends.
        held += if cost == 0 { allowed } else { cost };
        assert_eq!(stage.world.balance(SELLER).await, charged, "{by:?} {prompt}");
        assert_eq!(layer.spent(), units(held), "{by:?} {prompt}: the chain confirms the charge");
    }
    assert!(layer.unfinished().is_empty());
}

#[tokio::test]
async fn our_client_pays_our_own_key_what_the_answer_costs() {
    pays_what_the_answer_costs(By::Wallet).await;
}

#[tokio::test]
async fn our_client_pays_by_the_official_facilitator_what_the_answer_costs() {
    pays_what_the_answer_costs(By::Facilitator).await;
}

#[tokio::test]
async fn our_client_pays_the_official_server_what_the_answer_costs() {
    let Some(world) = World::with(Token::Ours).await else { return };
    allow(&world, world.chain.usdc(), Amount::MAX).await;
    let Some(seller) = ForeignSeller::open(Make::Express, &world).await else { return };
    let buyer = Buyer::of(&world).await;
    let layer = buyer.layer().await;
    for bought in 1..=2 {
        let got = buy(&layer, get(&seller.url("/metered"))).await.unwrap();
        assert_eq!((got.status, got.json()), (200, json!({ "metered": true, "run": bought })));
        let purchase = got.purchase.unwrap();
        assert_eq!((purchase.paid_by, purchase.amount), (PaymentMethod::Permit, units(50_000)));
        assert_eq!((purchase.charged, purchase.confirmed), (Some(units(1_858)), true));
        assert_eq!(seller.earned(&world).await, 1_858 * bought);
        assert_eq!(layer.spent(), units(1_858 * bought));
    }
}

/// The caller leaves while the charge is on its way, and the next process goes on with the same permit.
async fn is_resumed_with_the_same_permit(by: By) {
    let Some(stage) = Stage::with(by, |builder| builder.lease(LEASE)).await else { return };
    let buyer = Buyer::of(&stage.world).await;
    let (url, wish) = (stage.shop.url("/words"), wish("a b c d", 4));
    let layer = buyer.layer().await;
    let called = tokio::time::timeout(Duration::from_millis(150), buy(&layer, ask(&url, &wish))).await;
    drop(layer);
    if called.is_err() {
        let entries = buyer.entries().await;
        assert!(entries.iter().all(|entry| entry.state.is_open()), "{entries:?}");
    }
    let layer = buyer.layer().await;
    let got: Got = buy(&layer, ask(&url, &wish)).await.unwrap();
    assert_eq!((got.status, got.purchase.unwrap().charged), (200, Some(units(4 * EACH))), "{by:?}");
    assert_eq!(stage.world.balance(SELLER).await, 4 * EACH, "{by:?}");
    drop(layer);
    assert_eq!(buyer.entries().await.len(), 1, "{by:?}: one permit was signed");
}

#[tokio::test]
async fn a_purchase_that_was_left_is_resumed_with_the_same_permit_at_our_own_key() {
    is_resumed_with_the_same_permit(By::Wallet).await;
}

#[tokio::test]
async fn a_purchase_that_was_left_is_resumed_with_the_same_permit_at_the_official_facilitator() {
    is_resumed_with_the_same_permit(By::Facilitator).await;
}

async fn wallet(world: &World) -> WalletPayer {
    let builder = WalletPayer::builder().key(world.buyer().private_key()).endpoint(world.chain.rpc_url());
    builder.connect().await.unwrap().final_after(2)
}

async fn layer(world: &World, asset: Asset) -> PayLayer {
    let budget = Budget::in_assets([asset]).per_payment("1").per_day("9").build().unwrap();
    let layer = PayLayer::builder(wallet(world).await, budget, MemoryJournal::new());
    layer.longest_pause(Duration::from_millis(500)).patience(Duration::from_secs(120)).build().await.unwrap()
}

/// The wallet makes the allowance, which it used to lack, and takes it back.
async fn is_paid_once_the_wallet_has_made_the_allowance(by: By) {
    let Some(world) = World::with(Token::Ours).await else { return };
    let coin = world.chain.deploy(contracts::COIN.creation, &[Word::from(6u128)]).await.unwrap();
    let mint = contracts::mint(world.buyer().address(), units(5_000_000));
    let sent = world.chain.send(world.settler().address(), coin, &mint).await.unwrap();
    world.chain.wait_until_mined(sent).await.unwrap();
    let asset = Asset::new(Network::BASE, coin, 6, "COIN");
    let (builder, _facilitator) = settling(&world, by).await;
    let merchant = builder.asset(asset.clone()).build().await.unwrap();
    let paid = merchant.charge("coins", "0.49 COIN").unwrap();
    let app = Router::new().route(INSIGHTS, post(|| async { "sold" }).route_layer(paid));
    let shop = Shop::serving(merchant, app, Counter::default()).await;
    let layer = layer(&world, asset.clone()).await;
    // Without an allowance a transfer is left, which costs gas.
    let (account, url) = (world.buyer().address().to_string(), shop.url(INSIGHTS));
    world.chain.rpc("anvil_setBalance", json!([account, "0x0"])).await.unwrap();
    let error = buy(&layer, ask(&url, &json!({}))).await.unwrap_err();
    let cause = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<PayerError>());
    assert!(matches!(cause, Some(PayerError::Refused(_))), "{by:?}: {error:?}");
    world.chain.rpc("anvil_setBalance", json!([account, "0xde0b6b3a7640000"])).await.unwrap();
    let wallet = wallet(&world).await;
    let approval = wallet.allow_permit2(&asset, units(500_000)).await.unwrap();
    assert_eq!(approval.allowance, units(500_000));
    world.chain.rpc("anvil_setBalance", json!([account, "0x0"])).await.unwrap();
    let got = buy(&layer, ask(&url, &json!({}))).await.unwrap();
    assert_eq!((got.status, got.purchase.unwrap().paid_by), (200, PaymentMethod::Permit), "{by:?}");
    let balance = world.chain.call(coin, &contracts::balance_of(SELLER)).await.unwrap();
    assert_eq!(balance, units(490_000).to_be_bytes(), "{by:?}");
    assert_eq!(wallet.permit2_allowance(&asset).await.unwrap(), units(10_000), "{by:?}: the payment used it up");
    world.chain.rpc("anvil_setBalance", json!([account, "0xde0b6b3a7640000"])).await.unwrap();
    assert_eq!(wallet.allow_permit2(&asset, Amount::ZERO).await.unwrap().allowance, Amount::ZERO);
}

#[tokio::test]
async fn a_token_without_authorizations_is_paid_to_our_own_key_once_the_wallet_has_made_the_allowance() {
    is_paid_once_the_wallet_has_made_the_allowance(By::Wallet).await;
}

#[tokio::test]
async fn a_token_without_authorizations_is_paid_by_the_official_facilitator_once_the_wallet_has_made_the_allowance() {
    is_paid_once_the_wallet_has_made_the_allowance(By::Facilitator).await;
}

/// The payer takes the allowance back while the handler runs: nothing can be settled, so nothing is sold, and the budget counts the maximum,
/// because the permit is still good. Once there is an allowance again, the same permit buys the answer.
async fn a_withdrawn_allowance_costs_nothing(by: By) {
    let Some(world) = World::with(Token::Ours).await else { return };
    let usdc = world.chain.usdc();
    allow(&world, usdc, Amount::MAX).await;
    let (builder, _facilitator) = settling(&world, by).await;
    let merchant = builder.lease(LEASE).build().await.unwrap();
    let paid = merchant.charge_up_to("words", "0.10 USDC").unwrap();
    let (rpc, from, runs) = (world.chain.rpc_url().to_owned(), world.buyer().address(), Counter::default());
    let data = contracts::approve(PERMIT2, Amount::ZERO);
    let data = data.iter().fold("0x".to_owned(), |text, byte| format!("{text}{byte:02x}"));
    let revoke = json!([{"from": from.to_string(), "to": usdc.to_string(), "data": data}]);
    let ran = runs.clone();
    let handler = move || {
        let (rpc, revoke, is_first) = (rpc.clone(), revoke.clone(), ran.run() == 1);
        async move {
            if is_first {
                let sent = asked(&rpc, "eth_sendTransaction", revoke).await;
                while asked(&rpc, "eth_getTransactionReceipt", json!([sent])).await.is_null() {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            "an answer"
        }
    };
    let app = Router::new().route("/words", post(handler).route_layer(paid));
    let shop = Shop::serving(merchant, app, Counter::default()).await;
    let layer = layer(&world, Asset::USDC_BASE).await;
    let url = shop.url("/words");
    // What a facilitator failed at may be mined for all that its seller knows: the client asks again and again, until its caller leaves.
    match tokio::time::timeout(Duration::from_secs(6), buy(&layer, ask(&url, &json!({})))).await {
        Ok(bought) => assert_eq!(bought.unwrap_err().kind(), PayErrorKind::Outstanding, "{by:?}"),
        Err(_) => assert_eq!(by, By::Facilitator),
    }
    assert_eq!((world.balance(SELLER).await, layer.spent()), (0, units(100_000)), "{by:?}: it can still be used");

    allow(&world, usdc, Amount::MAX).await;
    let got = buy(&layer, ask(&url, &json!({}))).await.unwrap();
    assert_eq!((got.status, got.purchase.unwrap().charged), (200, Some(units(100_000))), "{by:?}");
    assert_eq!((world.balance(SELLER).await, layer.spent()), (100_000, units(100_000)), "{by:?}");
    assert_eq!(runs.runs(), 2, "{by:?}");
}

async fn asked(rpc: &str, method: &str, params: Value) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer: Value = crate::served::shop::client().post(rpc).json(&call).send().await.unwrap().json().await.unwrap();
    answer["result"].clone()
}

#[tokio::test]
async fn an_allowance_that_is_withdrawn_before_our_own_key_settles_costs_nothing() {
    a_withdrawn_allowance_costs_nothing(By::Wallet).await;
}

#[tokio::test]
async fn an_allowance_that_is_withdrawn_before_the_official_facilitator_settles_costs_nothing() {
    a_withdrawn_allowance_costs_nothing(By::Facilitator).await;
}
