//! A ledger that begins anew, by a node that is behind the one that showed what was sold before.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use axum::{Json, Router, extract::State, routing::post};
use serde_json::{Value, json};
use tokio::time::timeout;
use tower_x402::{
    BuildError, HealthError,
    clock::Clock as _,
    ledger::{Ledger as _, Maintenance as _},
    protocol::{ChainTime, Network},
};

use super::{
    market::{Market, PRICE},
    shop::{INSIGHTS, Shop, client, serve},
};

/// A node that is so many blocks behind.
#[derive(Clone)]
struct Behind {
    chain: String,
    blocks: Arc<AtomicU64>,
    http: reqwest::Client,
}

impl Behind {
    async fn node(market: &Market, blocks: u64) -> (String, Self) {
        let chain = market.chain.rpc_url().to_owned();
        let node = Self { chain, blocks: Arc::new(AtomicU64::new(blocks)), http: client() };
        (serve(Router::new().fallback(post(answer)).with_state(node.clone())).await, node)
    }

    fn catches_up(&self) {
        self.blocks.store(0, Ordering::SeqCst);
    }

    async fn ask(&self, question: &Value) -> Value {
        self.http.post(&self.chain).json(question).send().await.unwrap().json().await.unwrap()
    }
}

async fn answer(State(node): State<Behind>, Json(mut question): Json<Value>) -> Json<Value> {
    if question["params"][0] == "latest" {
        let height = node.ask(&json!({"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []})).await;
        let height = u64::from_str_radix(height["result"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
        question["params"][0] = json!(format!("{:#x}", height - node.blocks.load(Ordering::SeqCst)));
    }
    Json(node.ask(&question).await)
}

#[tokio::test]
async fn what_was_sold_before_a_restart_is_not_sold_again_by_a_node_that_lags() {
    let market = Market::new().await;
    let before = Shop::open(market.merchant().await).await;
    let sold = market.pay(PRICE).await;
    before.buy_with(sold).await.sold();

    let (url, node) = Behind::node(&market, 1).await;
    let ledger = market.ledger();
    let verifier = market.verifier_at(&url).connect().await.unwrap();
    let opening = Shop::open(market.merchant().await.verifier(verifier).ledger(ledger.clone()));
    let mut opening = Box::pin(opening);
    assert!(timeout(Duration::from_millis(700), &mut opening).await.is_err(), "it waits for the node");
    assert_eq!(ledger.low_water_mark(Network::BASE).await.unwrap().map(ChainTime::unix), Some(market.clock.unix()));

    node.catches_up();
    market.clock.advance(Duration::from_secs(2));
    let shop = opening.await;
    shop.buy_with(sold).await.refused("payment_too_old");
    assert_eq!(shop.runs(), 0);
    // Whoever pays for a quote of the new shop pays in a block that counts, and be it the next.
    let intent = shop.intent(INSIGHTS).await;
    shop.redeem(INSIGHTS, &intent, market.pay(PRICE).await).await.sold();
}

#[tokio::test]
async fn nobody_is_quoted_a_price_whose_payment_could_be_refused() {
    let market = Market::new().await;
    let (now, ledger) = (market.now().await, market.ledger());
    ledger.begin(Network::BASE, ChainTime::from_unix(now + 4)).await.unwrap();
    let shop = Shop::open(market.merchant().await.ledger(ledger).start_lazily()).await;
    for seconds in [4, 2] {
        let answer = shop.post(INSIGHTS, &json!({ "query": "why" })).await;
        assert_eq!((answer.status, answer.code()), (503, "verification_unavailable"), "{}", answer.body);
        assert!(answer.headers.contains_key("retry-after"));
        assert_eq!(shop.merchant.health().await, Err(HealthError::HeadBehindMark { by: Duration::from_secs(seconds) }));
        market.block().await;
    }
    assert_eq!(shop.merchant.health().await, Ok(()));
    let intent = shop.intent(INSIGHTS).await;
    shop.redeem(INSIGHTS, &intent, market.pay(PRICE).await).await.sold();
}

#[tokio::test]
async fn a_mark_that_is_far_off_is_told_at_once() {
    let market = Market::new().await;
    let (now, ledger) = (market.now().await, market.ledger());
    ledger.begin(Network::BASE, ChainTime::from_unix(now + 31)).await.unwrap();
    let opened = timeout(Duration::from_secs(10), market.merchant().await.ledger(ledger).build()).await;
    let error = opened.expect("at once").unwrap_err();
    assert!(matches!(error, BuildError::Health(HealthError::HeadBehindMark { by }) if by.as_secs() == 31), "{error}");
    assert!(error.to_string().contains("31 s") && error.to_string().contains("clock"), "{error}");
}
