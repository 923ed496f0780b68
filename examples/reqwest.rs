//! An existing `reqwest::Client`, extended to pay.
//!
//! With `cargo demo` running in another terminal, which prints a key's file and the chain's URL:
//!
//! ```sh
//! export X402_BUYER_KEY=$(cat /tmp/x402-buyer-….key) X402_RPC_URL=http://127.0.0.1:…
//! cargo run --example reqwest --features client,wallet,reqwest -- http://127.0.0.1:4020
//! ```
//!
//! The key comes from the environment: every user of the machine could read it on the command line.

use std::{env, time::Duration};

use serde_json::{Value, json};
use tower::Layer as _;
use tower_x402::{
    client::{
        Budget, FileJournal, FollowsNoRedirects, Money, Pay, PayError, PayErrorKind, PayLayer, Purchase, ReqwestClient,
        WalletPayer,
        reqwest::{Client, redirect::Policy},
    },
    protocol::Asset,
};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let shop = env::args().nth(1).unwrap_or_else(|| "http://127.0.0.1:4020".to_owned());
    run(&shop, &env::var("X402_BUYER_KEY")?, &env::var("X402_RPC_URL")?).await
}

pub(crate) async fn run(shop: &str, key: &str, rpc_url: &str) -> Result<(), BoxError> {
    // The existing client. A paying client must not follow redirects: a proof of payment is for the seller only.
    let http = Client::builder().user_agent("my-program/1.0").redirect(Policy::none()).build()?;
    let client = paying(http.clone(), key, rpc_url).await?;

    // Free requests pass through unchanged.
    let filters = client.send(http.get(format!("{shop}/developer/analytics-filters"))).await?;
    println!("GET  {} {:.60}…", filters.status(), filters.text().await?);

    // Priced requests are paid within the call.
    let question = json!({ "query": "What do visitors say about pricing?" });
    match client.send(http.post(format!("{shop}/demand-insights")).json(&question)).await {
        Ok(answer) => {
            let status = answer.status();
            let bought = answer.extensions().get::<Purchase>().cloned();
            if let Some(bought) = bought {
                println!("paid {} by {}", bought.amount.to_decimal(bought.decimals), bought.paid_by.name());
            }
            match answer.json::<Value>().await {
                Ok(answer) => println!("POST {status} {:.60}…", answer["reply"].to_string()),
                // The purchase stays open until the whole answer was read.
                Err(error) => {
                    println!("POST {status}, and not all here; run this again, and nothing more is paid: {error}")
                }
            }
        }
        Err(error) => println!("not answered: {}", advice(&error)),
    }
    Ok(())
}

/// Makes a client pay from the account of this key.
async fn paying(http: Client, key: &str, rpc_url: &str) -> Result<Pay<ReqwestClient>, BoxError> {
    let wallet = WalletPayer::builder().key(key).endpoint(rpc_url).connect().await?;
    let usdc = Asset::usdc_of(wallet.network()).ok_or("this program knows no USDC on that chain")?;
    let budget = Budget::in_assets([usdc]).per_payment("0.50").per_day("5").build()?;
    let journal = FileJournal::open("x402-purchases.jsonl").await?; // every payment is recorded before it is made
    let layer = PayLayer::builder(wallet, budget, journal).body_timeout(Duration::from_secs(60)).build().await?;
    Ok(layer.layer(ReqwestClient::from_client(http, FollowsNoRedirects)?))
}

/// Explains where the money is after an error.
fn advice(error: &PayError) -> String {
    match error.kind() {
        PayErrorKind::Declined => format!("the budget does not allow it: {error}"),
        _ if error.is_resumable() => format!("run this again, and nothing more is paid: {error}"),
        _ if error.money() == Money::Untouched => format!("nothing was paid: {error}"),
        _ => format!("paid, or perhaps paid; ask the seller: {error}"),
    }
}
