//! From the request for a reservation to its commit or release: `PendingReservation`, then `LeaseGuard`.

use std::{
    future::Future,
    ops::ControlFlow,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::Notify,
    time::{Instant, sleep, timeout},
};

use crate::{
    ledger::{
        Boxed, Claim, CommitOutcome, ErasedLedger, KeptAnswer, LaterSlices, Lease, LedgerError, RenewOutcome,
        ReserveOutcome, Sale, Settling,
    },
    metrics::HeldLease,
    paywall::{
        sale::upkeep::{HoldOutcome, Renewal, keep},
        seller::{
            attempts::{Attempts, Claimed},
            time_limits::within,
        },
    },
    protocol::{Amount, ChainTime, IntentKey, Payment, TxHash},
    settle::TransactionRecorder,
};

/// How long a response waits for the release of its intent and payment.
const RELEASE_WAIT: Duration = Duration::from_secs(2);
/// How long an answer waits for its commit, and how often that is tried.
const COMMIT_WAIT: Duration = Duration::from_secs(5);
const COMMIT_TRY: Duration = Duration::from_secs(2);
/// How long recording that a payment is about to be settled may take.
const SETTLING_WAIT: Duration = Duration::from_secs(2);
const COMMIT_PAUSE: Duration = Duration::from_millis(100);
/// How long a try takes at least that may fail for the length of an answer. Ledgers end theirs after nearly two seconds.
const SLOW: Duration = Duration::from_secs(1);
/// How long an answer may be, in bytes, that any connection to a ledger stores within one try.
const LARGE: usize = 64 * 1024;

/// A reservation that was requested and is not answered yet.
///
/// Dropped before the answer, because the client left or the ledger took too long, it must not leave a lease behind that blocks
/// the payment until it runs out: the answer is awaited in the background, and a lease that it grants is released.
///
/// A claim on many candidates is several requests, one after the other; dropped, the later ones are not made.
pub(crate) struct PendingReservation {
    ledger: Arc<dyn ErasedLedger>,
    /// `None` once it is answered, and while it is polled: what panicked must not be polled again.
    request: Option<Boxed<'static, ReserveOutcome>>,
    later: Option<Box<LaterSlices>>,
    lease: Duration,
    runtime: Option<Handle>,
}

impl PendingReservation {
    pub(crate) fn new(ledger: &Arc<dyn ErasedLedger>, claim: Claim) -> Self {
        let (ledger, lease) = (Arc::clone(ledger), claim.lease());
        let (claim, later) = claim.into_slices();
        let request = Some(Arc::clone(&ledger).reserve(claim));
        Self { ledger, request, later, lease, runtime: Handle::try_current().ok() }
    }
}

impl Future for PendingReservation {
    type Output = Result<ReserveOutcome, LedgerError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            let Some(mut request) = self.request.take() else { return Poll::Pending };
            let answer = request.as_mut().poll(cx);
            if answer.is_pending() {
                self.request = Some(request);
            }
            let (Some(later), Poll::Ready(Ok(outcome))) = (&mut self.later, &answer) else { return answer };
            match later.after(outcome.clone()) {
                ControlFlow::Continue(slice) => self.request = Some(Arc::clone(&self.ledger).reserve(slice)),
                ControlFlow::Break(outcome) => return Poll::Ready(Ok(outcome)),
            }
        }
    }
}

impl Drop for PendingReservation {
    fn drop(&mut self) {
        let (Some(request), Some(runtime)) = (self.request.take(), self.runtime.take()) else { return };
        let (ledger, patience) = (Arc::clone(&self.ledger), self.lease);
        drop(runtime.spawn(async move {
            if let Ok(Ok(ReserveOutcome::Granted(lease))) = timeout(patience, request).await {
                tracing::debug!(intent = %lease.intent(), "granted too late; released");
                let _ = timeout(RELEASE_WAIT, ledger.release(&lease)).await;
            }
        }));
    }
}

