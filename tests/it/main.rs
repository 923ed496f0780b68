//! The integration tests: one binary, a module per subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]
// The programs that are tested share a file.
#![allow(clippy::duplicate_mod)]
#![cfg(all(feature = "axum", feature = "evm", feature = "test-util"))]

mod bodies;
#[cfg(all(feature = "wallet", feature = "reqwest"))]
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/buy.rs"]
mod buy;
#[cfg(all(feature = "wallet", feature = "reqwest"))]
mod client;
mod commits;
mod config;
#[cfg(all(feature = "wallet", feature = "reqwest", feature = "postgres", feature = "redis", feature = "sqlite"))]
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/datasets/app.rs"]
mod datasets;
mod devchain;
mod drops;
mod evm;
mod faults;
mod faulty;
mod flow;
mod grpc;
mod holds;
mod hyper_server;
mod imports;
mod lease_model;
mod leases;
mod ledger;
#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
mod ledgers;
mod memory;
mod pricing;
mod proofs;
mod races;
mod readme;
mod sale;
mod security_table;
mod selling;
mod servers;
mod support;
mod tower_contract;
#[cfg(feature = "wallet")]
mod wallet;
mod wire;
