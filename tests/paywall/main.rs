//! The layer on a scripted chain: every request that it can meet, and every answer that it gives.
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

mod attempts;
mod binding;
mod bodies;
mod body_rules;
mod bundles;
mod commits;
mod config;
mod consumption;
mod discovery;
mod drops;
mod grpc;
mod holds;
mod hyper_server;
#[allow(dead_code, unused_imports, unused_macros, reason = "each program uses a part of it")]
#[path = "../kinds/mod.rs"]
mod kinds;
mod leases;
mod memory;
mod metrics;
mod networks;
mod page;
mod passes;
mod priced_bodies;
mod pricing;
mod proofs;
mod purchase;
mod races;
mod redelivery;
mod restored;
mod sold_hook;
mod standard;
mod strip_proof;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;
mod tower_contract;
mod transfers_alone;
mod upkeep;
