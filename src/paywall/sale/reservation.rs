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
/// How long an answer waits for its commit in total, and then, how long each try may take.
const COMMIT_WAIT: Duration = Duration::from_secs(5);
const COMMIT_TRY: Duration = Duration::from_secs(2);
/// How long the ledger may take to record that a payment is about to be settled.
const SETTLING_WAIT: Duration = Duration::from_secs(2);
const COMMIT_PAUSE: Duration = Duration::from_millis(100);
/// A failed try of at least this length may be due to the size of the answer. Ledgers end their tries after nearly two seconds.
const SLOW: Duration = Duration::from_secs(1);
/// The size of an answer in bytes that any connection to a ledger can store within one try.
const LARGE: usize = 64 * 1024;

/// A requested reservation that the ledger has not answered yet.
///
/// It may be dropped before the answer, because the client left or the ledger took too long. Then the answer is awaited in the background,
/// and a lease that it grants is released. Otherwise that lease would block the payment until it runs out.
///
/// A claim on many candidates is a sequence of requests. After a drop, the later ones are not made.
pub(crate) struct PendingReservation {
    ledger: Arc<dyn ErasedLedger>,
    /// `None` once it is answered, and during each poll: a future that panicked must not be polled again.
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
/// If it is dropped before it is settled, it releases the pair in the background. Without that, the lease would run out by itself.
pub(crate) struct LeaseGuard {
    ledger: Arc<dyn ErasedLedger>,
    lease: Lease,
    claimed: Claimed,
    /// Committed, released or lost: nothing is left to do.
    settled: bool,
    runtime: Option<Handle>,
    attempts: Arc<Attempts>,
    /// Whether the handler was started under this lease. That is an attempt, unless its answer is sold.
    started: AtomicBool,
    /// Whether the payment may be on its way to settlement. The lease is then left to run out, so that the payment is not sent twice at
    /// once.
    kept: bool,
    /// The first transaction that was recorded, and then sent, under this lease.
    sent: Option<Arc<OnceLock<TxHash>>>,
    _held: HeldLease,
}

/// The ledger's record of a settlement, under its lease.
#[derive(Clone)]
pub(crate) struct Records {
    /// Records each transaction before it is sent.
    pub(crate) sent: TransactionRecorder,
    /// The transaction that was recorded under an earlier lease.
    pub(crate) earlier: Option<TxHash>,
    ledger: Arc<dyn ErasedLedger>,
    lease: Lease,
    /// The digest of the request.
    request: [u8; 16],
}

impl Records {
    /// Records that this transaction settled the payment, where the settler's report is the only evidence. Retries for a while if the
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

/// Whether a lease was held until now. Only then does its holder know that no other request settles the payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UntilNow {
    Held,
    LeaseLost,
    /// The ledger did not answer.
    Unknown,
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

    /// The held payment.
    pub(crate) fn payment(&self) -> &Payment {
        self.lease.payment()
    }

    /// The same, shared.
    pub(crate) const fn shared_payment(&self) -> &Arc<Payment> {
        self.lease.shared_payment()
    }

    /// The held intent.
    pub(crate) const fn intent(&self) -> IntentKey {
        self.lease.intent()
    }

    /// The settlement that began for this intent under an earlier lease.
    pub(crate) fn begun(&self) -> Option<&Settling> {
        self.lease.settling()
    }

    /// Records that the payment is about to be settled. Unless that returns `Held`, the payment must not be settled. After that, the lease
    /// is left to run out.
    pub(crate) async fn begin_settling(&mut self, settling: Settling) -> Result<RenewOutcome, LedgerError> {
        let settling = self.since_first(settling);
        let recorded = timeout(SETTLING_WAIT, self.ledger.settling(&self.lease, &settling)).await;
        let outcome = recorded.unwrap_or(Err(LedgerError::unavailable()));
        self.kept = outcome == Ok(RenewOutcome::Held);
        outcome
    }

    /// Returns the recorder of what a way to pay does during the settlement.
    pub(crate) fn records(&mut self, settling: Settling) -> Records {
        let (ledger, lease, request) = (Arc::clone(&self.ledger), self.lease.clone(), settling.request);
        let earlier = self.begun().and_then(|begun| begun.transaction);
        Records { sent: self.recorder(settling), earlier, ledger, lease, request }
    }

