//! `PurchaseGuard`: a purchase that one call works on.

use std::{sync::Arc, time::Duration};

use super::{
    delivery::Delivery,
    inner::{PATIENCE, RegistryInner},
    open::Claim,
};
use crate::{
    client::{Budget, Denial, JournalEntry, JournalError, PurchaseState},
    protocol::{Amount, ChainTime},
};

/// Exclusive access to one purchase. When dropped, it leaves the purchase to the next call with the same request. If
/// the purchase was never recorded, nothing is left, because nothing can have been sent.
pub(crate) struct PurchaseGuard {
    registry: Arc<RegistryInner>,
    entry: JournalEntry,
    claim: Claim,
    recorded: bool,
    /// Whether the purchase was open before this call.
    resumed: bool,
    /// The final state, once the answer was sold.
    sold: Option<JournalEntry>,
    on_record: Option<OnRecord>,
}

/// The callback for the first record of a purchase.
type OnRecord = Box<dyn FnOnce() + Send + Sync>;

impl PurchaseGuard {
    /// Guards a new purchase, which no journal has yet.
    pub(super) fn new(registry: &Arc<RegistryInner>, entry: JournalEntry) -> Self {
        let (registry, claim) = (Arc::clone(registry), Claim::Call);
        Self { registry, entry, claim, recorded: false, resumed: false, sold: None, on_record: None }
    }

    /// Guards a purchase that was open.
    pub(super) fn resumed(registry: &Arc<RegistryInner>, entry: JournalEntry, claim: Claim) -> Self {
        let registry = Arc::clone(registry);
        Self { registry, entry, claim, recorded: true, resumed: true, sold: None, on_record: None }
    }

    pub(crate) const fn entry(&self) -> &JournalEntry {
        &self.entry
    }

    /// Returns whether the purchase was open before this call, so that its payment may have been shown.
    pub(crate) const fn is_resumed(&self) -> bool {
        self.resumed
    }

    pub(crate) fn now(&self) -> ChainTime {
        self.registry.now()
    }

    /// Returns whether another purchase's transfer for that intent may still move. Two transfers with one tag could not
    /// be told apart.
    pub(crate) fn is_intent_taken(&self, intent: &str) -> bool {
        self.registry.tables().open.is_paid_for(intent, self.entry.id)
    }

    /// Takes the challenge with that hash for this purchase, atomically with the check that no other purchase has it:
    /// both would have one nonce, so only one could be used. Returns `false` if another has it.
    pub(crate) fn take_challenge(&self, challenge: [u8; 32]) -> bool {
        self.registry.tables().spent.take_challenge(challenge, self.entry.id)
    }

    /// Reserves the highest cost of the purchase's transactions, one of which is about to be recorded.
    pub(crate) fn set_gas_aside(&self, gas: Amount, budget: &Budget) -> Result<(), Denial> {
        let now = self.registry.now();
        self.registry.tables().spent.set_gas_aside(self.entry.id, self.entry.network, gas, now, budget)
    }

    /// Sets a callback for the first record of the purchase. It runs just before the journal writes that record, and stands even if the
    /// write fails. A purchase that is never recorded has paid nothing, so its callback never runs.
    pub(crate) fn once_recorded(&mut self, call: impl FnOnce() + Send + Sync + 'static) {
        self.on_record = Some(Box::new(call));
    }

    /// Changes the purchase, durably, before any money moves. If the journal fails, the change still holds in this
    /// process.
    ///
    /// # Errors
    /// [`JournalError::Finished`] if the purchase was closed, but not by this call: nothing more may be sent for it.
    pub(crate) async fn record(&mut self, change: impl FnOnce(&mut JournalEntry)) -> Result<(), JournalError> {
        self.change(change, None).await
    }

    /// Writes the purchase once more if an earlier call was dropped while the journal wrote what was to be shown.
    ///
    /// # Errors
    /// The journal's error: nothing may be shown then.
    pub(crate) async fn written(&self) -> Result<(), JournalError> {
        if self.registry.tables().open.is_unwritten(self.entry.id) {
            self.registry.write(&self.entry, None).await?;
            self.registry.tables().open.set_unwritten(self.entry.id, false);
        }
        Ok(())
    }

    /// Changes the purchase when the money has already moved: a journal that fails or hangs loses no answer.
    pub(crate) async fn note(&mut self, change: impl FnOnce(&mut JournalEntry)) {
        match self.change(change, Some(PATIENCE)).await {
            Ok(()) | Err(JournalError::Finished) => {}
            Err(error) => {
                tracing::warn!(%error, purchase = %self.entry.id, "the journal did not record a purchase's progress");
            }
        }
    }

