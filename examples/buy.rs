//! Buys one answer: `cargo run --example buy --features full -- URL BODY --key 0x… --rpc-url …`.
//!
//! The answer goes to standard output, the steps to standard error.

#[path = "datasets/purchase.rs"]
mod purchase;
#[path = "datasets/wallet.rs"]
mod wallet;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use alloy::primitives::{Address, B256};
use clap::Parser;

use purchase::{Asked, Order};
use wallet::{BoxError, Wallet};

/// Buys one answer from a service behind tower-x402.
#[derive(Parser)]
struct Args {
    /// Where to POST
    url: String,
    /// The JSON document to POST
    #[arg(default_value = "{}")]
    body: String,
    /// Private key of the account that pays, as 0x and 64 hexadecimal digits
    #[arg(long, env = "X402_BUYER_KEY", hide_env_values = true)]
    key: Option<String>,
    /// Ethereum JSON-RPC endpoint of the chain that is paid on
    #[arg(long, env = "X402_RPC_URL", hide_env_values = true)]
    rpc_url: Option<String>,
    /// The most that may be paid
    #[arg(long, default_value = "1.00")]
    max: String,
    /// Pay only with these token contracts (default: the USDC of the chain)
    #[arg(long = "token")]
    tokens: Vec<Address>,
    /// Pay nothing: redeem this transaction, which was paid earlier
    #[arg(long, value_name = "TX_HASH")]
    paid: Option<B256>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let answer = run(Args::parse()).await;
    match answer.and_then(|answer| Ok(writeln!(io::stdout(), "{answer}")?)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> Result<String, BoxError> {
    let order = Order { url: args.url, body: args.body, max: args.max, tokens: args.tokens };
    if let Some(transaction) = args.paid {
        return redeem_paid(&order, transaction).await;
    }
    let key = args.key.ok_or("name the account that pays with --key or X402_BUYER_KEY")?;
    let rpc_url = args.rpc_url.ok_or("name a JSON-RPC endpoint with --rpc-url or X402_RPC_URL")?;
    purchase::buy(&order, &Wallet::new(&key, &rpc_url)?).await
}

/// Redeems a payment that was made earlier: asks for an intent only, and pays nothing.
async fn redeem_paid(order: &Order, transaction: B256) -> Result<String, BoxError> {
    let http = purchase::client()?;
    match purchase::ask(&http, order).await? {
        Asked::Answered(answer) => Ok(answer),
        Asked::Quoted(quote) => purchase::redeem(&http, order, &quote, transaction).await,
    }
}
