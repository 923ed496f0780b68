//! The money: made ready, recorded, sent, and followed until it is in a block or never will be.

pub(in crate::client) mod watch;

use std::future::Future;

use tokio::time::{Instant, sleep, timeout_at};

use self::watch::{Sending, Step, Watch};
use crate::{
    client::{
        Budget, BudgetDenial, JournalEntry, PayError, PayerError, PurchaseEvent, PurchaseState, TransferRequest,
        TransferStatus,
        flow::{
            budget::is_in_time,
            progress::Progress,
            registry::{PurchaseGuard, PurchaseRegistry},
        },
        payer::ErasedPayer,
        settings::Settings,
    },
    clock::Clock,
    protocol::{ChainTime, Quote, TxHash},
};

/// What a transfer is driven with.
#[derive(Clone, Copy)]
pub(in crate::client) struct TransferContext<'a> {
    pub(in crate::client) payer: &'a dyn ErasedPayer,
    pub(in crate::client) clock: &'a dyn Clock,
    pub(in crate::client) settings: &'a Settings,
    pub(in crate::client) budget: &'a Budget,
    pub(in crate::client) registry: &'a PurchaseRegistry,
}

impl TransferContext<'_> {
    fn now(&self) -> ChainTime {
        ChainTime::from_unix(self.clock.unix())
    }
}

/// Drives the transfer of one purchase: everything that moves money is recorded in its journal entry first.
pub(in crate::client) struct TransferDriver<'a> {
    context: TransferContext<'a>,
    guard: PurchaseGuard,
    progress: Progress,
    deadline: Instant,
    watch: Watch,
    /// What is done once the seller has been asked for a fresh quote.
    waiting: Option<Sending>,
}

/// What following a transfer comes to.
#[derive(Debug)]
pub(in crate::client) enum Followed {
    /// This transaction is in enough blocks.
    Settled(TxHash),
    /// The quote is over, so what would be sent might be mined too late for its price. The seller has to be asked again:
    /// [`TransferDriver::requoted`] continues with the answer.
    NeedsRequote,
}

impl<'a> TransferDriver<'a> {
    /// Everything that is waited for has to be over at `deadline`.
    pub(in crate::client) fn new(
        context: TransferContext<'a>,
        guard: PurchaseGuard,
        progress: Progress,
        deadline: Instant,
    ) -> Self {
        Self { context, guard, progress, deadline, watch: Watch::default(), waiting: None }
    }

    pub(in crate::client) const fn entry(&self) -> &JournalEntry {
        self.guard.entry()
    }

    pub(in crate::client) const fn guard_mut(&mut self) -> &mut PurchaseGuard {
        &mut self.guard
    }

    pub(in crate::client) fn into_guard(self) -> PurchaseGuard {
        self.guard
    }

    /// Pays for a purchase whose money is set aside: prepares the transfer, records it, sends it. Returns another purchase of the same
    /// request instead, if one was left meanwhile.
    pub(in crate::client) async fn pay(
        mut self,
        payment: &TransferRequest,
        quote: &Quote,
    ) -> Result<PurchaseGuard, PayError> {
        let payer = self.context.payer;
        let _turn = in_time(self.deadline, "waiting for the payer's other payments", payer.submit_guard()).await?;
        self.is_in_time(quote)?;
        // In the turn: whatever was prepared for this request or this intent is in the registry by now.
        if let Some(left) = self.context.registry.left(&self.entry().fingerprint)? {
            return Ok(left);
        }
        if self.guard.is_intent_taken(quote.intent.as_str()) {
            return Err(BudgetDenial::IntentReused.into());
        }
        let prepared = in_time(self.deadline, "preparing the transfer", payer.prepare(payment)).await?;
        let prepared = prepared.map_err(PayError::Payer)?;
        self.is_in_time(quote)?;
        let (payer, transaction) = (prepared.payer, prepared.transaction());
        if payer == quote.recipient {
            return Err(BudgetDenial::NoSeller(payer).into());
        }
        self.guard.set_gas_aside(prepared.fee, self.context.budget)?;
        let record = |entry: &mut JournalEntry| {
            entry.is_to_send(prepared);
            entry.secret = Some(quote.intent.as_str().to_owned());
        };
        if let Err(error) = self.guard.record(record).await {
            self.guard.discard();
            return Err(PayError::Journal(error));
        }
        let JournalEntry { recipient, amount, decimals, .. } = *self.entry();
        self.progress.report(PurchaseEvent::Paying { payer, recipient, amount, decimals, transaction });
        // Whether it went out or not, its status tells.
        let _ = self.send().await;
        Ok(self.guard)
    }

