//! Ledgers that are wrong in one way each, and the checks that must notice.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tower_x402::{
    clock::Clock,
    ledger::{
        AttemptOutcome, Claim, CommitOutcome, Lease, Ledger, LedgerError, MemoryLedger, RenewOutcome, ReserveOutcome,
        conformance::{self, Harness},
    },
    protocol::{ChainTime, IntentKey, PaymentId},
    testing::FakeClock,
};

/// What a ledger does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Looks whether the pair is free, and marks it later.
    CheckThenMark,
    /// Commits for whoever held the payment at any time.
    UnfencedCommit,
    /// Releases for whoever held the payment at any time.
    UnfencedRelease,
    /// Renews for whoever held the payment at any time.
    UnfencedRenewal,
    /// Judges a commit by the clock instead of the fence.
    CommitByTheClock,
    /// Frees what is sold.
    ReleaseFreesSold,
    /// Takes every payment, however old.
    IgnoresMark,
    /// Moves the mark at every begin.
    BeginMovesMark,
    /// Tells what it was told as its mark.
    TellsNoMark,
    /// Forgets a sale in its last second.
    ForgetsEarly,
    /// Forgets no sale.
    ForgetsNever,
    /// Marks the transfer, not the intent.
    IntentUnmarked,
    /// Counts an attempt though the handler was not started.
    NeverRefunds,
    /// Does not count attempts.
    CountsNothing,
}

#[derive(Clone)]
struct Broken {
    fault: Fault,
    inner: MemoryLedger,
    clock: FakeClock,
    begun: Arc<Mutex<Vec<ChainTime>>>,
    /// The present or last lease on each payment, as the caller knows it.
    current: Arc<Mutex<HashMap<PaymentId, Lease>>>,
    /// What the inner ledger granted, by fence, and when.
    granted: Arc<Mutex<HashMap<u64, (Lease, Duration)>>>,
    freed: Arc<Mutex<HashSet<PaymentId>>>,
    counter: Arc<AtomicU64>,
}

impl Broken {
    fn new(fault: Fault, clock: FakeClock) -> Self {
        Self {
            fault,
            inner: MemoryLedger::with_clock(clock.clone()),
            clock,
            begun: Arc::default(),
            current: Arc::default(),
            granted: Arc::default(),
            freed: Arc::default(),
            counter: Arc::new(AtomicU64::new(1 << 40)),
        }
    }

    fn next(&self) -> u64 {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }

    /// The claim as the inner ledger gets it. It keeps a sale as long as the claim says.
    fn bent(&self, claim: &Claim) -> Claim {
        let head = match self.fault {
            Fault::ForgetsEarly => claim.head().unix() + 1,
            Fault::ForgetsNever => 0,
            _ => claim.head().unix(),
        };
        let intent = match self.fault {
            Fault::IntentUnmarked => IntentKey::new(u128::from(self.next()).to_be_bytes()),
            _ => claim.intent(),
        };
        let kept = claim.keep_until(&claim.transfers()[0]).unix();
        let pay_until = ChainTime::from_unix(kept - 86_400 - 180 - 240 - claim.lease().as_secs());
        let (transfers, head) = (claim.transfers().to_vec(), ChainTime::from_unix(head));
        Claim::new(claim.resource(), intent, pay_until, transfers, head, Duration::ZERO, claim.lease())
    }

    fn grant(&self, claim: &Claim, inner: Lease) -> ReserveOutcome {
        let lease = Lease::new(claim, inner.transfer(), inner.fencing_token());
        self.current.lock().unwrap().insert(lease.transfer().key(), lease.clone());
        self.granted.lock().unwrap().insert(lease.fencing_token(), (inner, self.clock.monotonic()));
        ReserveOutcome::Granted(lease)
    }

    /// The inner ledger's lease: this one, or, without fencing, the one that is held on its payment now.
    fn real(&self, lease: &Lease, fenced: bool) -> Lease {
        let current = self.current.lock().unwrap().get(&lease.transfer().key()).map(Lease::fencing_token);
        let fence = if fenced { lease.fencing_token() } else { current.unwrap_or(lease.fencing_token()) };
        self.granted.lock().unwrap().get(&fence).map_or_else(|| lease.clone(), |(real, _)| real.clone())
    }
}

