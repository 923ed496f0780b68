//! `PurchaseRegistry`: the open purchases of this process, the calls that work on them, and the spending of the last
//! day. The journal records every change.

mod channel_table;
mod channels;
mod delivery;
mod guard;
mod inner;
mod open;
mod spending;
mod unconfirmed;

use std::{fmt, sync::Arc};

pub(crate) use self::{
    channel_table::ChannelKey,
    channels::{ChannelGuard, FoundChannel, WantedChannel},
    delivery::Delivery,
    guard::PurchaseGuard,
};
use self::{
    delivery::Closing,
    inner::{PATIENCE, RegistryInner},
    open::{Claim, OpenPurchases},
};
use crate::{
    client::{
        Budget, ChannelRecord, Denial, Failure, JournalEntry, JournalError, JournalPayment, PurchaseId, PurchaseState,
        dialect::Bill,
        flow::{ErasedJournal, Spent},
    },
    clock::Clock,
    protocol::{Amount, ChainTime, TxHash, channel::ChannelId},
};

/// How many old purchases one call closes; each needs a write to the journal.
const CLOSED_AT_ONCE: usize = 4;

/// The purchases and the spending of one layer. Clones share one registry.
#[derive(Clone)]
pub(crate) struct PurchaseRegistry {
    inner: Arc<RegistryInner>,
}

impl PurchaseRegistry {
    pub(crate) async fn load(journal: Box<dyn ErasedJournal>, clock: Arc<dyn Clock>) -> Result<Self, JournalError> {
        Ok(Self { inner: Arc::new(RegistryInner::load(journal, clock).await?) })
    }

    /// Returns whether no purchase is open, so there is none to resume.
    pub(crate) fn is_idle(&self) -> bool {
        self.inner.tables().open.is_empty()
    }

    /// Returns whether a purchase of the same request is open, whether or not a call works on it.
    pub(crate) fn has_open(&self, fingerprint: &str) -> bool {
        self.inner.tables().open.has_request(fingerprint)
    }

    /// Guards the oldest purchase of the same request that no call works on. An unspent one is used for a fresh quote
    /// instead ([`left_over`](Self::left_over)), unless nothing new may be paid.
    pub(crate) fn resume(&self, fingerprint: &str, unspent_too: bool) -> Option<PurchaseGuard> {
        self.of_request(fingerprint, |entry| unspent_too || entry.state != PurchaseState::Unspent)
    }

    /// Guards an unfinished purchase of the same request that no call works on and whose answer no caller reads. A call
    /// checks for one each time before it would pay for another.
    ///
    /// # Errors
    /// [`Failure::Outstanding`] during a cancellation, because the authorization may still be used.
    pub(crate) fn left(&self, fingerprint: &str) -> Result<Option<PurchaseGuard>, Failure> {
        if let Some(cancelled) = self.inner.tables().open.cancelled(fingerprint) {
            return Err(Failure::outstanding(cancelled, None));
        }
        Ok(self.guarded(|open| {
            let left = |entry: &JournalEntry| entry.state != PurchaseState::Unspent && !open.is_read(entry.id);
            open.first_of_request(fingerprint, left)
        }))
    }

    /// Guards a purchase of the same request by its name, finished or not. A finished one stays finished: its
    /// conversation is not recorded.
    pub(crate) async fn known(&self, fingerprint: &str, id: PurchaseId) -> Result<Option<PurchaseGuard>, JournalError> {
        if let Some(open) = self.of_request(fingerprint, |entry| entry.id == id) {
            return Ok(Some(open));
        }
        let mut entries = self.inner.journal.load().await?.into_iter();
        let known = |entry: &JournalEntry| {
            (entry.id, entry.state, entry.fingerprint.as_str()) == (id, PurchaseState::Answered, fingerprint)
        };
        let found = entries.find(known).filter(|_| !self.inner.tables().open.has(id));
        Ok(found.map(|entry| PurchaseGuard::resumed(&self.inner, entry.asked_again(), Claim::Call)))
    }

    /// Guards the purchase of the same request that this transaction paid.
    pub(crate) fn paid_with(&self, fingerprint: &str, transaction: TxHash) -> Option<PurchaseGuard> {
        self.of_request(fingerprint, |entry| entry.transaction == Some(transaction))
    }

    /// Guards a payment for the same request that bought nothing: preferably one that covers this bill.
    pub(crate) fn left_over(&self, fingerprint: &str, bill: &Bill) -> Option<PurchaseGuard> {
        let left = |entry: &JournalEntry| entry.state == PurchaseState::Unspent;
        self.of_request(fingerprint, |entry| left(entry) && bill.covered_by(entry).is_some())
            .or_else(|| self.of_request(fingerprint, left))
    }

