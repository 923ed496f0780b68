//! `ChannelGuard`: holds a payment channel for a call that is about to sign in it.
//!
//! While a request is open in a channel, nothing else is signed in it, until the request's charge is known or it is
//! given up.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{
    channel_table::{ChannelKey, Slot},
    inner::{PATIENCE, RegistryInner, Tables},
};
use crate::{
    client::{Budget, ChannelPhase, ChannelRecord, JournalEntry, JournalError, PurchaseId},
    protocol::{
        Network,
        channel::{ChannelConfig, ChannelId},
    },
};

/// The longest time that a call waiting for a channel sleeps before it checks again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The channel that a call asks for.
pub(crate) struct WantedChannel<'a> {
    pub(crate) host: &'a str,
    /// Determines which hosts are one seller.
    pub(crate) budget: &'a Budget,
    pub(crate) network: Network,
    /// Whether the seller takes such a channel, and it belongs to this payer.
    pub(crate) fits: &'a (dyn Fn(&ChannelConfig) -> bool + Sync),
}

/// The result of a search for a channel.
pub(crate) enum FoundChannel {
    Held(ChannelGuard),
    /// Another call uses it.
    Busy,
    /// A purchase in it was left unfinished, so its charge is not known.
    Left(PurchaseId),
    /// Its seller is no longer believed.
    Broken(ChannelId),
    /// There is none, and another channel of that seller has a signed deposit that is not known to be made.
    Doubtful(ChannelGuard),
}

impl WantedChannel<'_> {
    /// Returns whether the host of a journal entry is the same seller.
    fn is_its_seller(&self, host: &str) -> bool {
        self.budget.counted_host(host) == self.budget.counted_host(self.host)
    }
}

impl RegistryInner {
    /// Finds a channel, or begins one, and holds it for the caller.
    pub(super) fn hold_channel(
        self: &Arc<Self>,
        wanted: &WantedChannel<'_>,
        new: impl FnOnce() -> (JournalEntry, ChannelRecord),
    ) -> FoundChannel {
        let now = self.now();
        let mut tables = self.tables();
        let Tables { channels, open, spent, .. } = &mut *tables;
        let is_broken = |slot: &Slot| slot.record.keeps_others_shut() && wanted.is_its_seller(&slot.shell.host);
        if let Some(((_, id), _)) = channels.0.iter().find(|(_, slot)| is_broken(slot)) {
            return FoundChannel::Broken(*id);
        }
        let mut found = None;
        for ((network, id), slot) in &mut channels.0 {
            let is_it = *network == wanted.network && slot.shell.host == wanted.host;
            if !is_it || !(wanted.fits)(&slot.record.config) {
                continue;
            }
            let left = slot.record.open.map(|open| open.purchase).filter(|purchase| open.has(*purchase));
            match slot.record.phase {
                ChannelPhase::Broken | ChannelPhase::Closing | ChannelPhase::Withdrawing(_) | ChannelPhase::Closed => {}
                ChannelPhase::Open if slot.is_held => found = Some(FoundChannel::Busy),
                ChannelPhase::Open => match left {
                    Some(purchase) if open.free(purchase).is_none() => found = Some(FoundChannel::Busy),
                    Some(purchase) => found = Some(FoundChannel::Left(purchase)),
                    None => {
                        // A purchase that is no longer open was given up.
                        slot.give_up(spent, now);
                        slot.is_held = true;
                        return FoundChannel::Held(ChannelGuard { registry: Arc::clone(self), key: (*network, *id) });
                    }
                },
            }
        }
        if let Some(found) = found.or_else(|| self.in_the_way(wanted, &mut tables)) {
            return found;
        }
        let (shell, record) = new();
        let key = (wanted.network, record.config.id(wanted.network));
        let slot = Slot { shell, record, is_held: true, is_recorded: false, writing: Arc::default() };
        tables.channels.0.insert(key, slot);
        FoundChannel::Held(ChannelGuard { registry: Arc::clone(self), key })
    }

    /// Returns an unsettled matter in the seller's other channels, so that a seller that varies its terms gets no
    /// deposit for each of them.
    fn in_the_way(self: &Arc<Self>, wanted: &WantedChannel<'_>, tables: &mut Tables) -> Option<FoundChannel> {
        let now = self.now();
        let Tables { channels, open, spent, .. } = tables;
        for (key, slot) in &mut channels.0 {
            if key.0 != wanted.network || !slot.is_unsettled() || !wanted.is_its_seller(&slot.shell.host) {
                continue;
            }
            if slot.is_held {
                return Some(FoundChannel::Busy);
            }
            if let Some(left) = slot.record.open.map(|open| open.purchase).filter(|purchase| open.has(*purchase)) {
                return Some(open.free(left).map_or(FoundChannel::Busy, FoundChannel::Left));
            }
            slot.give_up(spent, now);
            if slot.record.doubts_a_deposit() {
                slot.is_held = true;
                return Some(FoundChannel::Doubtful(ChannelGuard { registry: Arc::clone(self), key: *key }));
            }
        }
        None
    }

