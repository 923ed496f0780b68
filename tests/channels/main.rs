//! Sales by payment channels on a scripted chain: what a voucher buys, what it never buys, and what is claimed of it.
#![cfg(all(feature = "axum", feature = "test-util", feature = "devchain", feature = "client", feature = "wallet"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]

mod buying;
mod claims;
mod counter;
mod deposits;
mod lost;
mod on_chain;
mod refunds;
mod restored;
mod sales;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
