//! A reservation on an account, from request to charge or release: `PendingDraw`, then `DrawGuard`.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::Notify,
    task::AbortHandle,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    ledger::{
        AccountId, AccountMemo, Boxed, ChargeOutcome, Draw, DrawLease, DrawOutcome, DrawRenewal, ErasedLedger,
        LedgerError, accounts_of,
    },
    metrics::HeldLease,
    paywall::sale::upkeep::{HoldOutcome, Renewal, keep},
    protocol::Amount,
};

/// How long a response waits for the release of its draw.
const RELEASE_WAIT: Duration = Duration::from_secs(2);
/// How long an answer waits for its charge in total, and then, how long each try may take.
const CHARGE_WAIT: Duration = Duration::from_secs(5);
const CHARGE_TRY: Duration = Duration::from_secs(2);
const CHARGE_PAUSE: Duration = Duration::from_millis(100);

/// A requested draw that the ledger has not answered yet.
///
/// It may be dropped before the answer, because the client left or the ledger took too long. Then the answer is awaited in the background,
/// and a lease that it grants is released.
pub(crate) struct PendingDraw {
    ledger: Arc<dyn ErasedLedger>,
    /// `None` once it is answered, and during each poll: a future that panicked must not be polled again.
    request: Option<Boxed<'static, DrawOutcome>>,
    lease: Duration,
    runtime: Option<Handle>,
}

impl PendingDraw {
    pub(crate) fn new(ledger: &Arc<dyn ErasedLedger>, draw: Draw) -> Self {
        let (asked, lease) = (Arc::clone(ledger), draw.lease());
        let request: Boxed<'static, DrawOutcome> = Box::pin(async move { accounts_of(&*asked)?.draw(&draw).await });
        Self { ledger: Arc::clone(ledger), request: Some(request), lease, runtime: Handle::try_current().ok() }
    }
}

impl Future for PendingDraw {
    type Output = Result<DrawOutcome, LedgerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(mut request) = self.request.take() else { return Poll::Pending };
        let answer = request.as_mut().poll(cx);
        if answer.is_pending() {
            self.request = Some(request);
        }
        answer
    }
}

impl Drop for PendingDraw {
    fn drop(&mut self) {
        let (Some(request), Some(runtime)) = (self.request.take(), self.runtime.take()) else { return };
        let (ledger, patience) = (Arc::clone(&self.ledger), self.lease);
        drop(runtime.spawn(async move {
            if let Ok(Ok(DrawOutcome::Granted(lease))) = timeout(patience, request).await {
                tracing::debug!(account = %lease.account(), "granted too late; released");
                let _ = timeout(RELEASE_WAIT, release(&*ledger, &lease)).await;
            }
        }));
    }
}

async fn release(ledger: &dyn ErasedLedger, lease: &DrawLease) -> Result<(), LedgerError> {
    accounts_of(ledger)?.release_draw(lease).await
}

/// Holds a part of a pass.
///
/// If it is dropped before it is settled, it gives the part back in the background. Without that, the lease would run out by itself.
pub(crate) struct DrawGuard {
    ledger: Arc<dyn ErasedLedger>,
    lease: DrawLease,
    /// Charged, released or lost: nothing is left to do.
    settled: bool,
    runtime: Option<Handle>,
    _held: HeldLease,
}

/// How a charge ended.
pub(crate) enum Charged {
    /// Charged; this amount is left on the account.
    Done(Amount),
    LeaseLost,
    /// The ledger did not answer.
    Unknown,
}

impl DrawGuard {
    pub(crate) fn new(ledger: Arc<dyn ErasedLedger>, lease: DrawLease) -> Self {
        Self { ledger, lease, settled: false, runtime: Handle::try_current().ok(), _held: HeldLease::new() }
    }

    /// The account's memo, as of the grant.
    pub(crate) const fn memo(&self) -> &AccountMemo {
        self.lease.memo()
    }

    /// The account's note (what was last read of it), as of the grant.
    pub(crate) const fn note(&self) -> &AccountMemo {
        self.lease.note()
    }

    pub(crate) const fn account(&self) -> AccountId {
        self.lease.account()
    }

    /// Runs `work`, and renews the lease meanwhile.
    pub(crate) async fn keep<T>(
        &self,
        max_hold: Duration,
        late: Option<&Notify>,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> HoldOutcome<T> {
        let renew = || -> Renewal<'_> {
            Box::pin(async {
                let renewed = accounts_of(&*self.ledger)?.renew_draw(&self.lease).await?;
                Ok(renewed == DrawRenewal::Held)
            })
        };
        keep(self.lease.length(), max_hold, late, work, renew, self.account()).await
    }

