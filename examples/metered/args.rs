//! The flags, the same for all commands.

use std::{net::SocketAddr, path::PathBuf};

use clap::{Parser, ValueEnum};
use tower_x402::protocol::Address;

/// Sells words: quote, permit or voucher up to the maximum, answer, charge.
#[derive(Debug, Parser)]
#[command(name = "metered")]
pub(crate) struct Args {
    /// Command, with the flags of the server
    #[arg(value_enum, default_value_t = Task::Serve)]
    pub(crate) task: Task,
    /// Address to listen on
    #[arg(long, env = "X402_LISTEN", value_name = "ADDRESS", default_value = "127.0.0.1:4021")]
    pub(crate) listen: SocketAddr,
    /// Address that is paid
    #[arg(long, env = "X402_RECIPIENT", value_name = "0x…")]
    pub(crate) recipient: Address,
    /// Key that seals quotes: 64 hexadecimal digits, the same for all processes on one ledger
    #[arg(long, env = "X402_KEY", value_name = "HEX", hide_env_values = true)]
    pub(crate) sealing_key: String,
    /// Ethereum JSON-RPC endpoint of Base; repeat it for more than one
    #[arg(
        long,
        env = "X402_RPC_URL",
        value_name = "URL",
        value_delimiter = ',',
        hide_env_values = true,
        required = true
    )]
    pub(crate) rpc_url: Vec<String>,
    /// Where sales are recorded: `memory`, `sqlite:FILE` or `postgres://…`
    #[arg(
        long,
        env = "X402_LEDGER",
        value_name = "memory|sqlite:FILE|URL",
        default_value = "sqlite:metered.db",
        hide_env_values = true
    )]
    pub(crate) ledger: String,
    #[command(flatten)]
    pub(crate) settler: SettlerArgs,
    /// Sell by payment channels as well
    #[arg(long)]
    pub(crate) channels: bool,
    /// File with the private key that signs claims and refunds of channels; without it, the key of --settle-key-file signs them, or the
    /// facilitator
    #[arg(long, env = "X402_RECEIVER_AUTHORIZER_KEY", value_name = "FILE", requires = "channels")]
    pub(crate) receiver_authorizer_key_file: Option<PathBuf>,
}

/// The command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Task {
    /// Sell, and claim what is due
    Serve,
    /// Claim and sweep now what channels owe, even while the server runs
    Claim,
    /// List the channels
    Channels,
}

/// The settler of signed payments.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct SettlerArgs {
    /// File with the private key, 0x and 64 hexadecimal digits, of an account with ether that settles payments itself; each process that
    /// serves needs an account of its own
    #[arg(long, env = "X402_SETTLE_KEY", value_name = "FILE")]
    pub(crate) settle_key_file: Option<PathBuf>,
    /// Facilitator that settles payments: its https URL
    #[arg(long, env = "X402_FACILITATOR", value_name = "URL", hide_env_values = true)]
    pub(crate) facilitator: Option<String>,
}
