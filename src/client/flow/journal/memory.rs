//! `MemoryJournal`: keeps purchases until the process ends.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use super::{Journal, JournalEntry, JournalError};
use crate::client::PurchaseId;

/// A journal in memory, for tests. A crash between paying and the answer loses the payment: for money that matters, use
/// [`FileJournal`](super::FileJournal).
///
/// Clones share one journal, so that a test can look at it, or build a second layer on it as after a restart.
#[derive(Clone, Debug, Default)]
pub struct MemoryJournal {
    entries: Arc<Mutex<BTreeMap<PurchaseId, JournalEntry>>>,
}

impl MemoryJournal {
    /// Creates an empty journal.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the newest state of every purchase that is open, or that the budget still counts.
    #[must_use]
    pub fn entries(&self) -> Vec<JournalEntry> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }
}

impl Journal for MemoryJournal {
    async fn load(&self) -> Result<Vec<JournalEntry>, JournalError> {
        Ok(self.entries())
    }

    async fn record(&self, entry: &JournalEntry) -> Result<(), JournalError> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.insert(entry.id, entry.clone());
        entries.retain(|_, old| old.is_kept_at(entry.counts_from()));
        Ok(())
    }
}
