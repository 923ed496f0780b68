//! The integration tests, one module per subject.

#[cfg(feature = "test-util")]
mod ledger;