/// Holds a lease on an intent and a payment.
///
/// Dropped before it is settled, it releases the pair in the background. That is a courtesy: the lease runs out anyway.
pub(crate) struct LeaseGuard {
    ledger: Arc<dyn ErasedLedger>,
    lease: Lease,
    claimed: Claimed,
    /// Committed, released or lost: nothing is left to do.
    settled: bool,
    runtime: Option<Handle>,
    attempts: Arc<Attempts>,
    /// The handler was started under this lease: an attempt, unless its answer is sold.
    started: AtomicBool,
    /// The payment may be on its way to be settled: the lease is left to run out, so that the same payment is not sent twice at once.
    kept: bool,
    /// The first transaction that was recorded under this lease, and then sent.
    sent: Option<Arc<OnceLock<TxHash>>>,
    _held: HeldLease,
}

/// The ledger's record of a settlement, under its lease.
#[derive(Clone)]
pub(crate) struct Records {
    /// Each transaction, before it is sent.
    pub(crate) sent: TransactionRecorder,
    /// The transaction that was recorded under an earlier lease.
    pub(crate) earlier: Option<TxHash>,
    ledger: Arc<dyn ErasedLedger>,
    lease: Lease,
    /// The digest of the request.
    request: [u8; 16],
}

impl Records {
    /// Records the payment as settled by this transaction, where the settler's word is all there ever is. Tries again for a while if the
    /// ledger does not answer.
    pub(crate) async fn settled_by(&self, transaction: TxHash, at: ChainTime) {
        let end = Instant::now() + COMMIT_WAIT;
        let settling = Settling::confirmed(self.request, transaction, at);
        loop {
            match timeout(SETTLING_WAIT, self.ledger.settling(&self.lease, &settling)).await {
                Ok(Ok(RenewOutcome::Held)) => return,
                failed if matches!(failed, Ok(Ok(_))) || Instant::now() + COMMIT_PAUSE >= end => {
                    tracing::error!(%transaction, ?failed, "that the payment is settled could not be recorded");
                    return;
                }
                _ => sleep(COMMIT_PAUSE).await,
            }
        }
    }
}

/// How a commit ended.
pub(crate) enum Committed {
    Done,
    LeaseLost,
    /// The ledger did not answer.
    Unknown,
}

impl LeaseGuard {
    pub(crate) fn new(ledger: Arc<dyn ErasedLedger>, lease: Lease, claimed: Claimed, attempts: &Arc<Attempts>) -> Self {
        Self {
            ledger,
            lease,
            claimed,
            settled: false,
            runtime: Handle::try_current().ok(),
            attempts: Arc::clone(attempts),
            started: AtomicBool::new(false),
            kept: false,
            sent: None,
            _held: HeldLease::new(),
        }
    }

    /// The payment that is held.
    pub(crate) fn payment(&self) -> &Payment {
        self.lease.payment()
    }

    /// The same, shared.
    pub(crate) const fn shared_payment(&self) -> &Arc<Payment> {
        self.lease.shared_payment()
    }

    /// The intent that is held.
    pub(crate) const fn intent(&self) -> IntentKey {
        self.lease.intent()
    }

    /// The settlement that was begun for this intent under an earlier lease.
    pub(crate) fn begun(&self) -> Option<&Settling> {
        self.lease.settling()
    }

    /// Records that the payment is about to be settled; unless that is held, it must not be. From then on the lease is left to run out.
    pub(crate) async fn begin_settling(&mut self, settling: Settling) -> Result<RenewOutcome, LedgerError> {
        let settling = self.since_first(settling);
        let recorded = timeout(SETTLING_WAIT, self.ledger.settling(&self.lease, &settling)).await;
        let outcome = recorded.unwrap_or(Err(LedgerError::unavailable()));
        self.kept = outcome == Ok(RenewOutcome::Held);
        outcome
    }

