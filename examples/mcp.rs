//! Sells a tool of an MCP server, call by call. Needs the recipient's address, an RPC endpoint of Base, the file with
//! the key that pays the gas of settlements, and a key for the quotes:
//!
//! ```sh
//! export X402_RECIPIENT=0x… X402_RPC_URL=https://… X402_SETTLE_KEY=settle.key X402_KEY=$(openssl rand -hex 32)
//! cargo run --example mcp --features evm,mcp,sqlite,wallet
//! ```
//!
//! The server is rmcp's. The layer wraps it and knows nothing about it: any other server works too.

use std::{env, error::Error};

use axum::Router;
use rmcp::{
    ServerHandler,
    handler::server::wrapper::Parameters,
    schemars, tool, tool_handler, tool_router,
    transport::streamable_http_server::{StreamableHttpService, session::local::LocalSessionManager},
};
use tokio::net::TcpListener;
use tower::Layer as _;
use tower_x402::{
    BuildError, Merchant, Redelivery, ledger::SqliteLedger, protocol::SealingKeys, settle::WalletSettler,
    verify::EvmVerifier,
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let rpc_url = env::var("X402_RPC_URL")?;
    let settler = WalletSettler::builder().key_file(env::var("X402_SETTLE_KEY")?).endpoint(&rpc_url).connect().await?;
    let merchant = Merchant::builder(env::var("X402_RECIPIENT")?.parse()?)
        .verifier(EvmVerifier::connect([rpc_url]).await?)
        .settler(settler)
        .ledger(SqliteLedger::open("ledger.db").await?)
        .sealing_keys(SealingKeys::from_env("X402_KEY")?)
        .build()
        .await?;
    let listener = TcpListener::bind("127.0.0.1:4020").await?;
    Ok(axum::serve(listener, router(&merchant)?).await?)
}

pub(crate) fn router(merchant: &Merchant) -> Result<Router, BuildError> {
    let paid = merchant.tools().charge("reverse", "0.01 USDC")?.label("reverse", "A text, from its end")?;
    let server = StreamableHttpService::new(|| Ok(Texts), LocalSessionManager::default().into(), Default::default());
    Ok(Router::new().route_service("/mcp", paid.redeliver(Redelivery::default()).layer(server)))
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Text {
    text: String,
}

#[derive(Clone)]
struct Texts;

#[tool_router]
impl Texts {
    #[tool(description = "Reverses a text")]
    async fn reverse(&self, Parameters(Text { text }): Parameters<Text>) -> String {
        text.chars().rev().collect()
    }

    #[tool(description = "Counts the characters of a text, for free")]
    async fn count(&self, Parameters(Text { text }): Parameters<Text>) -> String {
        text.chars().count().to_string()
    }
}

#[tool_handler]
impl ServerHandler for Texts {}
