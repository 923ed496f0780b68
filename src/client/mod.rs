//! The payer: a tower layer that pays for answers, and never twice for one.

mod answer;
mod body;
mod book;
mod budget;
mod buy;
mod erased;
mod error;
mod journal;
mod layer;
mod no_payer;
mod order;
mod pay;
mod payer;
mod redeem;
mod reqwest;
mod service;
mod step;
mod wallet;

pub use body::{Body, ReplayBody, ResponseBody};
pub use budget::{Budget, BudgetBuilder, BudgetError, Declined, Proposal};
pub use error::PayError;
pub use journal::{
    Entry, FileJournal, Journal, JournalError, MemoryJournal, ParsePurchaseIdError, PurchaseId, RETENTION, State,
};
pub use layer::{PayLayer, PayLayerBuilder};
pub use no_payer::NoPayer;
pub use order::ProofIn;
pub use payer::{Fate, Payer, PayerError, Payment, Prepared, Turn};
pub use reqwest::ReqwestClient;
pub use service::{Paid, Pay, ResponseFuture, ResumeOnly};
pub use step::{Purchase, Step, Took};
pub use wallet::{WalletError, WalletPayer};