    /// Receives the results of a way to pay during the settlement.
    pub(crate) fn records(&mut self, settling: Settling) -> Records {
        let (ledger, lease, request) = (Arc::clone(&self.ledger), self.lease.clone(), settling.request);
        let earlier = self.begun().and_then(|begun| begun.transaction);
        Records { sent: self.recorder(settling), earlier, ledger, lease, request }
    }

    /// Records the transaction that settles the payment, before it is sent.
    fn recorder(&mut self, settling: Settling) -> TransactionRecorder {
        let (ledger, lease, settling) = (Arc::clone(&self.ledger), self.lease.clone(), self.since_first(settling));
        let sent = Arc::clone(self.sent.get_or_insert_default());
        TransactionRecorder::new(move |transaction| {
            let (ledger, lease, sent) = (Arc::clone(&ledger), lease.clone(), Arc::clone(&sent));
            let settling = settling.with_transaction(transaction);
            async move {
                let recorded = timeout(SETTLING_WAIT, ledger.settling(&lease, &settling)).await;
                let is_held = matches!(recorded, Ok(Ok(RenewOutcome::Held)));
                if is_held {
                    let _ = sent.set(transaction);
                } else {
                    tracing::warn!(%transaction, ?recorded, "a transaction could not be recorded");
                }
                is_held
            }
        })
    }

    /// The settlement that was begun by now: under an earlier lease, or by a transaction that was sent under this one.
    pub(crate) fn begun_by_now(&self, settling: Settling) -> Option<Settling> {
        match self.sent.as_ref().and_then(|sent| sent.get()) {
            Some(sent) => Some(self.since_first(settling).with_transaction(*sent)),
            None => self.begun().copied(),
        }
    }

    /// The record of a settlement that may have been begun before: since then, by the transaction that is known already.
    fn since_first(&self, settling: Settling) -> Settling {
        let Some(begun) = self.begun() else { return settling };
        let (head, transaction) = (begun.head.min(settling.head), settling.transaction.or(begun.transaction));
        Settling { head, transaction, ..settling }
    }

    /// The payment is certainly not settled under this lease: removes the record that it may be, and tells whether the lease was held
    /// until now. Under another one it may be settled.
    pub(crate) async fn is_not_settled(&mut self) -> bool {
        self.kept = false;
        let removed = timeout(SETTLING_WAIT, self.ledger.not_settled(&self.lease)).await;
        if !matches!(removed, Ok(Ok(()))) {
            tracing::warn!(intent = %self.lease.intent(), ?removed, "the payment stays with its intent, though it is not settled");
        }
        let renewed = timeout(SETTLING_WAIT, self.ledger.renew(&self.lease)).await;
        !matches!(renewed, Ok(Ok(RenewOutcome::LeaseLost)))
    }

    /// What had to be sent for the payment is settled, and nothing is sold: the record of that stays. It is not sent again, so that the lease
    /// need not run out.
    pub(crate) const fn is_settled(&mut self) {
        self.kept = false;
    }

    /// The payment is settled, so: the sale is recorded with it. It is not sent again, so that the lease need not run out,
    /// and the record of its settlement keeps it for its intent.
    pub(crate) fn paid_by(&mut self, payment: Payment) {
        (self.kept, self.lease) = (false, self.lease.clone().settled_by(payment));
    }

    /// This part of what the payer allowed is charged: the sale is recorded with it.
    pub(crate) fn charge(&mut self, charge: Amount) {
        self.lease = self.lease.clone().charging(charge);
    }

    /// The most that the payer allowed, where a part of it is charged.
    pub(crate) const fn maximum(&self) -> Option<Amount> {
        self.lease.maximum()
    }

    /// A hook waits for the sale: the commit marks it.
    pub(crate) fn announce_later(&mut self) {
        self.lease = self.lease.clone().announcing();
    }

    /// Returns how long the payment has to cool down before another attempt by this claim.
    pub(crate) fn cooling(&self) -> Option<Duration> {
        self.attempts.cooling(&self.lease, self.claimed)
    }

