//! The integration tests: one binary, a module per subject.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]
#![cfg(all(feature = "axum", feature = "evm", feature = "test-util"))]

mod commits;
mod devchain;
mod drops;
mod faults;
mod hyper_server;
mod leases;
mod memory;
mod races;
mod sale;
mod support;
mod tower_contract;