    /// Holds the channel of that id, in any phase, for closing.
    pub(super) fn hold_channel_named(self: &Arc<Self>, id: ChannelId) -> Option<FoundChannel> {
        let now = self.now();
        let Tables { channels, open, spent, .. } = &mut *self.tables();
        let (key, slot) = channels.0.iter_mut().find(|((_, other), _)| *other == id)?;
        if slot.is_held {
            return Some(FoundChannel::Busy);
        }
        if let Some(left) = slot.record.open.filter(|left| open.has(left.purchase)) {
            let is_busy = open.free(left.purchase).is_none();
            return Some(if is_busy { FoundChannel::Busy } else { FoundChannel::Left(left.purchase) });
        }
        slot.give_up(spent, now);
        slot.is_held = true;
        Some(FoundChannel::Held(ChannelGuard { registry: Arc::clone(self), key: *key }))
    }

    /// Adds a channel, and holds it until the journal has it.
    pub(super) async fn adopt_channel(
        self: &Arc<Self>,
        shell: JournalEntry,
        record: ChannelRecord,
    ) -> Result<(), JournalError> {
        let key = (shell.network, record.config.id(shell.network));
        {
            let mut tables = self.tables();
            if tables.channels.0.contains_key(&key) {
                return Ok(());
            }
            let slot = Slot { shell, record, is_held: true, is_recorded: false, writing: Arc::default() };
            tables.channels.0.insert(key, slot);
        }
        let guard = ChannelGuard { registry: Arc::clone(self), key };
        let adopted = guard.change(|_| {}).await;
        if adopted.is_err() {
            // It is in no journal. Another attempt writes it again.
            self.tables().channels.0.remove(&key);
        }
        adopted
    }

    /// Waits until some channel changes, or for a short time.
    pub(super) async fn channel_changes(&self) {
        let _ = timeout(LOOK_AGAIN, self.channels_changed.notified()).await;
    }

    /// Returns every channel, oldest first.
    pub(super) fn channels(&self) -> Vec<JournalEntry> {
        let tables = self.tables();
        let recorded = tables.channels.0.values().filter(|slot| slot.is_recorded);
        let mut channels: Vec<JournalEntry> = recorded.map(Slot::entry).collect();
        channels.sort_by_key(|entry| (entry.at, entry.id));
        channels
    }

    pub(super) fn channel(&self, key: ChannelKey) -> Option<ChannelRecord> {
        Some(self.tables().channels.0.get(&key)?.record.clone())
    }

    /// Changes a channel's record, durably. The process's own copy changes first, so the change holds even if the call
    /// is dropped.
    pub(super) async fn change_channel(
        &self,
        key: ChannelKey,
        patience: Option<Duration>,
        change: impl FnOnce(&mut ChannelRecord),
    ) -> Result<(), JournalError> {
        let writing = {
            let mut tables = self.tables();
            let Tables { channels, spent, .. } = &mut *tables;
            let Some(slot) = channels.0.get_mut(&key) else { return Ok(()) };
            change(&mut slot.record);
            if slot.record.phase == ChannelPhase::Closed && slot.shell.settled.is_none() {
                slot.shell.settled = Some(self.now());
            }
            spent.take_back(&slot.record.deposits, slot.record.refunded);
            slot.is_recorded = true;
            Arc::clone(&slot.writing)
        };
        self.channels_changed.notify_waiters();
        let _turn = writing.lock().await;
        let Some(entry) = self.tables().channels.0.get(&key).map(Slot::entry) else { return Ok(()) };
        self.write(&entry, patience).await
    }

    /// Changes a channel's record when the answer has already arrived: a journal error is only logged.
    pub(super) async fn note_channel(&self, key: ChannelKey, change: impl FnOnce(&mut ChannelRecord)) {
        if let Err(error) = self.change_channel(key, Some(PATIENCE), change).await {
            tracing::warn!(%error, channel = %key.1, "the journal did not record what became of a channel");
        }
    }
}

/// A channel in which no other call signs, until this is dropped or a request is open in it.
pub(crate) struct ChannelGuard {
    registry: Arc<RegistryInner>,
    key: ChannelKey,
}

impl ChannelGuard {
    pub(crate) const fn id(&self) -> ChannelId {
        self.key.1
    }

    /// Returns its record; `None` only if the process's table lost it.
    pub(crate) fn record(&self) -> Option<ChannelRecord> {
        self.registry.channel(self.key)
    }

    /// Changes its record, durably, before anything is shown.
    ///
    /// # Errors
    /// The journal's error: nothing may be shown then.
    pub(crate) async fn change(&self, change: impl FnOnce(&mut ChannelRecord)) -> Result<(), JournalError> {
        self.registry.change_channel(self.key, None, change).await
    }

    /// Changes its record in memory only.
    pub(crate) fn learn(&self, change: impl FnOnce(&mut ChannelRecord)) {
        if let Some(slot) = self.registry.tables().channels.0.get_mut(&self.key) {
            change(&mut slot.record);
        }
    }
}

impl Drop for ChannelGuard {
    fn drop(&mut self) {
        let mut tables = self.registry.tables();
        if let Some(slot) = tables.channels.0.get_mut(&self.key) {
            slot.is_held = false;
            if !slot.is_recorded {
                tables.channels.0.remove(&self.key);
            }
        }
        drop(tables);
        self.registry.channels_changed.notify_waiters();
    }
}
