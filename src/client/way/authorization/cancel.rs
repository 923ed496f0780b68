//! An authorization is made void on the chain, so that another may be signed before its time is over.
//!
//! The transaction that does so is recorded before it is sent, and followed like a transfer: a call that is dropped, or a process that
//! ends, leaves it to the next call.

use tokio::time::{Instant, sleep, timeout_at};

use crate::client::{
    AuthorizationStatus, JournalEntry, PayError, PayerError, PreparedAuthorization, PreparedTransfer, PurchaseState,
    TransferStatus,
    box_error::BoxError,
    flow::registry::PurchaseGuard,
    inner::ClientInner,
    way::{authorization::status::status, transfer::watch::Watch},
};

const FAILED: PayerError = PayerError::Refused("the cancellation came to nothing on the chain");

/// Cancels a purchase's authorization, unless it was used before; `None` where there is none to cancel.
pub(in crate::client) async fn cancel(
    inner: &ClientInner,
    guard: PurchaseGuard,
) -> Result<Option<PurchaseState>, PayError> {
    let authorized = guard.entry().authorized().filter(|_| guard.entry().transaction.is_none());
    let Some(authorized) = authorized.cloned() else { return Ok(None) };
    let deadline = Instant::now() + inner.settings.patience;
    let cancelling = Cancelling { inner, guard, authorized, deadline, watch: Watch::default(), has_begun: false };
    cancelling.run().await.map(Some)
}

/// Drives the cancellation of one authorization.
struct Cancelling<'a> {
    inner: &'a ClientInner,
    guard: PurchaseGuard,
    authorized: PreparedAuthorization,
    /// When all that is waited for has to be over.
    deadline: Instant,
    watch: Watch,
    /// Whether this call has prepared a cancellation: it prepares one only.
    has_begun: bool,
}

