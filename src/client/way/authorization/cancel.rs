//! Voids an authorization on the chain, so that another may be signed before the first expires.
//!
//! The transaction is recorded before it is sent, and followed like a transfer: if the call is dropped or the process
//! ends, the next call continues it.

use tokio::time::{Instant, timeout_at};

use crate::client::{
    AuthorizationStatus, Failure, JournalEntry, PayerError, PreparedAuthorization, PurchaseState, TransferStatus,
    box_error::BoxError,
    flow::PurchaseGuard,
    inner::ClientInner,
    way::{dispatch::Dispatch, status::status, watch::Watch},
};

const NOT_A_PERMIT: PayerError = PayerError::Refused(
    "a permit is not cancelled: it ends by itself, within the layer's patience after it was signed",
);
const FAILED: PayerError = PayerError::Refused("the cancellation came to nothing on the chain");

/// Cancels a purchase's authorization, unless it was used before; returns `None` if there is none to cancel.
pub(crate) async fn cancel(inner: &ClientInner, guard: PurchaseGuard) -> Result<Option<PurchaseState>, Failure> {
    if guard.entry().permitted().is_some() {
        return Err(not_cancelled(&guard, NOT_A_PERMIT));
    }
    let authorized = guard.entry().authorized().filter(|_| guard.entry().transaction.is_none());
    let Some(authorized) = authorized.cloned() else { return Ok(None) };
    let deadline = Instant::now() + inner.settings.patience;
    let dispatch = Dispatch::new(inner.dispatch_context(), guard, deadline);
    Cancelling { inner, dispatch, authorized, has_begun: false }.run().await.map(Some)
}

/// Drives the cancellation of one authorization.
struct Cancelling<'a> {
    inner: &'a ClientInner,
    dispatch: Dispatch<'a>,
    authorized: PreparedAuthorization,
    /// Whether this call has prepared a cancellation; it prepares only one.
    has_begun: bool,
}

impl Cancelling<'_> {
    async fn run(mut self) -> Result<PurchaseState, Failure> {
        loop {
            match status(self.inner, self.dispatch.guard.entry()).await {
                Ok(AuthorizationStatus::Unused) => self.advance().await?,
                Ok(ended) => return Ok(self.ended(ended).await),
                // A cancellation that is not deep enough is reported as an error, too.
                Err(Failure::Unsettled { reason, .. }) if !self.dispatch.guard.entry().cancellations().is_empty() => {
                    self.dispatch.watch.reason = reason;
                    self.advance().await?;
                }
                Err(error) => return Err(error),
            }
            self.dispatch.pause().await?;
        }
    }

    /// Records the final status of the authorization.
    async fn ended(&mut self, status: AuthorizationStatus) -> PurchaseState {
        match status {
            AuthorizationStatus::Void => self.dispatch.guard.note(|entry| entry.state = PurchaseState::Void).await,
            AuthorizationStatus::Used { transaction } => {
                self.dispatch.guard.note(|entry| entry.mark_settled_by(transaction)).await;
            }
            AuthorizationStatus::Unused => {}
        }
        self.dispatch.guard.entry().state
    }

    /// Begins the cancellation, or reacts to the status of its transaction.
    async fn advance(&mut self) -> Result<(), Failure> {
        let (inner, current) = (self.inner, self.dispatch.guard.entry().current());
        if current.is_empty() {
            return self.begin().await;
        }
        let status = inner.payer.status(current).await;
        let settings = &inner.settings;
        self.dispatch.watch.saw(matches!(status, Ok(TransferStatus::Impossible)));
        match status {
            Ok(TransferStatus::Pending) if self.dispatch.watch.is_over(settings.bump_after) => {
                if self.dispatch.bump().await.is_some() {
                    let _ = self.dispatch.send().await;
                }
            }
            Ok(TransferStatus::Pending) => {
                self.dispatch.watch.moved = self.dispatch.watch.moved.or_else(|| Some(Instant::now()))
            }
            Ok(TransferStatus::Unknown)
                if self.dispatch.watch.moved.is_none() || self.dispatch.watch.is_over(settings.resend_after) =>
            {
                self.dispatch.send_again().await?;
            }
            Ok(TransferStatus::Reverted { .. }) => self.begin().await?,
            Ok(TransferStatus::Impossible) if self.dispatch.watch.is_impossible() => self.begin().await?,
            // Mined: the authorization's status shows the effect.
            Ok(_) => {}
            Err(reason) => {
                // Waiting will not make it this payer's.
                let is_foreign = reason.is_of_another_payer();
                self.dispatch.watch.reason = Some(reason);
                if is_foreign {
                    return Err(self.dispatch.unsettled());
                }
            }
        }
        Ok(())
    }

    /// Prepares a cancellation, records it, and sends it.
    async fn begin(&mut self) -> Result<(), Failure> {
        if self.has_begun {
            return Err(self.not_cancelled(FAILED));
        }
        let inner = self.inner;
        let turn = timeout_at(self.dispatch.deadline, inner.payer.submit_guard(self.dispatch.guard.entry().network));
        let _turn = turn.await.map_err(|_| self.dispatch.unsettled())?;
        let authorizer = inner.authorizer().map_err(|reason| self.not_cancelled(reason))?;
        let prepared = authorizer.prepare_cancellation(&self.authorized).await;
        let prepared = prepared.map_err(|reason| self.not_cancelled(reason))?;
        let recorded = self.dispatch.record(prepared, |_| {}).await;
        recorded.map_err(|error| match error {
            Failure::Declined(denial) => self.not_cancelled(denial),
            Failure::Journal(error) => self.not_cancelled(error),
            error => error,
        })?;
        (self.has_begun, self.dispatch.watch) = (true, Watch::default());
        let _ = self.dispatch.send().await;
        Ok(())
    }

    fn not_cancelled(&self, reason: impl Into<BoxError>) -> Failure {
        not_cancelled(&self.dispatch.guard, reason)
    }
}

fn not_cancelled(guard: &PurchaseGuard, reason: impl Into<BoxError>) -> Failure {
    let JournalEntry { id: purchase, expiry: valid_before, .. } = *guard.entry();
    Failure::NotCancelled { purchase, valid_before, reason: reason.into() }
}
