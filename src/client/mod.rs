//! The payer: a tower layer that pays for answers, and never twice for one.

mod journal;
mod payer;
mod wallet;

pub use journal::{
    Entry, FileJournal, Journal, JournalError, MemoryJournal, ParsePurchaseIdError, PurchaseId, RETENTION, State,
};
pub use payer::{Fate, Payer, PayerError, Payment, Prepared, Turn};
pub use wallet::{WalletError, WalletPayer};
