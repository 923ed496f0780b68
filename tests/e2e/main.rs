//! From quote to answer over a real chain (`anvil`) and real HTTP: what a payer gets for money, and what nobody gets without.
#![cfg(all(
    feature = "axum",
    feature = "devchain",
    feature = "evm",
    feature = "facilitator",
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

mod browser;
#[allow(dead_code, unused_macros, reason = "each program uses a part of it")]
#[path = "../kinds/mod.rs"]
mod kinds;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../served/mod.rs"]
mod served;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

use served::{app, datasets, market, shop};
mod anew;
mod booking;
mod buying;
mod counted;
mod demo;
mod depth;
mod ending;
mod examples_served;
#[cfg(unix)]
mod killed;
mod late;
#[cfg(unix)]
mod lost_answers;
mod mixed_doors;
mod named;
mod networks;
mod node;
mod odd_payments;
mod operating;
#[cfg(unix)]
mod passes;
#[cfg(unix)]
mod passes_killed;
#[cfg(unix)]
mod proxied;
mod redeeming;
mod reorganisation;
mod replicas;
mod restarts;
mod restored;
mod spent;
mod start;
mod succession;
mod theft;
mod three_endpoints;
mod time;
#[cfg(unix)]
mod unredeemed;
mod wallet;
