//! `RegistryInner`: the state that the registry and its guards share.

use std::{
    collections::HashSet,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::timeout};

use super::{channel_table::ChannelTable, open::OpenPurchases, spending::Spendings, unconfirmed::UnconfirmedCharges};
use crate::{
    client::{JournalEntry, JournalError, JournalPayment, flow::ErasedJournal},
    clock::Clock,
    protocol::ChainTime,
};

/// The time limit for journal writes that no money waits for.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct RegistryInner {
    pub(super) journal: Box<dyn ErasedJournal>,
    clock: Arc<dyn Clock>,
    /// Wakes calls that wait for a channel.
    pub(super) channels_changed: Notify,
    tables: Mutex<Tables>,
}

/// The state of this process, changed under one lock.
#[derive(Default)]
pub(super) struct Tables {
    pub(super) open: OpenPurchases,
    pub(super) spent: Spendings,
    pub(super) unconfirmed: UnconfirmedCharges,
    pub(super) channels: ChannelTable,
    /// Hosts that stated an impossible charge.
    pub(super) distrusted: HashSet<String>,
}

impl RegistryInner {
    /// Reads the journal.
    pub(super) async fn load(journal: Box<dyn ErasedJournal>, clock: Arc<dyn Clock>) -> Result<Self, JournalError> {
        let mut tables = Tables::default();
        for entry in journal.load().await? {
            if let Some(record) = entry.channel_record().cloned() {
                tables.channels.enter(entry, record);
                continue;
            }
            // A purchase without a prepared payment was paid elsewhere. A failed transfer still counts, because its
            // failure is only a node's report.
            if entry.payment != JournalPayment::None {
                tables.spent.set_aside(&entry);
                tables.spent.follow(&entry);
            }
            if entry.state.is_open() {
                tables.open.enter(entry, None);
            } else {
                tables.unconfirmed.add(&entry);
            }
        }
        for record in tables.channels.refunds() {
            tables.spent.take_back(&record.deposits, record.refunded);
        }
        Ok(Self { journal, clock, channels_changed: Notify::new(), tables: Mutex::new(tables) })
    }

    /// Writes to the journal. A write that takes longer than `patience` fails.
    pub(super) async fn write(&self, entry: &JournalEntry, patience: Option<Duration>) -> Result<(), JournalError> {
        let written = self.journal.record(entry);
        let Some(patience) = patience else { return written.await };
        let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut).into());
        timeout(patience, written).await.unwrap_or_else(late)
    }

    /// Removes a purchase in its final state.
    pub(super) fn close(&self, last: &JournalEntry) {
        let mut tables = self.tables();
        tables.spent.follow(last);
        tables.open.close(last.id);
        tables.unconfirmed.add(last);
    }

    pub(super) fn now(&self) -> ChainTime {
        ChainTime::from_unix(self.clock.unix())
    }

    pub(super) fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
