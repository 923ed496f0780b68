//! hyper-util's client, extended to pay.
//!
//! With `cargo demo` running in another terminal, which prints a key's file and the chain's URL:
//!
//! ```sh
//! export X402_BUYER_KEY=$(cat /tmp/x402-buyer-….key) X402_RPC_URL=http://127.0.0.1:…
//! cargo run --example hyper_client --features client,wallet -- http://127.0.0.1:4020
//! ```
//!
//! It speaks plain HTTP to this machine only: elsewhere anybody on the way could change the recipient of a quote, so
//! the budget declines. For other sellers, give hyper-util a connector with TLS, such as hyper-rustls':
//!
//! ```ignore
//! let https = hyper_rustls::HttpsConnectorBuilder::new().with_webpki_roots().https_only().enable_http1().build();
//! let http: Client<_, Body> = Client::builder(TokioExecutor::new()).build(https);
//! ```

use std::env;

use http::{Request, Response, header::CONTENT_TYPE};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use tower::{Layer as _, ServiceExt as _};
use tower_x402::{
    client::{Body, Budget, FileJournal, PayLayer, Purchase, ResponseBody, WalletPayer},
    protocol::Asset,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// hyper-util's client. It follows no redirects, so a proof of payment reaches the seller only.
type Http = Client<HttpConnector, Body>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shop = env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:4020".to_owned());
    run(&shop, &env::var("X402_BUYER_KEY")?, &env::var("X402_RPC_URL")?).await
}

pub(crate) async fn run(shop: &str, key: &str, rpc_url: &str) -> Result<(), BoxError> {
    let http: Http = Client::builder(TokioExecutor::new()).build_http();
    let client = paying(key, rpc_url).await?.layer(http);

    // Free requests pass through unchanged.
    let free = Request::get(format!("{shop}/developer/analytics-filters")).body(Body::empty())?;
    show(client.clone().oneshot(free).await?).await?;

    // Priced requests are paid within the call. After any failure, the same request continues with the same payment.
    let question = json!({ "query": "What do visitors say about pricing?" }).to_string();
    let question = Request::post(format!("{shop}/demand-insights"))
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(question))?;
    match client.oneshot(question).await {
        Ok(answer) => show(answer).await?,
        Err(error) if error.is_resumable() => println!("paid, and not answered yet: run this again: {error}"),
        Err(error) => println!("not answered: {error}"),
    }
    Ok(())
}

/// Returns a layer that pays from the account of this key.
async fn paying(key: &str, rpc_url: &str) -> Result<PayLayer, BoxError> {
    let wallet = WalletPayer::builder().key(key).endpoint(rpc_url).connect().await?;
    let usdc = Asset::usdc_of(wallet.network()).ok_or("this program knows no USDC on that chain")?;
    let budget = Budget::in_assets([usdc]).per_payment("0.50").per_day("5").build()?;
    let journal = FileJournal::open("x402-purchases.jsonl").await?; // every payment is recorded before it is made
    Ok(PayLayer::builder(wallet, budget, journal).build().await?)
}

/// Reads an answer to its end.
async fn show(answer: Response<ResponseBody<Incoming>>) -> Result<(), BoxError> {
    let (head, body) = answer.into_parts();
    let answer: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
    println!("{} {:.60}…", head.status, answer.to_string());
    if let Some(bought) = head.extensions.get::<Purchase>() {
        println!("paid {} by {}", bought.amount.to_decimal(bought.decimals), bought.paid_by.name());
    }
    Ok(())
}
