//! The small examples over real HTTP, on a scripted chain: each sells its answer, once.

#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/download.rs"]
pub mod download;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/hyper.rs"]
mod hyper_example;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/marketplace.rs"]
mod marketplace;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/sse.rs"]
mod sse;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tower_x402::{
    Merchant,
    protocol::{Address, Amount, Asset, ChainTime, Quote, SealingKeys, TxHash},
};

use super::shop::{client, serve};
use crate::support::{KEY, NOW, Shop, payer};

fn pay(shop: &Shop, quote: &Quote) -> TxHash {
    let (token, now) = (Asset::USDC_BASE.contract(), ChainTime::from_unix(NOW));
    shop.chain.pay(quote.recipient, token, payer(), quote.amount, now)
}

async fn quoted(url: &str, body: &Value) -> Quote {
    let answer = client().post(url).json(body).send().await.unwrap();
    assert_eq!(answer.status(), 402);
    Quote::from_headers(answer.headers()).unwrap()
}

async fn shown(url: &str, body: &Value, quote: &Quote, tx: TxHash) -> reqwest::Response {
    let proof = json!({ "intentId": quote.intent.as_str(), "txHash": tx }).to_string();
    client().post(url).json(body).header("x402-payment", proof).send().await.unwrap()
}

/// The answer to that body, which is sold no second time.
async fn bought(shop: &Shop, url: &str, body: Value) -> String {
    let quote = quoted(url, &body).await;
    let tx = pay(shop, &quote);
    let answer = shown(url, &body, &quote, tx).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.headers().contains_key("payment-response"));
    let text = answer.text().await.unwrap();
    assert_eq!(shown(url, &body, &quote, tx).await.status(), 409);
    text
}

#[tokio::test]
async fn hyper() {
    let shop = Shop::open().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let merchant = shop.merchant.clone();
    let server = tokio::spawn(async move { hyper_example::serve(listener, &merchant).await.is_ok() });
    let answer = bought(&shop, &url, json!({})).await;
    assert_eq!(answer, format!("Hello {}.\n", payer()));
    server.abort();
}

#[tokio::test]
async fn sse_is_sold_at_its_head() {
    let shop = Shop::open().await;
    let url = serve(sse::router(&shop.merchant).unwrap()).await + "/story";
    let told = bought(&shop, &url, json!({ "topic": "payments" })).await;
    let tokens: Vec<_> = told.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(tokens.concat(), "Once upon a time there was somebody who knew all about payments.[DONE]");

    // What fails before its head costs nothing.
    let wish = json!({ "topic": "tea" });
    let quote = quoted(&url, &wish).await;
    let tx = pay(&shop, &quote);
    assert_eq!(shown(&url, &json!({ "topic": " " }), &quote, tx).await.status(), 422);
    // Who hangs up after the head has bought.
    let mut answer = shown(&url, &wish, &quote, tx).await;
    assert_eq!(
        (answer.status(), &answer.headers()["content-type"]),
        (reqwest::StatusCode::OK, &"text/event-stream".parse().unwrap())
    );
    assert!(answer.chunk().await.unwrap().is_some());
    drop(answer);
    assert_eq!(shown(&url, &wish, &quote, tx).await.status(), 409);
}

#[tokio::test]
async fn each_tenant_of_the_marketplace_is_paid_at_its_price() {
    let shop = Shop::open().await;
    let (alice, bob) = (Address::new([0xa1; 20]), Address::new([0xb0; 20]));
    let tenants = [("alice", alice, "0.10"), ("bob", bob, "0.25"), ("carol", alice, "0.10")];
    let listed = tenants.map(|(name, recipient, price)| format!("{name}={recipient}:{price}").parse().unwrap());
    let builder = |recipient| {
        Merchant::builder(recipient)
            .hold_unbound(Duration::ZERO)
            .verifier(shop.chain.clone())
            .ledger(Arc::clone(&shop.ledger))
            .clock(shop.clock.clone())
            .sealing_keys(SealingKeys::new(KEY))
    };
    let url = serve(marketplace::market(&listed, builder).await.unwrap()).await;
    for (name, recipient, price) in tenants {
        let url = format!("{url}/{name}/answer");
        let quote = quoted(&url, &json!({})).await;
        let amount = Amount::parse_decimal(price, 6).unwrap();
        assert_eq!((quote.recipient, quote.amount), (recipient, amount), "{name}");
        assert_eq!(bought(&shop, &url, json!({})).await, format!("{name} answers {}.\n", payer()));
    }
    // Of one recipient and one price, and still not the same shop.
    let quote = quoted(&format!("{url}/alice/answer"), &json!({})).await;
    let elsewhere = shown(&format!("{url}/carol/answer"), &json!({}), &quote, pay(&shop, &quote)).await;
    assert_eq!(
        (elsewhere.status(), &elsewhere.headers()["x402-error"]),
        (reqwest::StatusCode::NOT_FOUND, &"intent_not_found".parse().unwrap())
    );
    assert_eq!(client().post(format!("{url}/nobody/answer")).send().await.unwrap().status(), 404);
    for wrong in ["", "dave", "dave=0x12:1", "dave=alice"] {
        assert!(wrong.parse::<marketplace::Tenant>().is_err(), "{wrong}");
    }
}