impl Ledger for Broken {
    async fn begin(&self, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.begun.lock().unwrap().push(now);
        let first = self.begun.lock().unwrap()[0];
        match self.fault {
            Fault::IgnoresMark => self.inner.begin(ChainTime::from_unix(0)).await.map(|_| first),
            Fault::TellsNoMark => self.inner.begin(now).await.map(|_| now),
            _ => self.inner.begin(now).await,
        }
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        let last = self.begun.lock().unwrap().last().copied();
        if self.fault == Fault::BeginMovesMark && claim.transfers().iter().any(|paid| Some(paid.block_time) <= last) {
            return Ok(ReserveOutcome::BeforeMemory);
        }
        let bent = self.bent(claim);
        let payment = claim.transfers()[0].key();
        Ok(match self.inner.reserve(&bent).await? {
            ReserveOutcome::Granted(lease) if self.fault == Fault::CheckThenMark => {
                self.inner.release(&lease, AttemptOutcome::NotStarted).await?;
                tokio::task::yield_now().await;
                match self.inner.reserve(&bent).await? {
                    ReserveOutcome::Granted(lease) => self.grant(claim, lease),
                    _ => self.grant(claim, Lease::new(claim, &claim.transfers()[0], self.next())),
                }
            }
            ReserveOutcome::Granted(lease) => self.grant(claim, lease),
            ReserveOutcome::IntentConsumed | ReserveOutcome::PaymentUsed
                if self.freed.lock().unwrap().contains(&payment) =>
            {
                self.grant(claim, Lease::new(claim, &claim.transfers()[0], self.next()))
            }
            refused => refused,
        })
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.inner.renew(&self.real(lease, self.fault != Fault::UnfencedRenewal)).await
    }

    async fn commit(&self, lease: &Lease) -> Result<CommitOutcome, LedgerError> {
        let granted = self.granted.lock().unwrap().get(&lease.fencing_token()).map(|(_, at)| *at);
        if self.fault == Fault::CommitByTheClock
            && granted.is_some_and(|at| at + lease.length() <= self.clock.monotonic())
        {
            return Ok(CommitOutcome::LeaseLost);
        }
        self.inner.commit(&self.real(lease, self.fault != Fault::UnfencedCommit)).await
    }

    async fn release(&self, lease: &Lease, handler: AttemptOutcome) -> Result<(), LedgerError> {
        if self.fault == Fault::ReleaseFreesSold && self.inner.is_consumed(lease.intent()).await? {
            self.freed.lock().unwrap().insert(lease.transfer().key());
        }
        let handler = match self.fault {
            Fault::NeverRefunds => AttemptOutcome::Started,
            Fault::CountsNothing => AttemptOutcome::NotStarted,
            _ => handler,
        };
        self.inner.release(&self.real(lease, self.fault != Fault::UnfencedRelease), handler).await
    }

    async fn is_consumed(&self, intent: IntentKey) -> Result<bool, LedgerError> {
        self.inner.is_consumed(intent).await
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.inner.health().await
    }
}

struct Bench {
    fault: Fault,
    clock: FakeClock,
}

impl Harness for Bench {
    type Ledger = Broken;

    async fn fresh(&self) -> Broken {
        Broken::new(self.fault, self.clock.clone())
    }

    async fn share(&self, ledger: &Broken) -> Broken {
        ledger.clone()
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    fn skips_time(&self) -> bool {
        true
    }

    fn rounds(&self) -> usize {
        10
    }
}

/// The checks that this fault fails.
async fn caught(fault: Fault) -> Vec<&'static str> {
    let bench = Bench { fault, clock: FakeClock::new(0) };
    match conformance::run(&bench).await {
        Ok(_) => Vec::new(),
        Err(violations) => violations.as_slice().iter().map(|violation| violation.check.name).collect(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_fault_is_caught_by_its_check() {
    for (fault, checks) in [
        (Fault::CheckThenMark, &["one_pair", "one_payment_many_intents", "one_intent_many_payments"] as &[_]),
        (Fault::UnfencedCommit, &["taken_over_is_lost", "own_lease_is_taken_over", "one_takes_over"]),
        (Fault::UnfencedRelease, &["release_is_repeatable", "taken_over_is_lost"]),
        (Fault::UnfencedRenewal, &["taken_over_is_lost"]),
        (Fault::CommitByTheClock, &["late_holder_commits", "commit_is_repeatable"]),
        (Fault::ReleaseFreesSold, &["committed_stays"]),
        (Fault::IgnoresMark, &["begin_is_repeatable", "payments_at_or_below_are_refused"]),
        (Fault::BeginMovesMark, &["begin_is_repeatable"]),
        (Fault::TellsNoMark, &["begin_is_repeatable"]),
        (Fault::ForgetsEarly, &["kept_to_the_second"]),
        (Fault::ForgetsNever, &["forgetting_raises_the_mark"]),
        (Fault::IntentUnmarked, &["both_are_consumed", "intent_holds_one", "one_intent_many_payments"]),
        (Fault::NeverRefunds, &["not_started_is_none"]),
        (Fault::CountsNothing, &["sixteen_then_a_pause", "not_started_is_none"]),
    ] {
        let caught = caught(fault).await;
        for check in checks {
            assert!(caught.contains(check), "{fault:?} passed {check}; it was caught by {caught:?}");
        }
    }
}

#[tokio::test]
async fn a_violation_names_check_and_rule() {
    let bench = Bench { fault: Fault::IgnoresMark, clock: FakeClock::new(0) };
    let violation = conformance::run_one(&bench, "payments_at_or_below_are_refused").await.unwrap_err();
    let text = violation.to_string();
    assert!(
        text.starts_with(
            "payments_at_or_below_are_refused: a payment at or below the low-water mark is refused; but \
             a payment at or below the mark: Granted(Lease"
        ),
        "{text}"
    );
    assert!(text.ends_with("instead of ReserveOutcome::BeforeMemory"), "{text}");
}
