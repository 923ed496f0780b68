//! `Journal`: what was bought, durable before any money moves. It is what makes a payer pay once.

mod entry;
mod erased;
mod error;
mod file;
mod memory;
mod record;

use std::future::Future;

pub use entry::{JournalEntry, PurchaseState, RETENTION};
pub(super) use erased::ErasedJournal;
pub use error::JournalError;
pub use file::FileJournal;
pub use memory::MemoryJournal;

/// Where purchases are written down: one entry each, replaced as the purchase goes on.
///
/// Calls have to end by themselves: the last write of a purchase stands before its answer.
///
/// A journal has one writer: two that write into one would each allow what the budget allows to both.
///
/// An [`JournalEntry`] holds intent and transaction hash. Together they are a bearer proof: whoever shows them to the seller
/// first gets the answer. Keep what is recorded where only the payer can read it, backups and logs included.
pub trait Journal: Send + Sync + 'static {
    /// The newest state of every purchase that is open, and of those that the budget still counts:
    /// [`JournalEntry::is_kept_at`] the time of the newest. Others may be left out.
    ///
    /// # Errors
    /// [`JournalError`] where what is there cannot be read in full: nothing is paid on half a memory.
    fn load(&self) -> impl Future<Output = Result<Vec<JournalEntry>, JournalError>> + Send;

    /// Writes the entry in place of the one with the same id. What it returns `Ok` for must survive a crash: the money
    /// moves next.
    ///
    /// # Errors
    /// [`JournalError`]: it is not known to be written, so nothing is sent.
    fn record(&self, entry: &JournalEntry) -> impl Future<Output = Result<(), JournalError>> + Send;
}
