//! The flags, each also an environment variable.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use tower_x402::protocol::Address;

use super::{
    book::{RefundArgs, Sales, Span},
    log::Log,
};

/// Sells the answers of an HTTP service in any language: a reverse proxy with prices, paid in USDC.
#[derive(Clone, Debug, Parser)]
#[command(name = "x402-gateway", version)]
pub(crate) struct Args {
    /// The configuration; paths in it are relative to its folder
    #[arg(long, env = "X402_CONFIG", value_name = "FILE", default_value = "gateway.toml", global = true)]
    pub(crate) config: PathBuf,
    /// Check the configuration, print what would be sold, and end; nothing is contacted
    #[arg(long)]
    pub(crate) check: bool,
    /// The format of the log on standard error
    #[arg(long, env = "X402_LOG", value_enum, default_value_t, global = true)]
    pub(crate) log: Log,
    /// The command to run instead of selling
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The commands other than selling.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Command {
    /// Show the sales in the ledger's book
    Sales(Sales),
    /// Record that a payment was given back
    Refund(RefundArgs),
    /// Show the payments that bought nothing, so that they can be given back
    Unredeemed(Span),
    /// Claim what payment channels owe now, even while the gateway runs
    Claim,
    /// Write a commented configuration and its keys; nothing is overwritten
    Init {
        /// The address that is paid
        #[arg(long, value_name = "0x…")]
        recipient: Option<Address>,
    },
    /// Sell one answer of a built-in service on a local chain, buy it, and keep serving
    Demo {
        /// End after the purchase
        #[arg(long)]
        once: bool,
    },
}
