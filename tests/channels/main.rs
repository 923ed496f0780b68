//! Sales by payment channels on a scripted chain: what a voucher buys, what it never buys, and what is claimed of it.
#![cfg(all(
    feature = "axum",
    feature = "test-util",
    feature = "devchain",
    feature = "client",
    feature = "wallet",
    feature = "gateway",
    feature = "reqwest"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]

#[allow(dead_code, unreachable_pub, reason = "a program, which tests start")]
#[path = "../../examples/buy.rs"]
mod buy;
mod buying;
mod claims;
mod counter;
mod deposits;
#[allow(dead_code, reason = "the benchmark uses all of it")]
#[path = "../../benches/channels/many.rs"]
mod fair;
mod lost;
mod lying;
mod many;
#[allow(dead_code, reason = "the benchmark uses all of it")]
#[path = "../../benches/channels/market.rs"]
mod market;
mod on_chain;
mod permitted;
mod refunds;
mod renamed;
mod restored;
mod sales;
mod slow;
#[cfg(feature = "metrics")]
mod standing;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod withdrawn;
