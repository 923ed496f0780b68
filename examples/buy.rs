//! Buys answers, from a service behind tower-x402 or from any seller of the x402 standard:
//! `cargo run --example buy --features client,wallet,reqwest -- URL BODY --key-file FILE --rpc-url …`, or `… -- URL --method GET …`.
//!
//! The key of the account that pays is in that file, in the environment variable `X402_BUYER_KEY`, or in a keystore
//! (`--keystore`), and never on the command line, which every user of the machine can read.
//!
//! `--dialect` chooses how to pay: by a signed authorization, by the same in the form of MPP (`mpp`), by a transfer,
//! by a payment channel, or as the seller asks (`auto`).
//!
//! The answer goes to standard output, the steps to standard error. Exit codes: 0 the answer arrived; 1 there is
//! none, and nothing was transferred; 2 wrong flags; 3 the price exceeds the limits, and nothing was paid; 4 a
//! payment is pending or unspent, or a signed one can still be used: the same command with `--resume` finishes it,
//! and a corrected command uses it, also after an answer broke off; 5 paid, or perhaps paid, and there will be no
//! answer for it.
//!
//! The answer is written as it arrives, unless it becomes part of a `--json` document. Its purchase is closed once
//! all of it is written: after an earlier crash, the same command asks for the same answer, and pays nothing. Later,
//! `--again PURCHASE` asks for it again. `--timeout` limits the total time.
//!
//! `--pass NAME` shows the seller's pass of that name with the request, and buys one if none is held; `buy passes`
//! lists them.
//!
//! A metered answer (`upto`) is paid by Permit2, which the account must once allow to move the token: `buy allow
//! --token USDC --amount 5`. Each purchase prints the maximum that it allowed, and the charge.
//!
//! `--dialect channel` pays by payment channels if sellers offer them: one deposit, then a signature for each answer.
//! `buy channels` lists them, and `buy close` gets back what is left.
//!
//! `buy history` shows the purchases. `buy resume` finishes all open ones: their requests are stored beside the
//! journal. `buy cancel PURCHASE` voids a signed payment that nobody has used. `--unfinished` lists open purchases,
//! and `--abandon PURCHASE` gives up one that cannot be finished: its money may be gone, and the same request pays
//! again.
//!
//! With `cargo demo` running, which prints a key's file and the chain's URL:
//!
//! ```sh
//! buy() { cargo run -q --example buy --features client,wallet,reqwest -- "$@"; }
//! export X402_RPC_URL=http://127.0.0.1:…
//! buy http://127.0.0.1:4020/demand-insights '{"query":"What about pricing?"}' --key-file /tmp/x402-buyer-….key
//! buy history
//! ```

#[path = "buy/abandon.rs"]
mod abandon;
#[path = "buy/allow.rs"]
mod allow;
#[path = "buy/answer.rs"]
mod answer;
#[path = "buy/args.rs"]
mod args;
#[path = "buy/cancel.rs"]
mod cancel;
#[path = "buy/channels.rs"]
mod channels;
#[path = "buy/dialect.rs"]
mod dialect;
#[path = "buy/history.rs"]
mod history;
#[path = "buy/journal.rs"]
mod journal;
#[path = "buy/key.rs"]
mod key;
#[path = "buy/keystore.rs"]
mod keystore;
#[path = "buy/means.rs"]
mod means;
#[path = "buy/on_chain.rs"]
mod on_chain;
#[path = "buy/order.rs"]
mod order;
#[path = "buy/passes.rs"]
mod passes;
#[path = "buy/purchase.rs"]
mod purchase;
#[path = "buy/report.rs"]
mod report;
#[path = "buy/requests.rs"]
mod requests;
#[path = "buy/resume.rs"]
mod resume;
#[path = "buy/screen.rs"]
mod screen;
#[path = "../src/bin/x402-gateway/secret_file.rs"]
mod secret_file;
#[path = "../src/bin/x402-gateway/steps.rs"]
mod steps;
#[path = "buy/when.rs"]
mod when;

use std::{env, ffi::OsString, process::ExitCode};

use clap::Parser;

use args::{Args, Buying, Command};
use order::Order;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    ExitCode::from(buy(env::args_os()).await)
}

/// Runs the program with these arguments, the first of which is its name, and returns its exit code.
pub(crate) async fn buy(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<_> = args.into_iter().collect();
    if let Err(misplaced) = key::is_none_of(&args) {
        return wrong(misplaced);
    }
    let args = match Args::try_parse_from(args) {
        Ok(args) => args,
        Err(help) => {
            let _ = help.print();
            return if help.use_stderr() { 2 } else { 0 };
        }
    };
    match &args.command {
        Some(Command::History(args)) => history::run(args),
        Some(Command::Resume(args)) => resume::run(args).await,
        Some(Command::Cancel(args)) => cancel::run(args).await,
        Some(Command::Allow(args)) => allow::run(args).await,
        Some(Command::Passes(args)) => passes::run(args),
        Some(Command::Channels(args)) => channels::list(args).await,
        Some(Command::Close(args)) => channels::close(args).await,
        None => one(&args.buying).await,
    }
}

/// Buys one answer, or handles open purchases.
async fn one(args: &Buying) -> u8 {
    let Some(url) = args.url.as_ref().filter(|_| !args.unfinished && args.abandon.is_none()) else {
        return abandon::run(args).await;
    };
    match Order::new(args.method, url, args.body.as_deref()) {
        Ok(order) => purchase::run(args, &order).await,
        Err(error) => wrong(error),
    }
}

/// Prints an error of the flags, and returns its exit code.
fn wrong(why: &str) -> u8 {
    eprintln!("error: {why}");
    2
}
