//! Transfers: prepared, recorded, sent, and followed until they are mined or never will be.

use std::future::Future;

use tokio::time::{Instant, timeout_at};

use super::{
    dispatch::{Dispatch, DispatchContext},
    watch::Watch,
};
use crate::{
    client::{
        Denial, Failure, JournalEntry, PayerError, PurchaseEvent, PurchaseState, TransferRequest, TransferStatus,
        dialect::TransferTerms,
        flow::{Progress, PurchaseGuard, budget::is_in_time},
    },
    protocol::{Quote, TxHash},
};

/// Drives the transfer of one purchase: everything that moves money is recorded in its journal entry first.
pub(crate) struct TransferDriver<'a> {
    dispatch: Dispatch<'a>,
    progress: Progress,
    /// What to send after a fresh quote.
    waiting: Option<Resend>,
}

/// The result of following a transfer.
#[derive(Debug)]
pub(crate) enum Followed {
    /// This transaction has enough confirmations.
    Settled(TxHash),
    /// The quote has expired, so the transfer might be mined too late for its price. Request a new quote;
    /// [`TransferDriver::requoted`] continues with it.
    NeedsRequote,
}

impl<'a> TransferDriver<'a> {
    /// Creates a driver. All waiting ends at `deadline`.
    pub(crate) fn new(
        context: DispatchContext<'a>,
        guard: PurchaseGuard,
        progress: Progress,
        deadline: Instant,
    ) -> Self {
        Self { dispatch: Dispatch::new(context, guard, deadline), progress, waiting: None }
    }

    pub(crate) const fn entry(&self) -> &JournalEntry {
        self.dispatch.guard.entry()
    }

    pub(crate) const fn guard_mut(&mut self) -> &mut PurchaseGuard {
        &mut self.dispatch.guard
    }

    pub(crate) fn into_guard(self) -> PurchaseGuard {
        self.dispatch.guard
    }

    /// Pays for a purchase with reserved money: prepares the transfer, records it, and sends it. If another purchase of
    /// the same request was left meanwhile, returns that one instead.
    pub(crate) async fn pay(mut self, payment: &TransferRequest, quote: &Quote) -> Result<PurchaseGuard, Failure> {
        let DispatchContext { payer, registry, .. } = self.dispatch.context;
        let deadline = self.dispatch.deadline;
        let turn = payer.submit_guard(payment.network);
        let _turn = in_time(deadline, "waiting for the payer's other payments", turn).await?;
        self.is_in_time(quote)?;
        // Check it during the payer's turn: all payments prepared for this request or this intent are in the registry
        // by now.
        if let Some(left) = registry.left(&self.entry().fingerprint)? {
            return Ok(left);
        }
        if self.dispatch.guard.is_intent_taken(quote.intent.as_str()) {
            return Err(Denial::IntentReused.into());
        }
        let prepared = in_time(deadline, "preparing the transfer", payer.prepare(payment)).await?;
        let prepared = prepared.map_err(Failure::Payer)?;
        self.is_in_time(quote)?;
        let (payer, transaction) = (prepared.payer, prepared.transaction());
        if payer == quote.recipient {
            return Err(Denial::NoSeller(payer).into());
        }
        let secret = |entry: &mut JournalEntry| entry.secret = Some(quote.intent.as_str().to_owned());
        if let Err(error) = self.dispatch.record(prepared, secret).await {
            self.dispatch.guard.discard();
            return Err(error);
        }
        let JournalEntry { recipient, amount, decimals, .. } = *self.entry();
        self.progress.report(PurchaseEvent::Paying { payer, recipient, amount, decimals, transaction });
        let _ = self.dispatch.send().await;
        Ok(self.dispatch.guard)
    }

    fn is_in_time(&self, quote: &Quote) -> Result<(), Denial> {
        let context = &self.dispatch.context;
        is_in_time(quote, context.now(), context.settings.least_time_to_pay)
    }

    /// Follows the transfer until it has enough confirmations. Resends it if no node has it, and raises the fee if no
    /// block contains it.
    pub(crate) async fn settle(&mut self) -> Result<Followed, Failure> {
        if let (PurchaseState::Redeeming | PurchaseState::Unspent, Some(mined)) =
            (self.entry().state, self.entry().transaction)
        {
            return Ok(Followed::Settled(mined));
        }
        loop {
            let status = self.dispatch.context.payer.status(self.entry().transfers()).await;
            match self.act_on(status).await? {
                Step::Settled(mined) => return Ok(Followed::Settled(mined)),
                Step::Requote(sending) => {
                    self.waiting = Some(sending);
                    return Ok(Followed::NeedsRequote);
                }
                Step::Pause => self.dispatch.pause().await?,
            }
        }
    }

    /// Continues after [`Followed::NeedsRequote`], with the seller's fresh quote if it gave one that may be paid.
    pub(crate) async fn requoted(&mut self, terms: Option<&TransferTerms>) -> Result<(), Failure> {
        let renewed = self.renew(terms).await;
        match self.waiting.take() {
            Some(Resend::Again) => {
                renewed?;
                self.dispatch.send_again().await?;
            }
            // Without a fresh quote the fee is not raised, because the transfer might be mined too late for its price.
            Some(Resend::HigherFee) if renewed.is_ok() => self.bump().await,
            _ => {}
        }
        self.dispatch.pause().await
    }

