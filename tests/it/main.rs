//! The integration tests: one binary, a module per subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]
#![cfg(all(feature = "axum", feature = "evm", feature = "test-util"))]

mod bodies;
mod config;
#[expect(dead_code, reason = "what only its `main` uses")]
#[path = "../../examples/datasets/app.rs"]
mod datasets;
mod devchain;
mod faulty;
mod flow;
mod ledger;
mod pricing;
mod proofs;
mod readme;
mod sale;
mod selling;
mod support;
mod wire;
