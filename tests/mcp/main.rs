//! Tools of an MCP server, sold by the call: on a scripted chain, and to official clients on a local one.
#![cfg(all(
    feature = "axum",
    feature = "client",
    feature = "devchain",
    feature = "evm",
    feature = "facilitator",
    feature = "mcp",
    feature = "metrics",
    feature = "page",
    feature = "postgres",
    feature = "redis",
    feature = "reqwest",
    feature = "sqlite",
    feature = "wallet"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]

mod attacks;
mod calls;
mod leaving;
mod lists;
mod messages;
mod mpp;
mod refusals;
mod rig;
mod streams;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
