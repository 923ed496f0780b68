//! Calls a tool of an MCP server and pays for the call, within a budget. Needs the file of a key that has USDC on
//! Base, and an RPC endpoint:
//!
//! ```sh
//! export X402_BUYER_KEY_FILE=buyer.key X402_RPC_URL=https://…
//! cargo run --example mcp_agent --features client,mcp,wallet -- http://127.0.0.1:4020/mcp reverse '{"text":"hello"}'
//! ```
//!
//! The same command after an interruption finishes the same purchase: the journal remembers it.

use std::{env, error::Error, sync::Arc};

use rmcp::{ServiceExt as _, transport::StreamableHttpClientTransport};
use tower_x402::{
    client::{Budget, FileJournal, PaidTools, PayLayer, WalletPayer},
    protocol::Asset,
};

type BoxError = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let [url, tool, arguments] = [1, 2, 3].map(|index| env::args().nth(index).ok_or("a URL, a tool and its arguments"));
    let wallet = WalletPayer::builder().key_file(env::var("X402_BUYER_KEY_FILE")?).endpoint(&env::var("X402_RPC_URL")?);
    let wallet = wallet.connect().await?;
    println!("{}", call(wallet, &url?, &tool?, &arguments?, "purchases.jsonl").await?);
    Ok(())
}

/// Calls the tool, and pays at most half a dollar for it.
pub(crate) async fn call(
    wallet: WalletPayer,
    url: &str,
    tool: &str,
    arguments: &str,
    journal: &str,
) -> Result<String, BoxError> {
    let budget = Budget::in_assets([Asset::USDC_BASE]).per_payment("0.50").per_day("10").build()?;
    let layer = PayLayer::builder(wallet, budget, FileJournal::open(journal).await?).build().await?;
    let session = Arc::new(().serve(StreamableHttpClientTransport::from_uri(url)).await?);
    let tools = PaidTools::new(&layer, url, move |params| {
        let session = Arc::clone(&session);
        async move { Ok(serde_json::to_value(session.call_tool(serde_json::from_value(params)?).await?)?) }
    })?;
    let called = tools.call(tool, serde_json::from_str(arguments)?).await?;
    let price =
        called.purchase.map_or_else(|| "nothing".to_owned(), |bought| bought.amount.to_decimal(bought.decimals));
    Ok(format!("{}\npaid: {price}", called.result["content"]))
}