    async fn change(
        &mut self,
        change: impl FnOnce(&mut JournalEntry),
        patience: Option<Duration>,
    ) -> Result<(), JournalError> {
        let changed = self.changed(change);
        if changed.state.is_open() {
            // Enter it in the registry first: if the call is dropped while the journal writes, the purchase must count
            // as open, as it may be in the journal.
            self.entry = changed;
            if !self.enter(Some(self.claim)) {
                return Err(JournalError::Finished);
            }
            self.counts_as_recorded();
            if patience.is_none() {
                self.registry.tables().open.set_unwritten(self.entry.id, true);
            }
            let written = self.registry.write(&self.entry, patience).await;
            if written.is_ok() {
                self.registry.tables().open.set_unwritten(self.entry.id, false);
            }
            return written;
        }
        if self.is_finished() {
            self.entry = changed;
            return Err(JournalError::Finished);
        }
        self.counts_as_recorded();
        // Enter it in the registry last: if the call is dropped while the journal writes, no caller has the answer yet.
        let written = self.registry.write(&changed, patience).await;
        self.entry = changed;
        self.enter(Some(self.claim));
        written
    }

    fn counts_as_recorded(&mut self) {
        self.recorded = true;
        if let Some(call) = self.on_record.take() {
            call();
        }
    }

    /// Closes the purchase, because the seller no longer gives its answer. Returns `false`, and leaves it open, if
    /// another caller still reads the answer.
    pub(crate) async fn refuse(&mut self) -> bool {
        let is_read = self.registry.tables().open.is_read(self.entry.id);
        if !is_read {
            self.note(|entry| entry.state = PurchaseState::Refused).await;
        }
        !is_read
    }

    fn changed(&self, change: impl FnOnce(&mut JournalEntry)) -> JournalEntry {
        let mut changed = self.entry.clone();
        change(&mut changed);
        if self.entry.state == PurchaseState::Paying && changed.state != PurchaseState::Paying {
            // Until now it counted at any age; from now on it counts for a day. A sold purchase keeps the time of its
            // sale.
            let sold = self.entry.settled.filter(|_| self.entry.is_sold() && changed.state == PurchaseState::Redeeming);
            changed.settled = sold.or_else(|| Some(self.registry.now()));
        }
        changed
    }

    /// Returns whether the purchase is closed, or about to be: another call got the answer meanwhile, or it was already
    /// finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.recorded && !self.registry.tables().open.is_going_on(self.entry.id)
    }

    /// Returns whether the purchase is unfinished, and no call of this process got its answer.
    pub(crate) fn is_unsold(&self) -> bool {
        let open = &self.registry.tables().open;
        open.is_going_on(self.entry.id) && !open.is_sold(self.entry.id)
    }

    /// Sets the purchase's state for the time after its caller has read the answer. Until then it stays open.
    pub(crate) fn sell(&mut self, change: impl FnOnce(&mut JournalEntry)) {
        self.sold = Some(self.changed(change));
    }

    /// Returns the entry as it will be once its caller has read the answer.
    pub(crate) fn outcome(&self) -> &JournalEntry {
        self.sold.as_ref().unwrap_or(&self.entry)
    }

    /// Leaves the purchase to the next call with the same request. Returns what closes it, if its answer was sold.
    pub(crate) fn deliver(mut self) -> Option<Delivery> {
        let sold = self.sold.take().filter(|_| !self.is_finished())?;
        let registry = Arc::clone(&self.registry);
        drop(self);
        registry.tables().open.sold(sold.clone());
        Some(Delivery::new(&registry, sold))
    }

    /// Drops a purchase that has sent no transaction, and can no longer send one.
    pub(crate) fn discard(mut self) {
        self.recorded = false;
        self.registry.tables().open.close(self.entry.id);
    }

    /// Enters the purchase's current state in the registry; returns `false` if the registry has it as finished.
    fn enter(&self, claim: Option<Claim>) -> bool {
        let mut tables = self.registry.tables();
        if self.recorded && !tables.open.is_going_on(self.entry.id) {
            if claim.is_none() {
                tables.open.leave(self.entry.id);
            }
            return false;
        }
        tables.spent.follow(&self.entry);
        if self.entry.state.is_open() {
            tables.open.enter(self.entry.clone(), claim);
        } else {
            tables.open.close(self.entry.id);
        }
        true
    }
}

impl Drop for PurchaseGuard {
    fn drop(&mut self) {
        if self.recorded {
            self.enter(None);
        } else {
            self.registry.tables().spent.give_back(self.entry.id);
        }
    }
}
