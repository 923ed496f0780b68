//! Sells one answer to any x402 client: the client signs a payment, a facilitator settles it and pays the gas. With the address that is paid,
//! an RPC endpoint of Base, a facilitator, and a key for the quotes:
//!
//! ```sh
//! export X402_RECIPIENT=0x… X402_RPC_URL=https://… X402_FACILITATOR_URL=https://… X402_KEY=$(openssl rand -hex 32)
//! cargo run --example x402_clients --features axum,evm,facilitator,sqlite
//! ```
//!
//! An official client buys with a key that owns USDC and no ether:
//!
//! ```js
//! // @x402/fetch, @x402/evm/exact/client, viem/accounts
//! const client = new x402Client().register("eip155:*", new ExactEvmScheme(privateKeyToAccount(key)));
//! const answer = await wrapFetchWithPayment(fetch, client)("http://127.0.0.1:4020/forecast");
//! ```
//!
//! People can still send a transfer with any wallet: the same 402 offers both.

use std::{env, error::Error};

use axum::{Router, routing::get};
use tower_x402::{
    BuildError, Merchant, Receipt, ledger::SqliteLedger, protocol::SealingKeys, settle::FacilitatorSettler,
    verify::EvmVerifier,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let merchant = Merchant::builder(env::var("X402_RECIPIENT")?.parse()?)
        .verifier(EvmVerifier::connect([env::var("X402_RPC_URL")?]).await?)
        .settler(FacilitatorSettler::builder().url(env::var("X402_FACILITATOR_URL")?).build()?) // signatures become transfers
        .public_url("http://127.0.0.1:4020") // how clients reach the service
        .ledger(SqliteLedger::open("ledger.db").await?)
        .sealing_keys(SealingKeys::from_env("X402_KEY")?)
        .build()
        .await?;

    let listener = tokio::net::TcpListener::bind("127.0.0.1:4020").await?;
    Ok(axum::serve(listener, router(&merchant)?).await?)
}

pub(crate) fn router(merchant: &Merchant) -> Result<Router, BuildError> {
    let paid = merchant.charge("forecast", "0.49 USDC")?.label("Tomorrow's weather")?;
    Ok(Router::new().route("/forecast", get(forecast).route_layer(paid)))
}

/// Runs only for those who paid, once per payment.
async fn forecast(receipt: Receipt) -> String {
    format!("# Rain\n\nForecast for {}.\n", receipt.payer())
}
