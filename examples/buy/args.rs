//! The command line.

use std::path::PathBuf;

use clap::{Args as Group, Parser, Subcommand};
use tower_x402::{
    client::PurchaseId,
    protocol::{Address, TxHash, channel::ChannelId},
};

use super::{answer, dialect::Dialect, order::Method};

/// Buys one answer: from a service behind tower-x402, or from any seller of the x402 standard.
#[derive(Parser)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) buying: Buying,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Shows the journal's purchases: when, where, for how much, and their outcome
    History(History),
    /// Finishes every open purchase of the journal, and pays nothing new
    Resume(Resume),
    /// Voids the signed payment of an open purchase on the chain
    Cancel(Cancel),
    /// Allows Permit2 to move a token of the account, to pay metered answers; an amount of 0 revokes
    Allow(Allow),
    /// Lists the held passes with what is left of them, never their tokens
    Passes(Passes),
    /// Lists the payment channels of the journal: what was deposited, spent, and is left
    Channels(Channels),
    /// Closes a payment channel: its seller gives back what is left
    Close(Close),
}

/// The flags for one answer.
#[derive(Group)]
pub(crate) struct Buying {
    /// The URL to ask: it begins with https://, or with http:// on this machine
    #[arg(required_unless_present_any = ["abandon", "unfinished"])]
    pub(crate) url: Option<http::Uri>,
    /// The JSON document to POST [default: {}]
    pub(crate) body: Option<String>,
    /// The method of the request. A GET has no BODY
    #[arg(long, value_enum, ignore_case = true, default_value_t)]
    pub(crate) method: Method,
    #[command(flatten)]
    pub(crate) means: Means,
    #[command(flatten)]
    pub(crate) journal: Journal,
    #[command(flatten)]
    pub(crate) reading: Reading,
    /// Show the seller's pass of this name. If no pass of that seller is held and its quote names this one, buy it.
    /// Passes are stored in <JOURNAL>.passes.json. A pass may cost more than one answer: see --max
    #[arg(long, value_name = "NAME", conflicts_with_all = ["paid", "again"])]
    pub(crate) pass: Option<String>,
    /// Continue an unfinished purchase of this very request, and pay nothing new
    #[arg(long)]
    pub(crate) resume: bool,
    /// Pay nothing: redeem this transaction, which was sent by hand
    #[arg(long, value_name = "TX_HASH", conflicts_with_all = ["resume", "again"])]
    pub(crate) paid: Option<TxHash>,
    /// Ask again for the answer of this finished purchase, and pay nothing: a seller that stores its answers sends it
    /// again
    #[arg(long, value_name = "PURCHASE", conflicts_with = "resume")]
    pub(crate) again: Option<PurchaseId>,
    /// Show the open purchases of the journal, and buy nothing
    #[arg(long, conflicts_with_all = ["resume", "paid"])]
    pub(crate) unfinished: bool,
    /// Give up this open purchase, which cannot be finished: its payment may be lost, and the same request pays
    /// again. Explains this, and acts with --yes only
    #[arg(long, value_name = "PURCHASE", conflicts_with_all = ["resume", "paid", "unfinished"])]
    pub(crate) abandon: Option<PurchaseId>,
    /// Confirm --abandon
    #[arg(long, requires = "abandon")]
    pub(crate) yes: bool,
}

/// The key that pays.
#[derive(Group)]
pub(crate) struct PayerKey {
    /// File with the private key of the account that pays, 0x and 64 hexadecimal digits [default: the environment
    /// variable X402_BUYER_KEY]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Keystore (Web3 Secret Storage, JSON) with that key under a password
    #[arg(long, value_name = "FILE", conflicts_with = "key_file")]
    pub(crate) keystore: Option<PathBuf>,
    /// File with the keystore's password [default: the environment variable X402_KEYSTORE_PASSWORD]
    #[arg(long, value_name = "FILE", requires = "keystore")]
    pub(crate) password_file: Option<PathBuf>,
    /// Accept 64 hexadecimal digits in an argument as something other than a private key
    #[arg(long = "no-key-check")]
    _no_key_check: bool,
}

