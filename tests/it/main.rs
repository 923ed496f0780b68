//! Integration tests, one module per subject.

#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, reason = "tests")]

#[cfg(feature = "evm")]
mod evm;