    /// Guards a payment for another request to the same seller that bought nothing and matches this bill exactly,
    /// because a larger one would be wasted. It skips payments that may still cost more than `limit`.
    pub(crate) fn adoptable(&self, host: &str, bill: &Bill, limit: Option<Amount>) -> Option<PurchaseGuard> {
        let pays = |entry: &JournalEntry| {
            entry.payment != JournalPayment::None
                && !entry.is_for_its_request()
                && bill.covered_by(entry).is_some()
                && !entry.may_cost_more_than(limit)
        };
        self.guarded(|open| bill.quotes().find_map(|quote| open.first_unspent(host, quote, pays)))
    }

    fn of_request(&self, fingerprint: &str, fits: impl Fn(&JournalEntry) -> bool) -> Option<PurchaseGuard> {
        self.guarded(|open| open.first_of_request(fingerprint, fits))
    }

    fn guarded(&self, find: impl FnOnce(&OpenPurchases) -> Option<PurchaseId>) -> Option<PurchaseGuard> {
        self.claimed(Claim::Call, find)
    }

    fn claimed(&self, claim: Claim, find: impl FnOnce(&OpenPurchases) -> Option<PurchaseId>) -> Option<PurchaseGuard> {
        let mut tables = self.inner.tables();
        let found = find(&tables.open)?;
        let entry = tables.open.claim(found, claim)?;
        Some(PurchaseGuard::resumed(&self.inner, entry, claim))
    }

    /// Guards an idle payment from before `moment` whose money is not known to have moved, and whose answer no caller is
    /// reading.
    pub(crate) fn unsettled_before(&self, moment: ChainTime) -> Option<PurchaseGuard> {
        self.guarded(|open| open.idle_before(moment, |entry| !entry.has_moved()))
    }

    /// Closes payments without an answer, or with an unread one, that settled before `accepted_since`, because no
    /// seller accepts them any more. An authorization that is not known to be used stays open, however old it is by
    /// this machine's clock, because only the chain can void it. A payment for a pass stays open while its seller keeps
    /// the pass.
    pub(crate) async fn close_old(&self, accepted_since: ChainTime) {
        let now = self.inner.now();
        let is_lost = |entry: &JournalEntry| entry.has_moved() && !entry.is_kept_by_seller(now);
        for _ in 0..CLOSED_AT_ONCE {
            let old = self.guarded(|open| open.idle_before(accepted_since, is_lost));
            let Some(mut old) = old else { return };
            tracing::info!(purchase = %old.entry().id, "a payment without an answer is too old for any seller");
            old.note(|entry| entry.state = PurchaseState::Refused).await;
        }
    }

    /// Checks whether the budget allows `price` for that host now.
    pub(crate) fn affords(&self, host: &str, price: Amount, budget: &Budget) -> Result<(), Denial> {
        budget.afford(price, self.spent(host, budget))
    }

    /// Reserves the money of a new purchase, atomically with the check of earlier spending.
    pub(crate) fn reserve(&self, entry: JournalEntry, budget: &Budget) -> Result<PurchaseGuard, Denial> {
        let mut tables = self.inner.tables();
        tables.spent.forget(entry.at);
        budget.afford(entry.amount, tables.spent.at(entry.at, &entry.host, budget))?;
        tables.spent.set_aside(&entry);
        Ok(PurchaseGuard::new(&self.inner, entry))
    }

    /// Reserves the deposit of a channel purchase in the same way; it may be zero.
    pub(crate) fn reserve_deposit(
        &self,
        entry: JournalEntry,
        deposit: Amount,
        budget: &Budget,
    ) -> Result<PurchaseGuard, Denial> {
        let mut tables = self.inner.tables();
        tables.spent.forget(entry.at);
        if !deposit.is_zero() {
            budget.afford(deposit, tables.spent.at(entry.at, &entry.host, budget))?;
        }
        tables.spent.set_amount_aside(&entry, deposit);
        Ok(PurchaseGuard::new(&self.inner, entry))
    }

    /// Finds a channel, or begins one, and holds it for the caller.
    pub(crate) fn hold_channel(
        &self,
        wanted: &WantedChannel<'_>,
        new: impl FnOnce() -> (JournalEntry, ChannelRecord),
    ) -> FoundChannel {
        self.inner.hold_channel(wanted, new)
    }

    /// Holds the channel of that id for closing; returns `None` if there is none.
    pub(crate) fn hold_channel_named(&self, id: ChannelId) -> Option<FoundChannel> {
        self.inner.hold_channel_named(id)
    }

    /// Adds a channel that the journal does not have, durably.
    pub(crate) async fn adopt_channel(&self, shell: JournalEntry, record: ChannelRecord) -> Result<(), JournalError> {
        self.inner.adopt_channel(shell, record).await
    }

    /// Waits until some channel changes, or for a short time.
    pub(crate) async fn channel_changes(&self) {
        self.inner.channel_changes().await;
    }