/// The payer, the way of paying, and the limits.
#[derive(Group)]
pub(crate) struct Means {
    #[command(flatten)]
    pub(crate) payer: PayerKey,
    /// Ethereum JSON-RPC endpoint of a chain to pay on; repeat it for more endpoints, and for more chains
    #[arg(long, env = "X402_RPC_URL", value_name = "URL", value_delimiter = ',', hide_env_values = true)]
    pub(crate) rpc_url: Vec<String>,
    /// How to pay
    #[arg(long, value_enum, default_value_t)]
    pub(crate) dialect: Dialect,
    /// The maximum price of one answer
    #[arg(long, default_value = "1.00")]
    pub(crate) max: String,
    /// The maximum of a single deposit into a payment channel [default: what one answer may cost]
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) max_deposit: Option<String>,
    /// The longest time that a seller may keep a deposit without giving an answer, in hours
    #[arg(long, value_name = "HOURS", default_value_t = 24)]
    pub(crate) max_withdraw_delay: u32,
    /// The maximum to spend in a day, as far as the journal knows
    #[arg(long, default_value = "10.00")]
    pub(crate) max_per_day: String,
    /// The maximum network fee of one transfer, in the chain's coin
    #[arg(long, default_value = "0.0002")]
    pub(crate) max_gas: String,
    /// The maximum of network fees in a day, in the chain's coin
    #[arg(long, default_value = "0.002")]
    pub(crate) max_gas_per_day: String,
    /// Pay with these token contracts, of six decimals, only (default: the USDC of each chain)
    #[arg(long = "token")]
    pub(crate) tokens: Vec<Address>,
    /// Pay sellers over plain HTTP too, where anybody on the way can change a quote's recipient
    #[arg(long)]
    pub(crate) allow_plain_http: bool,
}

#[derive(Group)]
pub(crate) struct Journal {
    /// File that records purchases before they are paid. Beside it, <JOURNAL>.requests.jsonl stores the requests of
    /// the open ones
    #[arg(long, value_name = "JOURNAL", default_value = "x402-purchases.jsonl")]
    pub(crate) journal: PathBuf,
}

/// The handling of answers.
#[derive(Group)]
pub(crate) struct Reading {
    /// The maximum size of an answer: a number of bytes, such as 64K or 16M
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = answer::size)]
    pub(crate) max_answer: usize,
    /// The time limit for the purchase and reading its answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1_800)]
    pub(crate) timeout: u64,
    /// Send the proof of a transfer in the x402-payment header, not in the body
    #[arg(long)]
    pub(crate) header_redeem: bool,
    /// Write a JSON object with answer and purchase, or with the error
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Group)]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) journal: Journal,
    /// Write a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Group)]
pub(crate) struct Passes {
    #[command(flatten)]
    pub(crate) journal: Journal,
    /// Write a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Group)]
pub(crate) struct Channels {
    /// Also show the chain's state, read from this Ethereum JSON-RPC endpoint; repeat it for more endpoints, and for
    /// more chains
    #[arg(long, env = "X402_RPC_URL", value_name = "URL", value_delimiter = ',', hide_env_values = true)]
    pub(crate) rpc_url: Vec<String>,
    #[command(flatten)]
    pub(crate) journal: Journal,
    /// Write a JSON array
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Group)]
pub(crate) struct Close {
    /// The channel's id in `buy channels` [default: the only one]
    pub(crate) channel: Option<ChannelId>,
    /// Close without the seller: by two transactions of the account, which cost gas, with the channel's delay between
    /// them. The first run begins, and the same command ends it after the delay
    #[arg(long)]
    pub(crate) withdraw: bool,
    #[command(flatten)]
    pub(crate) means: Means,
    #[command(flatten)]
    pub(crate) journal: Journal,
}

#[derive(Group)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) means: Means,
    #[command(flatten)]
    pub(crate) journal: Journal,
    #[command(flatten)]
    pub(crate) reading: Reading,
}

#[derive(Group)]
pub(crate) struct Cancel {
    /// The purchase's id in `buy history`
    pub(crate) purchase: PurchaseId,
    /// Confirm: the transaction costs the account gas
    #[arg(long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) means: Means,
    #[command(flatten)]
    pub(crate) journal: Journal,
}

#[derive(Group)]
pub(crate) struct Allow {
    /// The token: USDC, or the address of a contract of six decimals
    #[arg(long, value_name = "SYMBOL_OR_ADDRESS")]
    pub(crate) token: String,
    /// The total that Permit2 may move, such as 5.00. It replaces the earlier allowance
    #[arg(long)]
    pub(crate) amount: String,
    #[command(flatten)]
    pub(crate) payer: PayerKey,
    /// Ethereum JSON-RPC endpoint of the chain; repeat it for more endpoints
    #[arg(long, env = "X402_RPC_URL", value_name = "URL", value_delimiter = ',', hide_env_values = true)]
    pub(crate) rpc_url: Vec<String>,
}