    /// Checks the chain again for a seller that does not find the transaction: a reorganisation may have replaced it
    /// with another recorded one. Returns `None` if the transfer must be [settled](Self::settle) again.
    pub(crate) async fn recheck(&mut self, transaction: TxHash) -> Option<TxHash> {
        // Nothing can be recorded for a finished purchase, so nothing can be sent.
        if self.entry().transfers().is_empty() || self.dispatch.guard.is_finished() {
            return Some(transaction);
        }
        match self.dispatch.context.payer.status(self.entry().transfers()).await {
            Ok(TransferStatus::Mined { transaction, .. }) => Some(transaction),
            // If the chain does not answer, keep asking the seller.
            Err(_) => Some(transaction),
            Ok(_) => {
                self.dispatch.guard.note(|entry| entry.state = PurchaseState::Paying).await;
                self.dispatch.watch = Watch::default();
                None
            }
        }
    }

    /// Reacts to a transfer's status.
    async fn act_on(&mut self, status: Result<TransferStatus, PayerError>) -> Result<Step, Failure> {
        let settings = self.dispatch.context.settings;
        self.dispatch.watch.saw(matches!(status, Ok(TransferStatus::Impossible)));
        match status {
            Ok(TransferStatus::Mined { transaction, confirmations }) => {
                return Ok(self.mined(transaction, confirmations).await);
            }
            Ok(TransferStatus::Pending) if self.dispatch.watch.is_over(settings.bump_after) => {
                return Ok(self.hurry().await);
            }
            // The wait for a higher fee begins when the transfer was first seen.
            Ok(TransferStatus::Pending) => {
                self.dispatch.watch.moved = self.dispatch.watch.moved.or_else(|| Some(Instant::now()))
            }
            Ok(TransferStatus::Unknown)
                if self.dispatch.watch.moved.is_none() || self.dispatch.watch.is_over(settings.resend_after) =>
            {
                self.dispatch.watch.moved = Some(Instant::now());
                if self.is_over() {
                    return Ok(Step::Requote(Resend::Again));
                }
                self.dispatch.send_again().await?;
            }
            Ok(TransferStatus::Reverted { transaction }) => {
                self.dispatch.guard.note(|entry| entry.state = PurchaseState::Void).await;
                return Err(Failure::Reverted { purchase: self.entry().id, transaction });
            }
            Ok(TransferStatus::Impossible) if self.dispatch.watch.is_impossible() => {
                self.dispatch.guard.note(|entry| entry.state = PurchaseState::Void).await;
                return Err(Failure::Displaced { purchase: self.entry().id });
            }
            Ok(_) => {}
            Err(error) => {
                // Waiting will not make it this payer's.
                let is_foreign = error.is_of_another_payer();
                self.dispatch.watch.reason = Some(error);
                if is_foreign {
                    return Err(self.dispatch.unsettled());
                }
            }
        }
        Ok(Step::Pause)
    }

    async fn mined(&mut self, transaction: TxHash, confirmations: u64) -> Step {
        let wanted = self.dispatch.context.settings.confirmations;
        self.progress.report(PurchaseEvent::Confirming { transaction, confirmations, wanted });
        if confirmations < wanted {
            return Step::Pause;
        }
        self.dispatch.guard.note(|entry| entry.mark_paid_by(transaction)).await;
        Step::Settled(transaction)
    }

    async fn hurry(&mut self) -> Step {
        self.dispatch.watch.moved = Some(Instant::now());
        if self.is_over() {
            return Step::Requote(Resend::HigherFee);
        }
        self.bump().await;
        Step::Pause
    }

    /// Returns whether the quote has expired, so that the transfer might be mined too late for its price.
    fn is_over(&self) -> bool {
        self.entry().expiry <= self.dispatch.context.now()
    }

    /// Adopts the terms of a quote that the transfer still pays.
    async fn renew(&mut self, terms: Option<&TransferTerms>) -> Result<(), Failure> {
        let Some(terms) = terms.filter(|terms| self.entry().pays(&terms.quote)) else {
            return Err(self.dispatch.unsettled());
        };
        let recorded = self.dispatch.guard.record(|entry| entry.takes_terms_of(&terms.quote, terms.is_elsewhere)).await;
        recorded.map_err(|_| self.dispatch.unsettled())
    }

    async fn bump(&mut self) {
        if let Some(transaction) = self.dispatch.bump().await {
            self.progress.report(PurchaseEvent::Bumping { transaction });
            let _ = self.dispatch.send().await;
        }
    }
}

/// Which transaction to send.
#[derive(Clone, Copy)]
enum Resend {
    /// The same transfer again.
    Again,
    /// One with a higher fee, under the same nonce.
    HigherFee,
}

/// The next step.
enum Step {
    Settled(TxHash),
    /// Send this only under a fresh quote.
    Requote(Resend),
    Pause,
}

/// Runs a step that must end before any money moves.
pub(crate) async fn in_time<T>(
    deadline: Instant,
    what: &'static str,
    work: impl Future<Output = T>,
) -> Result<T, Failure> {
    timeout_at(deadline, work).await.map_err(|_| Failure::TimedOut(what))
}

#[cfg(test)]
#[cfg(feature = "test-util")]
mod tests;
