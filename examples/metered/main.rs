//! Sells words by the word: a request allows a maximum, the handler states the cost of its answer, and only that is
//! charged. Needs the recipient's address, an RPC endpoint of Base, a key for the quotes, and a file with the key of
//! an account that has ether for gas:
//!
//! ```sh
//! export X402_KEY=$(openssl rand -hex 32)
//! cargo run --example metered --features axum,evm,facilitator,sqlite,wallet -- --recipient 0x… --rpc-url https://… \
//!     --ledger sqlite:metered.db --settle-key-file gas.key
//! curl -i -H 'content-type: application/json' -d '{"prompt":"to be or not to be","words":20}' 127.0.0.1:4021/words
//! ```
//!
//! `POST /words` with `{"prompt":"…","words":N}`, where N is 1 to 1,000, asks for at most N × 0.001 USDC. The answer has N words, or twice
//! those of the prompt if that is less, and costs 0.001 USDC for each. The prompt `fail` fails, and costs nothing.
//!
//! With `--channels` it also sells by payment channels: a payer deposits once, and signs a voucher for each answer.
//! The key in `--receiver-authorizer-key-file` signs claims and refunds, or else the settling key. The server claims
//! what is due. With the same flags, `metered claim` claims and sweeps everything now, even while the server runs,
//! and `metered channels` lists the channels: what each was charged, what is claimed and open, and what its payer is
//! withdrawing.

pub(crate) mod args;
pub(crate) mod channels;
pub(crate) mod merchant;
mod words;

use std::{error::Error, process::ExitCode};

use args::{Args, Task};
use clap::Parser;
use tokio::net::TcpListener;
use tower_x402::Merchant;
pub(crate) use words::router;

/// Why the program fails.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("metered: {error}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) async fn run(args: &Args) -> Result<(), Failure> {
    let merchant = merchant::merchant(args).await?;
    match args.task {
        Task::Serve => serve(&merchant, args).await,
        Task::Claim => channels::claim(&merchant).await,
        Task::Channels => {
            println!("{}", channels::list(&merchant).await?);
            Ok(())
        }
    }
}

async fn serve(merchant: &Merchant, args: &Args) -> Result<(), Failure> {
    if args.channels {
        // Without this task, sales by channels are never claimed.
        tokio::spawn(merchant.claimer().run());
    }
    let listener = TcpListener::bind(args.listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, router(merchant, args.channels)?).await?)
}
