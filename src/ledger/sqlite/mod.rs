//! `SqliteLedger`: sales in a file.

mod accounts;
mod asked;
mod batch;
mod book;
mod builder;
mod codes;
mod commands;
mod delivery;
mod file;
mod handle;
mod maintenance;
mod migration;
mod mount;
mod question;
mod queue;
mod record;
mod statements;
#[cfg(test)]
mod tests;
mod writer;

pub use builder::SqliteLedgerBuilder;
pub use handle::SqliteLedger;
