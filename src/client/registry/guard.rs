//! `PurchaseGuard`: a purchase while one call works on it.

use std::sync::Arc;

use super::{delivery::Delivery, inner::RegistryInner};
use crate::{
    client::{Budget, BudgetDenial, JournalEntry, JournalError, PurchaseState},
    protocol::{Amount, ChainTime},
};

/// Exclusive access to one purchase. Dropped, it leaves the purchase to the next call of the same request; one that was
/// never recorded leaves nothing, because nothing can have been sent.
pub(in crate::client) struct PurchaseGuard {
    registry: Arc<RegistryInner>,
    entry: JournalEntry,
    recorded: bool,
    /// The last state, once the answer was sold.
    sold: Option<JournalEntry>,
}

impl PurchaseGuard {
    /// Guards a purchase that is in no journal yet.
    pub(super) fn new(registry: &Arc<RegistryInner>, entry: JournalEntry) -> Self {
        Self { registry: Arc::clone(registry), entry, recorded: false, sold: None }
    }

    /// Guards one that was open.
    pub(super) fn resumed(registry: &Arc<RegistryInner>, entry: JournalEntry) -> Self {
        Self { registry: Arc::clone(registry), entry, recorded: true, sold: None }
    }

    pub(in crate::client) const fn entry(&self) -> &JournalEntry {
        &self.entry
    }

    pub(in crate::client) fn now(&self) -> ChainTime {
        self.registry.now()
    }

    /// Returns whether the transfer of another purchase, which may yet move, was made for that intent: of two transfers
    /// with one tag it could not be told which purchase paid for which.
    pub(in crate::client) fn is_intent_taken(&self, intent: &str) -> bool {
        self.registry.tables().open.is_paid_for(intent, self.entry.id)
    }

    /// Sets the most that the purchase's transactions cost aside, of which one is about to be recorded.
    pub(in crate::client) fn set_gas_aside(&self, gas: Amount, budget: &Budget) -> Result<(), BudgetDenial> {
        let now = self.registry.now();
        self.registry.tables().spent.set_gas_aside(self.entry.id, gas, now, budget)
    }

    /// Changes the purchase, durably. Where this fails the change still holds in this process.
    pub(in crate::client) async fn record(
        &mut self,
        change: impl FnOnce(&mut JournalEntry),
    ) -> Result<(), JournalError> {
        let changed = self.changed(change);
        if self.is_closed_elsewhere() {
            self.entry = changed;
            return Ok(());
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

    fn changed(&self, change: impl FnOnce(&mut JournalEntry)) -> JournalEntry {
        let mut changed = self.entry.clone();
        change(&mut changed);
        if self.entry.state == PurchaseState::Paying && changed.state != PurchaseState::Paying {
            // Until now it counted whatever its age: from now on it counts for a day.
            changed.settled = Some(self.registry.now());
        }
        changed
    }

    /// Whether the purchase is closed, though not by this call: the answer to another one came meanwhile, or it was finished before.
    fn is_closed_elsewhere(&self) -> bool {
        self.recorded && self.entry.state.is_open() && !self.registry.tables().open.has(self.entry.id)
    }

    /// Notes the state that the purchase will have once its answer is with the caller. It stays open until then.
    pub(in crate::client) fn sell(&mut self, change: impl FnOnce(&mut JournalEntry)) {
        self.sold = Some(self.changed(change));
    }

    /// Returns the entry as it will be once its answer is with the caller.
    pub(in crate::client) fn outcome(&self) -> &JournalEntry {
        self.sold.as_ref().unwrap_or(&self.entry)
    }

    /// Leaves the purchase to the next call of the same request; returns what closes it, where its answer was sold.
    pub(in crate::client) fn deliver(mut self) -> Option<Delivery> {
        let sold = self.sold.take().filter(|_| !self.is_closed_elsewhere())?;
        let registry = Arc::clone(&self.registry);
        drop(self);
        registry.tables().open.sold(sold.clone());
        Some(Delivery::new(&registry, sold))
    }

    /// Forgets a purchase of which nothing was sent, and nothing can be.
    pub(in crate::client) fn discard(mut self) {
        self.recorded = false;
        self.registry.tables().open.close(self.entry.id);
    }

    fn enter(&self, claimed: bool) {
        if !claimed && self.is_closed_elsewhere() {
            return;
        }
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