    /// Counts this attempt from here on.
    pub(crate) fn handler_started(&self) {
        self.started.store(true, Ordering::Relaxed);
    }

    /// Does not count it after all: the service failed before it reached the handler.
    pub(crate) fn handler_not_reached(&self) {
        self.started.store(false, Ordering::Relaxed);
    }

    /// Runs `work` and renews the lease beside it.
    pub(crate) async fn keep<T>(
        &self,
        max_hold: Duration,
        late: Option<&Notify>,
        work: Pin<&mut impl Future<Output = T>>,
    ) -> HoldOutcome<T> {
        let renew =
            || -> Renewal<'_> { Box::pin(async { Ok(self.ledger.renew(&self.lease).await? == RenewOutcome::Held) }) };
        keep(self.lease.length(), max_hold, late, work, renew, self.lease.intent()).await
    }

    /// Records the sale, and tries again for a while if the ledger does not answer. After a try that took long, the sale is
    /// recorded without a large answer: that may be what takes so long, and would take as long each time. One that an earlier try has
    /// kept stays.
    pub(crate) async fn commit(&mut self, mut answer: Option<&KeptAnswer>) -> Committed {
        let mut tried = Instant::now();
        let mut end = tried + COMMIT_WAIT;
        loop {
            let left = || COMMIT_TRY.min(end.saturating_duration_since(Instant::now()));
            match within(left, self.ledger.commit(&self.lease, answer)).await {
                Some(Ok(CommitOutcome::Done)) => {
                    self.settled = true;
                    self.handler_not_reached();
                    self.attempts.sold(&self.lease);
                    return Committed::Done;
                }
                Some(Ok(CommitOutcome::LeaseLost)) => return Committed::LeaseLost,
                failed => {
                    tracing::warn!(intent = %self.lease.intent(), ?failed, "sale not recorded yet; trying again");
                    if Instant::now() + COMMIT_PAUSE >= end {
                        return Committed::Unknown;
                    }
                    let is_large = answer.is_some_and(|answer| answer.content().len() > LARGE);
                    if is_large && tried.elapsed() > SLOW {
                        tracing::warn!("the ledger takes too long to keep an answer: it is sold and not kept");
                        answer = None;
                        // What is sold without an answer that is kept must not end unknown for want of a try.
                        end = Instant::now() + COMMIT_WAIT;
                    }
                    sleep(COMMIT_PAUSE).await;
                    tried = Instant::now();
                }
            }
        }
    }

    /// Releases the pair, unless its payment may be settled, and waits a moment for it, so that an immediate retry finds the pair free.
    pub(crate) async fn release(mut self) {
        if self.kept {
            return;
        }
        let released = timeout(RELEASE_WAIT, self.ledger.release(&self.lease)).await;
        self.settled = matches!(released, Ok(Ok(())));
        if !self.settled {
            tracing::warn!(intent = %self.lease.intent(), ?released, "lease not released; it runs out by itself");
        }
    }

    /// The lease belongs to another request now: there is nothing to release. Returns what the intent bought, as far as the
    /// ledger can tell.
    pub(crate) async fn lost(mut self) -> Option<Sale> {
        self.settled = true;
        timeout(RELEASE_WAIT, self.ledger.consumed(self.lease.intent())).await.ok()?.ok()?
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        if *self.started.get_mut() {
            self.attempts.failed(&self.lease, self.claimed);
        }
        let Some(runtime) = self.runtime.take().filter(|_| !self.settled && !self.kept) else { return };
        let (ledger, lease) = (Arc::clone(&self.ledger), self.lease.clone());
        // On a runtime that is shutting down the task is dropped unrun, and the lease runs out by itself.
        drop(runtime.spawn(async move {
            let released = timeout(RELEASE_WAIT, ledger.release(&lease)).await;
            tracing::debug!(intent = %lease.intent(), released = matches!(released, Ok(Ok(()))), "lease released on drop");
        }));
    }
}