    /// Returns every channel, oldest first.
    pub(crate) fn channels(&self) -> Vec<JournalEntry> {
        self.inner.channels()
    }

    /// Returns the record of a channel.
    pub(crate) fn channel(&self, key: ChannelKey) -> Option<ChannelRecord> {
        self.inner.channel(key)
    }

    /// Changes the record of a channel, durably, before anything more is shown in it.
    pub(crate) async fn change_channel(
        &self,
        key: ChannelKey,
        change: impl FnOnce(&mut ChannelRecord),
    ) -> Result<(), JournalError> {
        self.inner.change_channel(key, None, change).await
    }

    /// Changes the record of a channel when the answer has already arrived: a journal error is only logged.
    pub(crate) async fn note_channel(&self, key: ChannelKey, change: impl FnOnce(&mut ChannelRecord)) {
        self.inner.note_channel(key, change).await;
    }

    /// Returns when an open purchase began.
    pub(crate) fn begun(&self, id: PurchaseId) -> Option<ChainTime> {
        self.unfinished().into_iter().find(|entry| entry.id == id).map(|entry| entry.at)
    }

    /// Guards a purchase that moves no money, because it was paid elsewhere.
    pub(crate) fn paid_elsewhere(&self, entry: JournalEntry) -> PurchaseGuard {
        PurchaseGuard::new(&self.inner, entry)
    }

    /// Stops payments to this host in this process.
    pub(crate) fn distrust(&self, host: &str, budget: &Budget) {
        self.inner.tables().distrusted.insert(budget.counted_host(host));
    }

    /// Returns whether nothing more is paid to this host.
    pub(crate) fn distrusts(&self, host: &str, budget: &Budget) -> bool {
        let tables = self.inner.tables();
        !tables.distrusted.is_empty() && tables.distrusted.contains(&budget.counted_host(host))
    }

    /// Returns some finished purchases whose charge the chain has not confirmed, to check them again.
    pub(crate) fn unconfirmed_charges(&self) -> Vec<JournalEntry> {
        self.inner.tables().unconfirmed.next(self.inner.now())
    }

    /// Records the charge of a finished purchase that the chain has confirmed: from now on it counts.
    pub(crate) async fn confirm_charge(&self, entry: JournalEntry) {
        {
            let mut tables = self.inner.tables();
            tables.unconfirmed.confirmed(entry.id);
            tables.spent.follow(&entry);
        }
        if let Err(error) = self.inner.write(&entry, Some(PATIENCE)).await {
            tracing::warn!(%error, purchase = %entry.id, "the journal did not record what was charged");
        }
    }

    /// Returns what counts against the budget now.
    pub(crate) fn spent(&self, host: &str, budget: &Budget) -> Spent {
        self.inner.tables().spent.at(self.inner.now(), host, budget)
    }

    /// Returns the purchases that are open, oldest first.
    pub(crate) fn unfinished(&self) -> Vec<JournalEntry> {
        self.inner.tables().open.entries()
    }

    /// Guards the open purchase of that id, if no call works on it. Until the guard is dropped, the same request pays
    /// for no other.
    pub(crate) fn to_cancel(&self, id: PurchaseId) -> Option<PurchaseGuard> {
        self.claimed(Claim::Cancellation, |open| open.free(id))
    }

    /// Closes a purchase after the caller has its answer; returns `false` if there is no such purchase with a sold
    /// answer.
    pub(crate) async fn acknowledge(&self, id: PurchaseId) -> Result<bool, JournalError> {
        let Some(answered) = self.inner.tables().open.answered(id) else { return Ok(false) };
        let closing = Closing::new(&self.inner, answered);
        closing.write().await?;
        closing.close();
        Ok(true)
    }

    /// Closes a purchase whose answer the caller keeps, even if its seller did not confirm the payment.
    pub(crate) async fn close_kept(&self, id: PurchaseId) -> Result<(), JournalError> {
        if !self.acknowledge(id).await? {
            self.close_as(PurchaseState::Answered, id).await?;
        }
        Ok(())
    }

    /// Abandons an open purchase; returns `false` if there is none of that id, or a call works on it.
    pub(crate) async fn abandon(&self, id: PurchaseId) -> Result<bool, JournalError> {
        self.close_as(PurchaseState::Refused, id).await
    }

    async fn close_as(&self, state: PurchaseState, id: PurchaseId) -> Result<bool, JournalError> {
        let Some(mut guard) = self.guarded(|open| open.free(id)) else { return Ok(false) };
        match guard.record(|entry| entry.state = state).await {
            Ok(()) => Ok(true),
            Err(JournalError::Finished) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl fmt::Debug for PurchaseRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PurchaseRegistry")
    }
}

#[cfg(test)]
#[cfg(feature = "test-util")]
mod tests;