    fn is_in_time(&self, quote: &Quote) -> Result<(), BudgetDenial> {
        is_in_time(quote, self.context.now(), self.context.settings.least_time_to_pay)
    }

    /// Sends what was recorded last.
    async fn send(&mut self) -> Result<(), PayerError> {
        let Some(prepared) = self.entry().transfers().last().cloned() else { return Ok(()) };
        match self.context.payer.send(&prepared).await {
            Ok(transaction) if prepared.transaction().is_none() => {
                self.guard.note(|entry| entry.to_send().into_iter().for_each(|sent| sent.is_named(transaction))).await;
                Ok(())
            }
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "it is not known whether a payment was sent");
                Err(error)
            }
        }
    }

    /// Follows the transfer until it is in enough blocks. Sends again what no node has; bumps what no block takes.
    pub(in crate::client) async fn settle(&mut self) -> Result<Followed, PayError> {
        if let (PurchaseState::Redeeming | PurchaseState::Unspent, Some(mined)) =
            (self.entry().state, self.entry().transaction)
        {
            return Ok(Followed::Settled(mined));
        }
        loop {
            let status = self.context.payer.status(self.guard.entry().transfers()).await;
            match self.act_on(status).await? {
                Step::Settled(mined) => return Ok(Followed::Settled(mined)),
                Step::Requote(sending) => {
                    self.waiting = Some(sending);
                    return Ok(Followed::NeedsRequote);
                }
                Step::Pause => self.pause().await?,
            }
        }
    }

    /// Goes on after [`Followed::NeedsRequote`], with the seller's fresh quote if it gave one that may be paid.
    pub(in crate::client) async fn requoted(&mut self, quote: Option<&Quote>) -> Result<(), PayError> {
        let renewed = self.renew(quote).await;
        match self.waiting.take() {
            Some(Sending::Again) => {
                renewed?;
                self.send_again().await?;
            }
            // What would be mined too late for its price is not hurried.
            Some(Sending::HigherFee) if renewed.is_ok() => self.bump().await,
            _ => {}
        }
        self.pause().await
    }

    /// Looks at the chain once more, for a seller that does not find the transaction: a reorganisation may have put
    /// another of the recorded ones in its place. `None` where the transfer has to be [settled](Self::settle) anew.
    pub(in crate::client) async fn recheck(&mut self, transaction: TxHash) -> Option<TxHash> {
        // Of what is finished nothing is recorded, so nothing can be sent.
        if self.entry().transfers().is_empty() || self.guard.is_finished() {
            return Some(transaction);
        }
        match self.context.payer.status(self.guard.entry().transfers()).await {
            Ok(TransferStatus::Mined { transaction, .. }) => Some(transaction),
            // Without word from the chain the seller is asked on.
            Err(_) => Some(transaction),
            Ok(_) => {
                self.guard.note(|entry| entry.state = PurchaseState::Paying).await;
                self.watch = Watch::default();
                None
            }
        }
    }

    /// Does what a transfer's status asks for.
    async fn act_on(&mut self, status: Result<TransferStatus, PayerError>) -> Result<Step, PayError> {
        let settings = self.context.settings;
        self.watch.saw(matches!(status, Ok(TransferStatus::Impossible)));
        match status {
            Ok(TransferStatus::Mined { transaction, confirmations }) => {
                return Ok(self.mined(transaction, confirmations).await);
            }
            Ok(TransferStatus::Pending) if self.watch.is_over(settings.bump_after) => return Ok(self.hurry().await),
            // The waiting for a bump begins when the transfer was first seen.
            Ok(TransferStatus::Pending) => self.watch.moved = self.watch.moved.or_else(|| Some(Instant::now())),
            Ok(TransferStatus::Unknown) if self.watch.moved.is_none() || self.watch.is_over(settings.resend_after) => {
                self.watch.moved = Some(Instant::now());
                if self.is_over() {
                    return Ok(Step::Requote(Sending::Again));
                }
                self.send_again().await?;
            }
            Ok(TransferStatus::Reverted { transaction }) => {
                self.guard.note(|entry| entry.state = PurchaseState::Void).await;
                return Err(PayError::Reverted { purchase: self.entry().id, transaction });
            }
            Ok(TransferStatus::Impossible) if self.watch.is_impossible() => {
                self.guard.note(|entry| entry.state = PurchaseState::Void).await;
                return Err(PayError::Displaced { purchase: self.entry().id });
            }
            Ok(_) => {}
            // No time will make it this payer's.
            Err(error @ PayerError::Foreign) => return Err(self.unsettled(Some(error))),
            Err(error) => self.watch.reason = Some(error),
        }
        Ok(Step::Pause)
    }

    async fn mined(&mut self, transaction: TxHash, confirmations: u64) -> Step {
        let wanted = self.context.settings.confirmations;
        self.progress.report(PurchaseEvent::Confirming { transaction, confirmations, wanted });
        if confirmations < wanted {
            return Step::Pause;
        }
        self.guard.note(|entry| entry.is_paid_by(transaction)).await;
        Step::Settled(transaction)
    }

    async fn hurry(&mut self) -> Step {
        self.watch.moved = Some(Instant::now());
        if self.is_over() {
            return Step::Requote(Sending::HigherFee);
        }
        self.bump().await;
        Step::Pause
    }

    /// Sends a transfer that no node has.
    async fn send_again(&mut self) -> Result<(), PayError> {
        let turn = timeout_at(self.deadline, self.context.payer.submit_guard());
        let turn = turn.await.map_err(|_| self.unsettled(None))?;
        // What is not in the journal for certain is not sent.
        let recorded = self.guard.record(|_| {}).await;
        recorded.map_err(|_| self.unsettled(None))?;
        let refusal = self.send().await.err();
        drop(turn);
        if self.watch.sent(refusal) {
            let reason = self.watch.reason.take();
            return Err(self.unsettled(reason));
        }
        Ok(())
    }

    /// Whether the quote is over: then the transfer might be mined too late for its price.
    fn is_over(&self) -> bool {
        self.entry().expiry <= self.context.now()
    }

    /// Takes over the terms of a quote that the transfer still pays.
    async fn renew(&mut self, quote: Option<&Quote>) -> Result<(), PayError> {
        let Some(quote) = quote.filter(|quote| self.entry().pays(quote)) else { return Err(self.unsettled(None)) };
        let recorded = self.guard.record(|entry| entry.takes_terms_of(quote)).await;
        recorded.map_err(|_| self.unsettled(None))
    }

    /// Offers more for the same place in the chain: at most one of the two can be mined.
    async fn bump(&mut self) {
        if self.entry().transfers().len() > self.context.settings.bumps_max {
            return;
        }
        match self.context.payer.replace(self.guard.entry().transfers()).await {
            Ok(Some(bumped)) => {
                if let Err(denial) = self.guard.set_gas_aside(bumped.fee, self.context.budget) {
                    tracing::warn!(%denial, "no transaction with a higher fee is sent");
                    return;
                }
                let transaction = bumped.transaction();
                if self.guard.record(|entry| entry.is_to_send(bumped)).await.is_ok() {
                    self.progress.report(PurchaseEvent::Bumping { transaction });
                    let _ = self.send().await;
                }
            }
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "no transaction with a higher fee was prepared"),
        }
    }

    async fn pause(&mut self) -> Result<(), PayError> {
        let pause = self.context.settings.poll_every;
        if Instant::now() + pause > self.deadline {
            let reason = self.watch.reason.take();
            return Err(self.unsettled(reason));
        }
        sleep(pause).await;
        Ok(())
    }

    fn unsettled(&self, reason: Option<PayerError>) -> PayError {
        PayError::Unsettled { purchase: self.entry().id, transaction: self.entry().transaction(), reason }
    }
}

/// What has to be over before any money moves.
pub(in crate::client) async fn in_time<T>(
    deadline: Instant,
    what: &'static str,
    work: impl Future<Output = T>,
) -> Result<T, PayError> {
    timeout_at(deadline, work).await.map_err(|_| PayError::TimedOut(what))
}

#[cfg(test)]
#[cfg(feature = "test-util")]
mod tests;
