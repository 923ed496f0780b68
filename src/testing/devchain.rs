//! A local chain to test a paid service on.

mod accounts;
mod builder;
mod chain;
mod error;
mod install;
mod locate;
mod mining;
mod process;
mod rpc;
mod transactions;

pub use accounts::DevAccount;
pub use builder::DevChainBuilder;
pub use chain::DevChain;
pub use error::DevChainError;
