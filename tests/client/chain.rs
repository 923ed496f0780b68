//! On a real chain, over real HTTP: the datasets service, bought from through reqwest and through hyper.

use std::{sync::Arc, time::Duration};

use http::{Request, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use hyper_util::{client::legacy, rt::TokioExecutor};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::{Layer, Service, ServiceExt as _};
use tower_x402::{
    client::{
        Body, Budget, FileJournal, Journal as _, MemoryJournal, Pay, PayError, PayLayer, ProofIn, Purchase,
        PurchaseState, ReqwestClient, WalletPayer,
    },
    protocol::Asset,
};

use crate::served::{
    datasets::open_with,
    market::{Market, PRICE, SELLER, usdc},
    shop::{CONVERSIONS, GOALS, INSIGHTS, serve},
};

/// The market's tenth account, which nobody else pays from.
async fn wallet(market: &Market) -> WalletPayer {
    let account = &market.chain.accounts()[9];
    WalletPayer::builder().key(account.private_key()).endpoint(market.chain.rpc_url()).connect().await.unwrap()
}

fn budget() -> Budget {
    let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("0.49").per_day("100").recipients([SELLER]);
    // On a chain whose gas is dear.
    budget.gas_per_day("0.1").build().unwrap()
}

/// Mines a block every little while, until it is dropped.
struct Miner(tokio::task::JoinHandle<()>);

impl Miner {
    fn start(market: &Arc<Market>) -> Self {
        let market = Arc::clone(market);
        Self(tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(200)).await;
                market.block().await;
            }
        }))
    }
}

impl Drop for Miner {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn order(url: &str, body: &Value) -> Request<Body> {
    Request::post(url).header(CONTENT_TYPE, "application/json").body(Body::from(body.to_string())).unwrap()
}

/// One answer from each endpoint.
async fn buy_each<S, R>(client: Pay<S>, url: impl Fn(&str) -> String)
where
    Pay<S>: Service<Request<Body>, Response = http::Response<R>, Error = PayError> + Clone,
    R: http_body::Body<Data = bytes::Bytes>,
    R::Error: std::fmt::Debug,
{
    let orders = [
        (INSIGHTS, json!({ "query": "What do visitors ask about pricing?" }), "reply"),
        (GOALS, json!({ "query": "Who wants to automate support?" }), "datasetCount"),
        (CONVERSIONS, json!({ "filters": { "aggregate": "agent", "country": "Germany" } }), "stats"),
    ];
    for (path, body, member) in orders {
        let response = client.clone().oneshot(order(&url(path), &body)).await.unwrap();
        assert_eq!(response.status(), 200);
        let purchase = response.extensions().get::<Purchase>().unwrap().clone();
        assert_eq!((purchase.state, purchase.confirmed, purchase.sent), (PurchaseState::Answered, true, 1));
        assert_eq!((purchase.amount, purchase.recipient), (usdc(PRICE), SELLER));
        assert!(purchase.timings.confirm > Duration::ZERO);
        let answer: Value = serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap();
        assert!(!answer[member].is_null(), "{answer}");
    }
}

#[tokio::test]
async fn through_reqwest_the_three_endpoints_are_bought_from() {
    let market = Arc::new(Market::new().await);
    let shop = open_with(market.merchant().await).await;
    let _miner = Miner::start(&market);
    let layer = PayLayer::builder(wallet(&market).await, budget(), MemoryJournal::new())
        .clock(market.clock.clone())
        .proof_in(ProofIn::Body)
        .build()
        .await
        .unwrap();
    let client = layer.layer(ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap());
    buy_each(client, |path| shop.url(path)).await;
    assert_eq!(market.takings().await, 3 * PRICE);
}

#[tokio::test]
async fn through_hyper_the_three_endpoints_are_bought_from() {
    let market = Arc::new(Market::new().await);
    let shop = open_with(market.merchant().await).await;
    let _miner = Miner::start(&market);
    let layer = PayLayer::builder(wallet(&market).await, budget(), MemoryJournal::new())
        .clock(market.clock.clone())
        .build()
        .await
        .unwrap();
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new()).build_http();
    buy_each(layer.layer(http), |path| shop.url(path)).await;
    assert_eq!(market.takings().await, 3 * PRICE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_at_once_from_one_wallet_are_fifty_transfers_and_fifty_answers() {
    let market = Arc::new(Market::new().await);
    let shop = open_with(market.merchant().await).await;
    let _miner = Miner::start(&market);
    let folder = tempfile::tempdir().unwrap();
    let journal = FileJournal::open(folder.path().join("purchases.jsonl")).await.unwrap();
    let layer = PayLayer::builder(wallet(&market).await, budget(), journal.clone())
        .clock(market.clock.clone())
        .poll_every(Duration::from_millis(300))
        .build()
        .await
        .unwrap();
    let client = layer.layer(ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap());

    let mut buyers = JoinSet::new();
    for number in 0..50 {
        // Every fifth asks the same as another: at once they are purchases of their own.
        let question = json!({ "query": format!("What about pricing, {}?", number % 40) });
        let asked = client.clone().oneshot(order(&shop.url(INSIGHTS), &question));
        buyers.spawn(async move {
            let response = asked.await.unwrap();
            assert_eq!(response.status(), 200);
            let paid = response.extensions().get::<Purchase>().unwrap().transaction;
            response.into_body().collect().await.unwrap();
            paid
        });
    }
    let mut paid = std::collections::BTreeSet::new();
    while let Some(bought) = buyers.join_next().await {
        paid.insert(bought.unwrap());
    }
    assert_eq!(paid.len(), 50);
    assert_eq!(market.takings().await, 50 * PRICE);
    let entries = journal.load().await.unwrap();
    assert!(entries.len() == 50 && entries.iter().all(|entry| entry.state == PurchaseState::Answered));
}

#[tokio::test]
async fn reqwest_carries_a_proof_to_nobody_else() {
    use axum::{Router, routing::any};
    let strangers = crate::support::Counter::default();
    let stranger = {
        let strangers = strangers.clone();
        serve(Router::new().fallback(any(async move || strangers.run().to_string()))).await
    };
    let to = [(http::header::LOCATION, format!("{stranger}/answer"))];
    let seller = serve(Router::new().fallback(any(async move || (http::StatusCode::TEMPORARY_REDIRECT, to)))).await;

    let client = ReqwestClient::new(reqwest::Client::builder().no_proxy()).unwrap();
    let mut proven = order(&seller, &json!({}));
    proven.headers_mut().insert("x402-payment", "a proof".parse().unwrap());
    let response = client.oneshot(proven).await.unwrap();
    assert_eq!((response.status().as_u16(), strangers.runs()), (307, 0));
}
