//! `ChannelTable`: the current state of this payer's payment channels.

use std::{collections::HashMap, sync::Arc};

use tokio::sync::Mutex;

use super::spending::Spendings;
use crate::{
    client::{ChannelPhase, ChannelRecord, JournalEntry, JournalPayment, PurchaseState},
    protocol::{ChainTime, Network, channel::ChannelId},
};

pub(crate) type ChannelKey = (Network, ChannelId);

#[derive(Default)]
pub(super) struct ChannelTable(pub(super) HashMap<ChannelKey, Slot>);

pub(super) struct Slot {
    /// The journal entry without the record.
    pub(super) shell: JournalEntry,
    pub(super) record: ChannelRecord,
    /// Whether a call is about to sign in it.
    pub(super) is_held: bool,
    /// Whether the journal may have it.
    pub(super) is_recorded: bool,
    /// Serializes its writes, each with the newest state.
    pub(super) writing: Arc<Mutex<()>>,
}

impl Slot {
    /// Gives up its open request, whose purchase is no longer open.
    pub(super) fn give_up(&mut self, spent: &Spendings, now: ChainTime) {
        if self.record.open.is_some_and(|open| !spent.has(open.purchase)) {
            // Its call may have ended between the two journal records.
            self.record.was_never_shown(now);
        }
        self.record.give_up();
    }

    /// Returns whether a request is in progress in it, or a deposit is not known to be made.
    pub(super) fn is_unsettled(&self) -> bool {
        let is_about_to = self.is_held && self.record.phase == ChannelPhase::Open;
        let is_unsettled = is_about_to || self.record.open.is_some() || self.record.doubts_a_deposit();
        is_unsettled && self.record.phase != ChannelPhase::Closed
    }

    pub(super) fn entry(&self) -> JournalEntry {
        let payment = JournalPayment::Channel(Box::new(self.record.clone()));
        let closed = self.record.phase == ChannelPhase::Closed;
        let state = if closed { PurchaseState::Answered } else { PurchaseState::Paying };
        JournalEntry { payment, state, amount: self.record.deposited, ..self.shell.clone() }
    }
}

impl ChannelTable {
    /// Adds a channel from the journal.
    pub(super) fn enter(&mut self, entry: JournalEntry, record: ChannelRecord) {
        let key = (entry.network, record.config.id(entry.network));
        let shell = JournalEntry { payment: JournalPayment::None, ..entry };
        self.0.insert(key, Slot { shell, record, is_held: false, is_recorded: true, writing: Arc::default() });
    }

    /// Returns the records of the channels with a refund.
    pub(super) fn refunds(&self) -> impl Iterator<Item = &ChannelRecord> {
        self.0.values().map(|slot| &slot.record).filter(|record| !record.refunded.is_zero())
    }
}