    /// Returns the recorder for a transaction that settles the payment. It runs before the transaction is sent.
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

    /// Returns the settlement that has begun by now: under an earlier lease, or with a transaction sent under this one.
    pub(crate) fn begun_by_now(&self, settling: Settling) -> Option<Settling> {
        match self.sent.as_ref().and_then(|sent| sent.get()) {
            Some(sent) => Some(self.since_first(settling).with_transaction(*sent)),
            None => self.begun().copied(),
        }
    }

    /// Merges the record of a settlement with an earlier one: the earlier beginning, and the transaction that is already known.
    fn since_first(&self, settling: Settling) -> Settling {
        let Some(begun) = self.begun() else { return settling };
        let (head, transaction) = (begun.head.min(settling.head), settling.transaction.or(begun.transaction));
        Settling { head, transaction, ..settling }
    }

    /// Removes the record that the payment may be settled, because it certainly is not settled under this lease. Returns whether the lease
    /// was held until now; if not, the payment may be settled under another one.
    pub(crate) async fn is_not_settled(&mut self) -> UntilNow {
        self.kept = false;
        let removed = timeout(SETTLING_WAIT, self.ledger.not_settled(&self.lease)).await;
        if !matches!(removed, Ok(Ok(()))) {
            tracing::warn!(intent = %self.lease.intent(), ?removed, "the payment stays with its intent, though it is not settled");
        }
        let renewed = timeout(SETTLING_WAIT, self.ledger.renew(&self.lease)).await;
        match renewed {
            Ok(Ok(RenewOutcome::Held)) => UntilNow::Held,
            Ok(Ok(RenewOutcome::LeaseLost)) => UntilNow::LeaseLost,
            Ok(Err(_)) | Err(_) => UntilNow::Unknown,
        }
    }

    /// Marks that everything sent for the payment is settled, and nothing is sold. The record stays. Nothing is sent again, so the lease
    /// need not run out.
    pub(crate) const fn is_settled(&mut self) {
        self.kept = false;
    }

    /// Takes the payment as it was settled; the sale is recorded with it. The payment is not sent again, so the lease need not run out, and
    /// the record of its settlement keeps it for its intent.
    pub(crate) fn paid_by(&mut self, payment: Payment) {
        (self.kept, self.lease) = (false, self.lease.clone().settled_by(payment));
    }

    /// Sets the charged part of what the payer allowed; the sale is recorded with it.
    pub(crate) fn charge(&mut self, charge: Amount) {
        self.lease = self.lease.clone().charging(charge);
    }

    /// The most that the payer allowed, where only a part of it is charged.
    pub(crate) const fn maximum(&self) -> Option<Amount> {
        self.lease.maximum()
    }

    /// Has the commit mark the sale for a hook.
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

    /// Uncounts this attempt: the service failed before it reached the handler.
    pub(crate) fn handler_not_reached(&self) {
        self.started.store(false, Ordering::Relaxed);
    }

    /// Runs `work`, and renews the lease meanwhile.
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

    /// Records the sale, and retries for a while if the ledger does not answer. After a slow try, the sale is recorded without a large
    /// answer: its size may be the cause, and would slow each try. An answer that an earlier try stored stays.
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
                        // The smaller commit gets its full time, so that the outcome does not stay unknown for lack of a try.
                        end = Instant::now() + COMMIT_WAIT;
                    }
                    sleep(COMMIT_PAUSE).await;
                    tried = Instant::now();
                }
            }
        }
    }

    /// Releases the pair, unless its payment may be settled. Waits a moment for that, so that an immediate retry finds the pair free.
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

    /// Marks the lease as belonging to another request: there is nothing to release. Returns what the intent bought, as far as the ledger
    /// knows.
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
        // If the runtime is shutting down, the task never runs, and the lease runs out by itself.
        drop(runtime.spawn(async move {
            let released = timeout(RELEASE_WAIT, ledger.release(&lease)).await;
            tracing::debug!(intent = %lease.intent(), released = matches!(released, Ok(Ok(()))), "lease released on drop");
        }));
    }
}
