//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Buys several answers within a budget, and says what each one cost.
#[derive(Parser)]
pub(crate) struct Args {
    /// The shop that gets the default questions
    #[arg(default_value = "http://127.0.0.1:4020")]
    pub(crate) shop: String,
    /// Ask these questions instead: a file with one request a line, such as `GET https://…` or `POST https://…
    /// {"query":"…"}`
    #[arg(long, value_name = "FILE")]
    pub(crate) list: Option<PathBuf>,
    /// File with the private key of the account that pays [default: the environment variable X402_BUYER_KEY]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Ethereum JSON-RPC endpoint of the chain to pay on
    #[arg(long, env = "X402_RPC_URL", hide_env_values = true)]
    pub(crate) rpc_url: String,
    /// The maximum to spend in a day, as far as the journal knows
    #[arg(long, default_value = "2.00")]
    pub(crate) budget: String,
    /// The maximum price of one answer
    #[arg(long, default_value = "0.60")]
    pub(crate) max: String,
    /// Ask on the terminal before each payment
    #[arg(long)]
    pub(crate) ask: bool,
    /// File that records purchases before they are paid
    #[arg(long, default_value = "x402-purchases.jsonl")]
    pub(crate) journal: PathBuf,
}
