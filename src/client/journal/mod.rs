//! `Journal`: what was bought, durable before any money moves. It is what makes a payer pay once.

mod entry;
mod erased;
mod file;
mod memory;

use std::future::Future;

pub use entry::{Entry, ParsePurchaseIdError, PurchaseId, State};
pub(super) use erased::ErasedJournal;
pub use file::FileJournal;
pub use memory::MemoryJournal;

/// Where purchases are written down: one entry each, replaced as the purchase goes on.
///
/// Calls have to end by themselves: the last write of a purchase stands before its answer.
///
/// A journal has one writer: two that write into one would each allow what the budget allows to both.
///
/// An [`Entry`] holds intent and transaction hash. Together they are a bearer proof: whoever shows them to the seller
/// first gets the answer. Keep what is recorded where only the payer can read it, backups and logs included.
pub trait Journal: Send + Sync + 'static {
    /// The newest state of every purchase that is open, and of those that the budget still counts:
    /// [`Entry::is_kept_at`] the time of the newest. Others may be left out.
    ///
    /// # Errors
    /// [`JournalError`] where what is there cannot be read in full: nothing is paid on half a memory.
    fn load(&self) -> impl Future<Output = Result<Vec<Entry>, JournalError>> + Send;

    /// Writes the entry in place of the one with the same id. What it returns `Ok` for must survive a crash: the money
    /// moves next.
    ///
    /// # Errors
    /// [`JournalError`]: it is not known to be written, so nothing is sent.
    fn record(&self, entry: &Entry) -> impl Future<Output = Result<(), JournalError>> + Send;
}

/// For how long a closed purchase is kept after [`Entry::counts_from`], in seconds: the day that a budget looks back
/// on, and an hour.
pub const RETENTION: u64 = 25 * 60 * 60;

/// Why a journal cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process has it.
    #[error("another process uses this journal: wait for it, or name another journal")]
    Locked,
    /// Something in it is no entry.
    #[error(
        "line {line} of the journal cannot be read: move the file away only after looking at what it says was paid"
    )]
    Corrupt {
        /// The line, from 1.
        line: usize,
    },
    /// An earlier write failed half-way and could not be undone.
    #[error("an earlier write to the journal failed: open it again")]
    Broken,
    /// The file system refused.
    #[error("the journal's file cannot be used")]
    Io(#[from] std::io::Error),
    /// Anything else, for journals of your own.
    #[error("the journal failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}
