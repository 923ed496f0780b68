//! `x402-gateway`: the paywall in front of a service in any language.
#![allow(unreachable_pub, reason = "a program has no API")]

mod args;
mod backends;
#[allow(dead_code, reason = "each program uses a part of it")]
mod book;
mod check;
mod claim;
mod config;
#[cfg(all(feature = "devchain", feature = "reqwest"))]
mod demo;
mod failure;
mod gateway;
mod init;
mod json_lines;
#[allow(dead_code, reason = "each program uses a part of it")]
mod keys;
#[allow(dead_code, reason = "each program uses a part of it")]
mod ledger;
mod log;
mod metrics;
mod offline;
mod proxy;
mod ready;
mod reload;
mod routes;
mod rows;
mod run;
mod running;
mod secret;
mod secret_file;
mod serve;
mod shop;
mod signals;
mod stall;
mod status;
#[cfg(all(feature = "devchain", feature = "reqwest"))]
mod steps;
#[allow(dead_code, reason = "each program uses a part of it")]
mod units;
mod unread;

/// The target of the program's log lines.
pub(crate) const PROGRAM: &str = "x402_gateway";

#[tokio::main]
async fn main() -> std::process::ExitCode {
    run::main().await
}
