//! `PostgresLedger`: sales shared by replicas.

mod accounts;
mod answers;
mod book;
mod builder;
mod commands;
mod connection;
mod handle;
mod line;
mod maintenance;
mod migration;
mod shares;
mod space;
mod statements;
mod together;

pub use builder::PostgresLedgerBuilder;
pub use handle::PostgresLedger;
