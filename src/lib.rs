//! stub
#![forbid(unsafe_code)]

pub mod clock;
mod error;
pub mod ledger;
pub mod protocol;
#[cfg(feature = "test-util")]
pub mod testing;
pub mod verify;

pub use error::ConfigError;
