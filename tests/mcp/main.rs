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
#[allow(dead_code, reason = "its `main` is not run here")]
#[path = "../../examples/mcp.rs"]
mod example;
#[allow(dead_code, reason = "its `main` is not run here")]
#[path = "../../examples/mcp_agent.rs"]
mod example_agent;
mod leaving;
mod lists;
mod messages;
mod metered;
mod mpp;
mod named;
mod official;
mod passes;
mod place;
mod refusals;
mod rig;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../served/mod.rs"]
mod served;
mod served_tools;
mod streams;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
