//! `DevChain`: a local chain for tests of paid services.

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
