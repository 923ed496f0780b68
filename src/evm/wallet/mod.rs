//! An account with a key of its own, and the nodes for its transactions: the base of every wallet in this crate.

pub(crate) mod account;
pub(crate) mod connect;
pub(crate) mod fees;
mod following;
pub(crate) mod median;
pub(crate) mod node;
pub(crate) mod nodes;
mod nonce_manager;
pub(crate) mod sending;
pub(crate) mod signer;
pub(crate) mod token_domain;
