//! The command line.

use std::path::PathBuf;

use clap::Parser;
use tower_x402::{
    client::PurchaseId,
    protocol::{Address, TxHash},
};

use super::answer;

/// Buys one answer from a service behind tower-x402.
#[derive(Parser)]
pub(crate) struct Args {
    /// Where to POST
    #[arg(required_unless_present_any = ["abandon", "unfinished"])]
    pub(crate) url: Option<http::Uri>,
    /// The JSON document to POST
    #[arg(default_value = "{}")]
    pub(crate) body: String,
    /// File with the private key of the account that pays, 0x and 64 hexadecimal digits [default: the environment
    /// variable X402_BUYER_KEY]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Ethereum JSON-RPC endpoint of the chain that is paid on
    #[arg(long, env = "X402_RPC_URL", hide_env_values = true)]
    pub(crate) rpc_url: Option<String>,
    /// The most that this answer may cost
    #[arg(long, default_value = "1.00")]
    pub(crate) max: String,
    /// The most that may be spent in a day, as far as the journal knows
    #[arg(long, default_value = "10.00")]
    pub(crate) max_per_day: String,
    /// Pay with these token contracts, of six decimals, only (default: the USDC of the chain)
    #[arg(long = "token")]
    pub(crate) tokens: Vec<Address>,
    /// Pay sellers over plain HTTP too, where anybody on the way can change whom a quote pays
    #[arg(long)]
    pub(crate) allow_plain_http: bool,
    /// Where purchases are written down before they are paid
    #[arg(long, default_value = "x402-purchases.jsonl")]
    pub(crate) journal: PathBuf,
    /// How much of an answer is read: a number of bytes, such as 64K or 16M
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = answer::size)]
    pub(crate) max_answer: usize,
    /// Take 64 hexadecimal digits in an argument for something else than a private key
    #[arg(long = "no-key-check")]
    _no_key_check: bool,
    /// Send the proof in the x402-payment header, not in the body
    #[arg(long)]
    pub(crate) header_redeem: bool,
    /// Go on with an unfinished purchase of this very request, and pay nothing new
    #[arg(long)]
    pub(crate) resume: bool,
    /// Pay nothing: redeem this transaction, which was paid by hand
    #[arg(long, value_name = "TX_HASH", conflicts_with = "resume")]
    pub(crate) paid: Option<TxHash>,
    /// Show the purchases that the journal has open, and buy nothing
    #[arg(long, conflicts_with_all = ["resume", "paid"])]
    pub(crate) unfinished: bool,
    /// Give up this open purchase, which cannot be finished: what was paid for it may be lost, and the same request pays
    /// anew. Says so, and does it with --yes only
    #[arg(long, value_name = "PURCHASE", conflicts_with_all = ["resume", "paid", "unfinished"])]
    pub(crate) abandon: Option<PurchaseId>,
    /// With --abandon: do it
    #[arg(long, requires = "abandon")]
    pub(crate) yes: bool,
    /// Write a JSON object with answer and purchase, or with what went wrong
    #[arg(long)]
    pub(crate) json: bool,
}
