//! `PurchaseGuard`: a purchase while one call works on it.

use std::sync::Arc;

use super::inner::RegistryInner;
use crate::client::{JournalEntry, JournalError, PurchaseState};

/// Exclusive access to one purchase. Dropped, it leaves the purchase to the next call of the same request; one that was
/// never recorded leaves nothing, because nothing can have been sent.
pub(in crate::client) struct PurchaseGuard {
    registry: Arc<RegistryInner>,
    entry: JournalEntry,
    recorded: bool,
}

impl PurchaseGuard {
    /// Guards a purchase that is in no journal yet.
    pub(super) fn new(registry: &Arc<RegistryInner>, entry: JournalEntry) -> Self {
        Self { registry: Arc::clone(registry), entry, recorded: false }
    }

    /// Guards one that was open.
    pub(super) fn resumed(registry: &Arc<RegistryInner>, entry: JournalEntry) -> Self {
        Self { registry: Arc::clone(registry), entry, recorded: true }
    }

    pub(in crate::client) const fn entry(&self) -> &JournalEntry {
        &self.entry
    }

    /// Returns whether the transfer of another purchase, which may yet move, was made for that intent: of two transfers
    /// with one tag it could not be told which purchase paid for which.
    pub(in crate::client) fn is_intent_taken(&self, intent: &str) -> bool {
        self.registry.tables().open.is_paid_for(intent, self.entry.id)
    }

    /// Changes the purchase, durably. Where this fails the change still holds in this process.
    pub(in crate::client) async fn record(
        &mut self,
        change: impl FnOnce(&mut JournalEntry),
    ) -> Result<(), JournalError> {
        let mut changed = self.entry.clone();
        change(&mut changed);
        if self.entry.state == PurchaseState::Paying && changed.state != PurchaseState::Paying {
            // Until now it counted whatever its age: from now on it counts for a day.
            changed.settled = Some(self.registry.now());
        }
        self.recorded = true;
        if changed.state.is_open() {
            // In the registry first: dropped while the journal writes, the purchase is open here as it may be there.
            self.entry = changed;
            self.enter(true);
            return self.registry.journal.record(&self.entry).await;
        }
        // In the registry last: dropped while the journal writes, no caller has the answer yet.
        let written = self.registry.journal.record(&changed).await;
        self.entry = changed;
        self.enter(true);
        written
    }

    /// Does the same where the money has moved already: a journal that fails costs no answer.
    pub(in crate::client) async fn note(&mut self, change: impl FnOnce(&mut JournalEntry)) {
        if let Err(error) = self.record(change).await {
            tracing::warn!(%error, purchase = %self.entry.id, "the journal did not record a purchase's progress");
        }
    }

    /// Forgets a purchase of which nothing was sent, and nothing can be.
    pub(in crate::client) fn discard(mut self) {
        self.recorded = false;
        self.registry.tables().open.close(self.entry.id);
    }

    fn enter(&self, claimed: bool) {
        let mut tables = self.registry.tables();
        tables.spent.follow(&self.entry);
        if self.entry.state.is_open() {
            tables.open.enter(self.entry.clone(), claimed);
        } else {
            tables.open.close(self.entry.id);
        }
    }
}

impl Drop for PurchaseGuard {
    fn drop(&mut self) {
        if self.recorded {
            self.enter(false);
        } else {
            self.registry.tables().spent.give_back(self.entry.id);
        }
    }
}
