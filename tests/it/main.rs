//! The integration tests: one binary, a module per subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]
// The programs that are tested share a file.
#![allow(clippy::duplicate_mod)]
#![cfg(all(feature = "axum", feature = "evm", feature = "devchain"))]

#[cfg(all(feature = "wallet", feature = "reqwest"))]
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/agent.rs"]
mod agent;
#[cfg(all(feature = "wallet", feature = "reqwest"))]
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/buy.rs"]
mod buy;
#[cfg(all(feature = "wallet", feature = "reqwest"))]
mod client;
#[cfg(all(feature = "wallet", feature = "reqwest", feature = "postgres", feature = "redis", feature = "sqlite"))]
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/datasets/app.rs"]
mod datasets;
mod devchain;
mod e2e;
mod evm;
#[cfg(all(feature = "wallet", feature = "reqwest"))]
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/hyper_client.rs"]
mod hyper_client;
mod ledger;
mod paywall;
mod repository;
#[cfg(all(feature = "wallet", feature = "reqwest"))]
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/reqwest.rs"]
mod reqwest_example;
#[cfg(all(feature = "facilitator", feature = "wallet"))]
mod settle;
mod standard;
mod support;
mod wire;
