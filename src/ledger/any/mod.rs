//! `AnyLedger`: one of this crate's ledgers, chosen when the program starts.

mod accounts;
mod book;
mod ledger;
mod open;

pub use ledger::AnyLedger;