    /// The held amount.
    pub(crate) const fn amount(&self) -> Amount {
        self.lease.amount()
    }

    /// Spends this amount of the held one, and stores a memo on the account in the same step. Retries for a while if the ledger does not
    /// answer.
    pub(crate) async fn charge_part(&mut self, amount: Amount, memo: Option<&AccountMemo>) -> Charged {
        let end = Instant::now() + CHARGE_WAIT;
        loop {
            let charge = async { accounts_of(&*self.ledger)?.charge(&self.lease, amount, memo).await };
            match timeout_at(end.min(Instant::now() + CHARGE_TRY), charge).await {
                Ok(Ok(ChargeOutcome::Done { left })) => {
                    self.settled = true;
                    return Charged::Done(left);
                }
                Ok(Ok(ChargeOutcome::LeaseLost | ChargeOutcome::TooMuch)) => {
                    self.settled = true;
                    return Charged::LeaseLost;
                }
                failed => {
                    tracing::warn!(account = %self.account(), ?failed, "call not charged yet; trying again");
                    if Instant::now() + CHARGE_PAUSE >= end {
                        return Charged::Unknown;
                    }
                    sleep(CHARGE_PAUSE).await;
                }
            }
        }
    }

    /// Ends the lease by taking back this amount of charges made under earlier leases. Stores a memo on the account in the same step.
    pub(crate) async fn take_back(&mut self, amount: Amount, memo: &AccountMemo) -> Result<ChargeOutcome, LedgerError> {
        let taken = async { accounts_of(&*self.ledger)?.take_back(&self.lease, amount, Some(memo)).await };
        let outcome = timeout(CHARGE_TRY, taken).await.unwrap_or(Err(LedgerError::unavailable()))?;
        // After `TooMuch` the lease is still held.
        self.settled = !matches!(outcome, ChargeOutcome::TooMuch);
        Ok(outcome)
    }

    /// Gives back the held amount. Waits a moment for that, so that an immediate retry finds it free.
    pub(crate) async fn release(mut self) {
        self.give_back().await;
    }

    async fn give_back(&mut self) {
        let released = timeout(RELEASE_WAIT, release(&*self.ledger, &self.lease)).await;
        self.settled = matches!(released, Ok(Ok(())));
        if !self.settled {
            tracing::warn!(account = %self.account(), ?released, "not given back; the lease runs out by itself");
        }
    }

    /// Renews the draw in the background from now on. The work that it is held for runs under another lease.
    pub(crate) fn renewed(self) -> RenewedDraw {
        let (ledger, lease) = (Arc::clone(&self.ledger), self.lease.clone());
        let renewal = self.runtime.as_ref().map(|runtime| {
            let renew = async move {
                loop {
                    sleep(lease.length() / 3).await;
                    let renewed = async { accounts_of(&*ledger)?.renew_draw(&lease).await };
                    if timeout(lease.length() / 3, renewed).await == Ok(Ok(DrawRenewal::LeaseLost)) {
                        return;
                    }
                }
            };
            runtime.spawn(renew).abort_handle()
        });
        RenewedDraw { guard: self, renewal }
    }

    /// Marks the draw as belonging to another call: there is nothing to give back.
    pub(crate) fn lost(mut self) {
        self.settled = true;
    }
}

/// A draw that is renewed until this value is dropped or its draw released.
pub(crate) struct RenewedDraw {
    pub(crate) guard: DrawGuard,
    renewal: Option<AbortHandle>,
}

impl RenewedDraw {
    /// Gives back the held amount, and waits a moment for that.
    pub(crate) async fn release(mut self) {
        self.guard.give_back().await;
    }
}

impl Drop for RenewedDraw {
    fn drop(&mut self) {
        if let Some(renewal) = &self.renewal {
            renewal.abort();
        }
    }
}

impl Drop for DrawGuard {
    fn drop(&mut self) {
        let Some(runtime) = self.runtime.take().filter(|_| !self.settled) else { return };
        let (ledger, lease) = (Arc::clone(&self.ledger), self.lease.clone());
        // If the runtime is shutting down, the task never runs, and the lease runs out by itself.
        drop(runtime.spawn(async move {
            let released = timeout(RELEASE_WAIT, release(&*ledger, &lease)).await;
            tracing::debug!(account = %lease.account(), released = matches!(released, Ok(Ok(()))), "call given back on drop");
        }));
    }
}
