//! The ledger on Redis 7 or Valkey. `RedisLedger` documents the requirements of the server and the records.

mod accounts;
mod book;
mod builder;
mod commands;
mod connection;
mod durability;
mod error;
mod handle;
mod maintenance;
mod scripts;
mod source;
mod words;

pub use builder::RedisLedgerBuilder;
pub use durability::Durability;
pub use handle::RedisLedger;
