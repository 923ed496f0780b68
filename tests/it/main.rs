//! The integration tests: one binary, a module per subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]
#![cfg(all(feature = "axum", feature = "evm", feature = "test-util"))]

mod devchain;
mod ledger;
#[cfg(any(feature = "postgres", feature = "sqlite"))]
mod ledgers;
mod sale;
mod servers;
mod support;
