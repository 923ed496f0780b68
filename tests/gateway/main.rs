//! `x402-gateway`, the program, before a service in Python: over real sockets, and where something is sold, on a real chain.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]

#[allow(dead_code, unused_imports, reason = "each program uses a part of it")]
#[path = "../../examples/buy.rs"]
mod buy;
mod channels;
mod config;
mod forwarded;
mod operation;
mod paths;
mod program;
mod raw;
mod selling;
mod streams;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../standard/tools.rs"]
mod tools;
