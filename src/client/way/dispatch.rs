//! `Dispatch`: sends the transaction of a purchase, a transfer or a cancellation. It records before sending, resends,
//! and raises the fee.

use tokio::time::{Instant, sleep, timeout_at};

use super::watch::Watch;
use crate::{
    client::{
        Budget, Failure, JournalEntry, PayerError, PreparedTransfer,
        flow::{PurchaseGuard, PurchaseRegistry},
        payer::ErasedPayer,
        settings::Settings,
    },
    clock::Clock,
    protocol::{ChainTime, TxHash},
};

/// What drives a transaction.
#[derive(Clone, Copy)]
pub(crate) struct DispatchContext<'a> {
    pub(crate) payer: &'a dyn ErasedPayer,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) settings: &'a Settings,
    pub(crate) budget: &'a Budget,
    pub(crate) registry: &'a PurchaseRegistry,
}

impl DispatchContext<'_> {
    pub(super) fn now(&self) -> ChainTime {
        ChainTime::from_unix(self.clock.unix())
    }
}

pub(super) struct Dispatch<'a> {
    pub(super) context: DispatchContext<'a>,
    pub(super) guard: PurchaseGuard,
    /// The deadline of all waiting.
    pub(super) deadline: Instant,
    pub(super) watch: Watch,
}

impl<'a> Dispatch<'a> {
    pub(super) fn new(context: DispatchContext<'a>, guard: PurchaseGuard, deadline: Instant) -> Self {
        Self { context, guard, deadline, watch: Watch::default() }
    }

    /// Records a transaction, if the budget allows its gas.
    ///
    /// # Errors
    /// [`Failure::Declined`] or [`PayErrorKind::Journal`]: it must not be sent.
    pub(super) async fn record(
        &mut self,
        prepared: PreparedTransfer,
        also: impl FnOnce(&mut JournalEntry),
    ) -> Result<(), Failure> {
        let mut entry = self.guard.entry().clone();
        entry.push_prepared(prepared);
        also(&mut entry);
        self.guard.set_gas_aside(entry.gas(), self.context.budget)?;
        self.guard.record(|own| *own = entry).await.map_err(Failure::Journal)
    }

    /// Sends the transaction that was recorded last. Its status tells whether it was sent.
    pub(super) async fn send(&mut self) -> Result<(), PayerError> {
        let Some(prepared) = self.guard.entry().current().last().cloned() else { return Ok(()) };
        let sent = self.context.payer.send(&prepared).await;
        self.watch.moved = Some(Instant::now());
        match sent {
            Ok(transaction) if prepared.transaction().is_none() => {
                let named = |entry: &mut JournalEntry| {
                    if let Some(sent) = entry.last_prepared_mut() {
                        sent.set_transaction(transaction);
                    }
                };
                self.guard.note(named).await;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "it is not known whether a transaction was sent");
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends a transaction that no node has.
    pub(super) async fn send_again(&mut self) -> Result<(), Failure> {
        let turn = timeout_at(self.deadline, self.context.payer.submit_guard(self.guard.entry().network));
        let _turn = turn.await.map_err(|_| self.unsettled())?;
        // Without a certain record in the journal, nothing is sent.
        let recorded = self.guard.record(|_| {}).await;
        recorded.map_err(|_| self.unsettled())?;
        let refusal = self.send().await.err();
        if self.watch.sent(refusal) { Err(self.unsettled()) } else { Ok(()) }
    }

    /// Replaces the transaction with one of a higher fee; at most one of the two can be mined. Returns the recorded
    /// replacement.
    pub(super) async fn bump(&mut self) -> Option<Option<TxHash>> {
        self.watch.moved = Some(Instant::now());
        let current = self.guard.entry().current();
        if current.len() > self.context.settings.bumps_max {
            return None;
        }
        let bumped = match self.context.payer.replace(current).await {
            Ok(bumped) => bumped?,
            Err(error) => {
                tracing::debug!(%error, "no transaction with a higher fee was prepared");
                return None;
            }
        };
        let transaction = bumped.transaction();
        match self.record(bumped, |_| {}).await {
            Ok(()) => Some(transaction),
            Err(error) => {
                tracing::warn!(%error, "no transaction with a higher fee is sent");
                None
            }
        }
    }

    /// Waits before the next look at the chain.
    pub(super) async fn pause(&mut self) -> Result<(), Failure> {
        let pause = self.context.settings.poll_every;
        if Instant::now() + pause > self.deadline {
            return Err(self.unsettled());
        }
        sleep(pause).await;
        Ok(())
    }

    pub(super) fn unsettled(&mut self) -> Failure {
        let (entry, reason) = (self.guard.entry(), self.watch.reason.take());
        Failure::Unsettled { purchase: entry.id, transaction: entry.transaction(), reason }
    }
}
