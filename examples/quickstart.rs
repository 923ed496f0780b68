//! Sells one answer. Needs the recipient's address, an RPC endpoint of Base, and a key for the quotes:
//!
//! ```sh
//! export X402_RECIPIENT=0x… X402_RPC_URL=https://… X402_KEY=$(openssl rand -hex 32)
//! cargo run --example quickstart --features axum,evm,sqlite
//! ```

use std::{env, error::Error};

use axum::{Json, Router, routing::post};
use serde::Deserialize;
use tower_x402::{Merchant, Receipt, ledger::SqliteLedger, protocol::SealingKeys, verify::EvmVerifier};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let merchant = Merchant::builder(env::var("X402_RECIPIENT")?.parse()?) // who is paid: USDC on Base
        .verifier(EvmVerifier::connect([env::var("X402_RPC_URL")?]).await?) // is it paid?
        .ledger(SqliteLedger::open("ledger.db").await?) // is it spent?
        .sealing_keys(SealingKeys::from_env("X402_KEY")?) // only we can make our quotes
        .build()
        .await?;

    let paid = merchant.charge("demand-insights", "0.49 USDC")?.label("Demand insights")?;
    let app = Router::new().route("/demand-insights", post(insights).route_layer(paid));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:4020").await?;
    Ok(axum::serve(listener, app).await?)
}

#[derive(Deserialize)]
struct Question {
    query: String,
}

/// Runs only for those who paid, once per payment.
async fn insights(receipt: Receipt, Json(question): Json<Question>) -> String {
    format!("# {}\n\nAnswered for {}.\n", question.query, receipt.payer())
}