impl Cancelling<'_> {
    async fn run(mut self) -> Result<PurchaseState, PayError> {
        loop {
            match status(self.inner, self.guard.entry()).await {
                Ok(AuthorizationStatus::Unused) => self.advance().await?,
                Ok(ended) => return Ok(self.ended(ended).await),
                // A cancellation that is in no deep block yet is an error, too.
                Err(PayError::Unsettled { reason, .. }) if !self.guard.entry().cancellations().is_empty() => {
                    self.watch.reason = reason;
                    self.advance().await?;
                }
                Err(error) => return Err(error),
            }
            if Instant::now() + self.inner.settings.poll_every > self.deadline {
                return Err(self.unsettled());
            }
            sleep(self.inner.settings.poll_every).await;
        }
    }

    /// Records what became of the authorization, which is certain.
    async fn ended(&mut self, status: AuthorizationStatus) -> PurchaseState {
        match status {
            AuthorizationStatus::Void => self.guard.note(|entry| entry.state = PurchaseState::Void).await,
            AuthorizationStatus::Used { transaction } => {
                self.guard.note(|entry| entry.is_settled_by(transaction)).await;
            }
            AuthorizationStatus::Unused => {}
        }
        self.guard.entry().state
    }

    /// Begins the cancellation, or does what the status of its transaction asks for.
    async fn advance(&mut self) -> Result<(), PayError> {
        let (inner, current) = (self.inner, self.guard.entry().cancellation());
        if current.is_empty() {
            return self.begin().await;
        }
        let status = inner.payer.status(current).await;
        let settings = &inner.settings;
        self.watch.saw(matches!(status, Ok(TransferStatus::Impossible)));
        match status {
            Ok(TransferStatus::Pending) if self.watch.is_over(settings.bump_after) => self.bump().await,
            Ok(TransferStatus::Pending) => self.watch.moved = self.watch.moved.or_else(|| Some(Instant::now())),
            Ok(TransferStatus::Unknown) if self.watch.moved.is_none() || self.watch.is_over(settings.resend_after) => {
                self.send_again().await?;
            }
            Ok(TransferStatus::Reverted { .. }) => self.begin().await?,
            Ok(TransferStatus::Impossible) if self.watch.is_impossible() => self.begin().await?,
            // Mined: what it did, the authorization's status tells.
            Ok(_) => {}
            Err(reason) => {
                // No time will make it this payer's.
                let is_foreign = matches!(reason, PayerError::Foreign);
                self.watch.reason = Some(reason);
                if is_foreign {
                    return Err(self.unsettled());
                }
            }
        }
        Ok(())
    }

    /// Prepares a cancellation, records it, and sends it.
    async fn begin(&mut self) -> Result<(), PayError> {
        if self.has_begun {
            return Err(self.not_cancelled(FAILED));
        }
        let inner = self.inner;
        let turn = timeout_at(self.deadline, inner.payer.submit_guard());
        let _turn = turn.await.map_err(|_| self.unsettled())?;
        let prepared = inner.payer.prepare_cancellation(&self.authorized).await;
        let prepared = prepared.map_err(|reason| self.not_cancelled(reason))?;
        self.record(prepared).await?;
        (self.has_begun, self.watch) = (true, Watch::default());
        // Whether it went out or not, its status tells.
        let _ = self.send().await;
        Ok(())
    }

    /// Records a transaction, if its gas can be afforded.
    async fn record(&mut self, prepared: PreparedTransfer) -> Result<(), PayError> {
        let mut entry = self.guard.entry().clone();
        entry.is_to_send(prepared);
        let afforded = self.guard.set_gas_aside(entry.gas(), &self.inner.budget);
        afforded.map_err(|denial| self.not_cancelled(denial))?;
        let recorded = self.guard.record(|own: &mut JournalEntry| *own = entry).await;
        recorded.map_err(|error| self.not_cancelled(error))
    }

    /// Sends what was recorded last.
    async fn send(&mut self) -> Result<(), PayerError> {
        let Some(prepared) = self.guard.entry().cancellations().last().cloned() else { return Ok(()) };
        let sent = self.inner.payer.send(&prepared).await;
        self.watch.moved = Some(Instant::now());
        match sent {
            Ok(transaction) if prepared.transaction().is_none() => {
                self.guard.note(|entry| entry.to_send().into_iter().for_each(|sent| sent.is_named(transaction))).await;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(%error, "it is not known whether a cancellation was sent");
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sends a cancellation that no node has.
    async fn send_again(&mut self) -> Result<(), PayError> {
        let turn = timeout_at(self.deadline, self.inner.payer.submit_guard());
        let _turn = turn.await.map_err(|_| self.unsettled())?;
        // What is not in the journal for certain is not sent.
        let recorded = self.guard.record(|_| {}).await;
        recorded.map_err(|error| self.not_cancelled(error))?;
        let refusal = self.send().await.err();
        if self.watch.sent(refusal) { Err(self.unsettled()) } else { Ok(()) }
    }

    /// Offers more for the same place in the chain: at most one of the two can be mined.
    async fn bump(&mut self) {
        self.watch.moved = Some(Instant::now());
        let current = self.guard.entry().cancellation();
        if current.len() > self.inner.settings.bumps_max {
            return;
        }
        match self.inner.payer.replace(current).await {
            Ok(Some(bumped)) => match self.record(bumped).await {
                Ok(()) => {
                    let _ = self.send().await;
                }
                Err(error) => tracing::warn!(%error, "no cancellation with a higher fee is sent"),
            },
            Ok(None) => {}
            Err(error) => tracing::debug!(%error, "no cancellation with a higher fee was prepared"),
        }
    }

    fn not_cancelled(&self, reason: impl Into<BoxError>) -> PayError {
        let JournalEntry { id: purchase, expiry: valid_before, .. } = *self.guard.entry();
        PayError::NotCancelled { purchase, valid_before, reason: reason.into() }
    }

    fn unsettled(&mut self) -> PayError {
        PayError::Unsettled { purchase: self.guard.entry().id, transaction: None, reason: self.watch.reason.take() }
    }
}
