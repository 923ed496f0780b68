//! `Journal`: a durable record of each purchase before any money moves, so that a payer pays only once.

mod channel;
mod charge;
mod entry;
mod erased;
mod error;
mod file;
mod memory;
mod record;
mod signed;

use std::future::Future;

pub use channel::ChannelPhase;
pub(crate) use channel::ChannelRecord;
pub(crate) use charge::PermitCharge;
pub(crate) use entry::JournalPayment;
#[cfg(test)]
pub(crate) use entry::RETENTION;
pub use entry::{JournalEntry, PurchaseState};
pub(crate) use erased::ErasedJournal;
pub use error::JournalError;
pub use file::FileJournal;
pub(crate) use file::{replace, sync_folder, write_beside};
pub use memory::MemoryJournal;
pub(crate) use signed::Signed;

/// A record of purchases: one entry for each, replaced as the purchase proceeds.
///
/// Each call must end by itself, and the calls of one purchase must take effect in order. Before money moves, the layer
/// waits for the write without a limit; otherwise a write counts as failed after ten seconds.
///
/// A journal has one writer: two would each spend the whole budget.
///
/// An [`JournalEntry`] holds intent and transaction hash. Together they are a bearer proof: the first client that
/// presents them gets the answer. Store the records where only the payer can read them, including backups and logs.
///
/// ```
/// use std::{collections::HashMap, sync::Mutex};
/// use tower_x402::client::{Journal, JournalEntry, JournalError, PurchaseId};
///
/// /// A journal of your own stores each entry as a text, under the purchase's name.
/// #[derive(Default)]
/// struct Store(Mutex<HashMap<PurchaseId, String>>);
///
/// impl Journal for Store {
///     async fn load(&self) -> Result<Vec<JournalEntry>, JournalError> {
///         let store = self.0.lock().map_err(|_| JournalError::Broken)?;
///         store.values().map(|record| JournalEntry::from_record(record)).collect()
///     }
///
///     async fn record(&self, entry: &JournalEntry) -> Result<(), JournalError> {
///         let record = entry.to_record()?;
///         self.0.lock().map_err(|_| JournalError::Broken)?.insert(entry.id, record); // durably, in earnest
///         Ok(())
///     }
/// }
/// ```
pub trait Journal: Send + Sync + 'static {
    /// Returns the newest state of every purchase that is open or that the budget still counts. Others may be omitted:
    /// see [`JournalEntry::is_kept_at`], at the time of the newest entry.
    ///
    /// # Errors
    /// [`JournalError`] if the journal cannot be read in full: the layer then pays nothing.
    fn load(&self) -> impl Future<Output = Result<Vec<JournalEntry>, JournalError>> + Send;

    /// Writes the entry, which replaces the one with the same id. Once this returns `Ok`, the entry must survive a
    /// crash, because the money moves next.
    ///
    /// # Errors
    /// [`JournalError`] if the entry may not have been written: the layer then sends nothing.
    fn record(&self, entry: &JournalEntry) -> impl Future<Output = Result<(), JournalError>> + Send;
}
