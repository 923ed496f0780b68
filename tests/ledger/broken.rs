//! Ledgers that are wrong in one way each, and the checks that must notice.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tower_x402::{
    clock::Clock,
    ledger::{
        Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, MemoryLedger, RenewOutcome, ReserveOutcome, Sale,
        Settling,
        conformance::{self, Harness, KeepsAnswers},
    },
    protocol::{
        Address, Amount, Binding, ChainTime, IntentKey, Network, Payment, PaymentId, PurchaseKey, SignedTransfer,
        TxHash,
    },
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
    /// Forgets the sales of every network by the head of one.
    SweepsEveryNetwork,
    /// Looks at the first candidate alone.
    FirstCandidateAlone,
    /// Begins on a network by itself.
    BeginsEverywhere,
    /// Marks the transfer, not the intent.
    IntentUnmarked,
    /// Knows an authorization by the transaction that used it.
    AuthorizationByPlace,
    /// Knows an authorization by its nonce alone.
    AuthorizationByNonce,
    /// Knows a permit by its token too.
    PermitByToken,
    /// Knows a voucher by its total, whatever it pays for.
    VoucherByTotal,
    /// Takes over what is not settled, whoever's lease ran out on it.
    LapsedIsAnybodys,
    /// Records the payment as it was reserved.
    RecordsTheReservation,
    /// Records for a payment's last holder what a former one tells.
    UnfencedSettling,
    /// Forgets a settlement with its lease.
    ForgetsSettlements,
    /// Tells of no settlement that was begun.
    TellsNoSettling,
    /// Tells the head of a settlement, and no more.
    TellsTheHeadAlone,
    /// Forgets whose a payment is when a commit is dropped on its way.
    LosesDroppedCommits,
    /// Does not look at purchases.
    IgnoresPurchases,
    /// Takes every purchase for one.
    MixesPurchases,
    /// Tells of a used purchase before anything else.
    PurchaseFirst,
    /// Never frees a purchase.
    PurchaseNeverFree,
    /// Leaves the lease that ran out as it is where another payment takes its purchase over, and knows nothing of settlements.
    PurchaseByTheClock,
    /// Takes a purchase for sold only where the claim that was sold named it.
    PurchaseByTheLastClaim,
    /// Keeps no answer.
    KeepsNoAnswer,
    /// Keeps the answer of the last commit.
    KeepsTheLastAnswer,
    /// Keeps an answer whoever commits it.
    KeepsLosersAnswers,
    /// Gives an answer back for as long as it knows the sale.
    KeepsForEver,
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
    /// What it knows of purchases of its own accord.
    purchases: Arc<Mutex<HashMap<PurchaseKey, Held>>>,
    /// What it keeps of its own accord.
    answers: Arc<Mutex<HashMap<IntentKey, Bytes>>>,
    counter: Arc<AtomicU64>,
}

/// Who has a purchase.
#[derive(Clone, Copy)]
struct Held {
    payment: PaymentId,
    fence: u64,
    until: Duration,
    sold: bool,
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
            purchases: Arc::default(),
            answers: Arc::default(),
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
        let kept = claim.keep_until(&claim.payments()[0]).unix();
        let pay_until = ChainTime::from_unix(kept - 86_400 - 180 - 240 - claim.lease().as_secs());
        let (transfers, head) = (self.bent_payments(claim), ChainTime::from_unix(head));
        let purchase = match self.fault {
            Fault::IgnoresPurchases | Fault::PurchaseByTheClock => None,
            Fault::MixesPurchases => Some(PurchaseKey::new([1; 16])),
            _ => claim.purchase(),
        };
        Claim::builder(claim.resource(), intent)
            .purchase(purchase)
            .pay_until(pay_until)
            .payments(transfers)
            .head(head)
            .max_payment_age(Duration::ZERO)
            .lease(claim.lease())
            .build()
    }

    fn bent_payments(&self, claim: &Claim) -> Vec<Payment> {
        let bent = |payment: Payment| match (self.fault, payment) {
            (Fault::AuthorizationByPlace, Payment::Transfer(transfer)) => transfer.with_binding(Binding::none()).into(),
            (Fault::AuthorizationByNonce, Payment::Transfer(transfer)) if transfer.binding.nonce().is_some() => {
                transfer.with_token(Address::ZERO).with_payer(Address::ZERO).into()
            }
            (Fault::AuthorizationByNonce, Payment::Authorization(mut signed)) => {
                (signed.token, signed.payer) = (Address::ZERO, Address::ZERO);
                signed.into()
            }
            (Fault::PermitByToken, Payment::Permit(signed)) => Payment::Authorization(signed),
            (Fault::VoucherByTotal, Payment::Voucher(voucher)) => {
                let total = Amount::from_base_units(voucher.total()).to_be_bytes();
                SignedTransfer::new(voucher.network(), voucher.token, voucher.payer, total)
                    .with_shown(voucher.shown)
                    .into()
            }
            (Fault::LapsedIsAnybodys, Payment::Authorization(signed)) if signed.transaction.is_none() => {
                signed.with_transaction(TxHash::new([9; 32])).into()
            }
            (_, payment) => payment,
        };
        let most = if self.fault == Fault::FirstCandidateAlone { 1 } else { usize::MAX };
        claim.payments().iter().take(most).cloned().map(bent).collect()
    }

    /// What it says of a claim's purchase, of its own accord.
    fn purchase(&self, claim: &Claim) -> Option<ReserveOutcome> {
        let held = *self.purchases.lock().unwrap().get(&claim.purchase()?)?;
        let other = claim.payments()[0].id() != held.payment;
        let busy = ReserveOutcome::Busy { retry_after: Duration::from_secs(1) };
        match self.fault {
            Fault::PurchaseFirst if held.sold && other => Some(ReserveOutcome::PurchaseConsumed),
            Fault::PurchaseNeverFree if !held.sold && other => Some(busy),
            Fault::PurchaseByTheClock if held.sold && other => Some(ReserveOutcome::PurchaseConsumed),
            Fault::PurchaseByTheClock if held.until > self.clock.monotonic() && other => Some(busy),
            _ => None,
        }
    }

    /// What this ledger keeps of an answer that it should not.
    fn keep(&self, intent: IntentKey, outcome: CommitOutcome, answer: Option<&KeptAnswer>) {
        let Some(content) = answer.map(|answer| answer.content().clone()) else { return };
        let mut answers = self.answers.lock().unwrap();
        match (self.fault, outcome) {
            (Fault::KeepsTheLastAnswer, CommitOutcome::Done)
            | (Fault::KeepsLosersAnswers, CommitOutcome::LeaseLost) => drop(answers.insert(intent, content)),
            (Fault::KeepsForEver, CommitOutcome::Done) => drop(answers.entry(intent).or_insert(content)),
            _ => {}
        }
    }

    fn grant(&self, claim: &Claim, inner: Lease) -> ReserveOutcome {
        let lease = Lease::new(claim, inner.payment(), inner.fencing_token());
        let begun = inner.settling().copied().filter(|_| self.fault != Fault::TellsNoSettling);
        let begun = begun.map(|begun| match self.fault {
            Fault::TellsTheHeadAlone => Settling::new([0; 16], begun.head),
            _ => begun,
        });
        let lease = lease.with_settling(begun);
        if let Some(purchase) = claim.purchase() {
            let (payment, fence) = (lease.payment().id(), lease.fencing_token());
            let until = self.clock.monotonic() + claim.lease();
            self.purchases.lock().unwrap().insert(purchase, Held { payment, fence, until, sold: false });
        }
        self.current.lock().unwrap().insert(lease.payment().id(), lease.clone());
        self.granted.lock().unwrap().insert(lease.fencing_token(), (inner, self.clock.monotonic()));
        ReserveOutcome::Granted(lease)
    }

    /// The inner ledger's lease: this one, or, without fencing, the one that is held on its payment now.
    fn real(&self, lease: &Lease, fenced: bool) -> Lease {
        let current = self.current.lock().unwrap().get(&lease.payment().id()).map(Lease::fencing_token);
        let fence = if fenced { lease.fencing_token() } else { current.unwrap_or(lease.fencing_token()) };
        let real = self.granted.lock().unwrap().get(&fence).map(|(real, _)| real.clone());
        let pair = |lease: &Lease| (lease.intent(), lease.payment().id(), lease.fencing_token());
        match real {
            Some(real) if pair(&real) != pair(lease) || self.fault == Fault::RecordsTheReservation => real,
            _ => lease.clone(),
        }
    }
}

impl Ledger for Broken {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.begun.lock().unwrap().push(now);
        let first = self.begun.lock().unwrap()[0];
        match self.fault {
            Fault::IgnoresMark => self.inner.begin(Network::BASE, ChainTime::from_unix(0)).await.map(|_| first),
            Fault::TellsNoMark => self.inner.begin(network, now).await.map(|_| now),
            Fault::BeginsEverywhere => {
                let _ = self.inner.begin(Network::BASE_SEPOLIA, now).await?;
                self.inner.begin(network, now).await
            }
            _ => self.inner.begin(network, now).await,
        }
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        let last = self.begun.lock().unwrap().last().copied();
        if self.fault == Fault::BeginMovesMark && claim.payments().iter().any(|paid| Some(paid.time()) <= last) {
            return Ok(ReserveOutcome::BeforeMemory);
        }
        if let Some(refused) = self.purchase(claim) {
            return Ok(refused);
        }
        let bent = self.bent(claim);
        let payment = claim.payments()[0].id();
        Ok(match self.inner.reserve(&bent).await? {
            ReserveOutcome::Granted(lease) if self.fault == Fault::CheckThenMark => {
                self.inner.release(&lease).await?;
                tokio::task::yield_now().await;
                match self.inner.reserve(&bent).await? {
                    ReserveOutcome::Granted(lease) => self.grant(claim, lease),
                    _ => self.grant(claim, Lease::new(claim, &claim.payments()[0], self.next())),
                }
            }
            ReserveOutcome::Granted(lease) => self.grant(claim, lease),
            ReserveOutcome::PurchaseConsumed
                if self.fault == Fault::PurchaseByTheLastClaim
                    && !claim.purchase().is_some_and(|purchase| {
                        self.purchases.lock().unwrap().get(&purchase).is_some_and(|held| held.sold)
                    }) =>
            {
                self.grant(claim, Lease::new(claim, &claim.payments()[0], self.next()))
            }
            ReserveOutcome::IntentConsumed | ReserveOutcome::PaymentUsed
                if self.freed.lock().unwrap().contains(&payment) =>
            {
                self.grant(claim, Lease::new(claim, &claim.payments()[0], self.next()))
            }
            refused => refused,
        })
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.inner.renew(&self.real(lease, self.fault != Fault::UnfencedRenewal)).await
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        self.inner.settling(&self.real(lease, self.fault != Fault::UnfencedSettling), settling).await
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.inner.not_settled(&self.real(lease, self.fault != Fault::UnfencedSettling)).await
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        let granted = self.granted.lock().unwrap().get(&lease.fencing_token()).map(|(_, at)| *at);
        if self.fault == Fault::CommitByTheClock
            && granted.is_some_and(|at| at + lease.length() <= self.clock.monotonic())
        {
            return Ok(CommitOutcome::LeaseLost);
        }
        if self.fault == Fault::LosesDroppedCommits {
            let payment = lease.payment().id();
            if !self.freed.lock().unwrap().insert(payment) {
                return Ok(CommitOutcome::LeaseLost);
            }
            tokio::task::yield_now().await;
            self.freed.lock().unwrap().remove(&payment);
        }
        let kept = answer.filter(|_| self.fault != Fault::KeepsNoAnswer);
        let outcome = self.inner.commit(&self.real(lease, self.fault != Fault::UnfencedCommit), kept).await?;
        self.keep(lease.intent(), outcome, answer);
        if outcome == CommitOutcome::Done {
            let mut purchases = self.purchases.lock().unwrap();
            let held = purchases.values_mut().filter(|held| held.fence == lease.fencing_token());
            held.for_each(|held| held.sold = true);
        }
        Ok(outcome)
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        if self.fault == Fault::ReleaseFreesSold && self.inner.consumed(lease.intent()).await?.is_some() {
            self.freed.lock().unwrap().insert(lease.payment().id());
        }
        if self.fault != Fault::PurchaseNeverFree {
            let is_held = |held: &Held| held.sold || held.fence != lease.fencing_token();
            self.purchases.lock().unwrap().retain(|_, held| is_held(held));
        }
        if self.fault == Fault::ForgetsSettlements {
            self.inner.not_settled(lease).await?;
        }
        self.inner.release(&self.real(lease, self.fault != Fault::UnfencedRelease)).await
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        let sale = self.inner.consumed(intent).await?;
        let own = self.answers.lock().unwrap().get(&intent).cloned();
        Ok(sale.map(|sale| if own.is_some() { sale.with_answer(own) } else { sale }))
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        let begun = self.inner.begun(intent, payment).await?;
        Ok(begun.filter(|_| self.fault != Fault::TellsNoSettling))
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        match self.fault {
            Fault::ForgetsEarly => self.inner.sweep(network, head.after(Duration::from_secs(1))).await,
            Fault::ForgetsNever => Ok(0),
            Fault::SweepsEveryNetwork => {
                let _ = self.inner.sweep(Network::BASE, head).await?;
                self.inner.sweep(network, head).await
            }
            _ => self.inner.sweep(network, head).await,
        }
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.inner.health().await
    }

    fn answer_space(&self) -> Option<usize> {
        self.inner.answer_space()
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

impl KeepsAnswers for Bench {
    async fn with_answer_space(&self, bytes: usize) -> Broken {
        let broken = self.fresh().await;
        Broken { inner: broken.inner.answers_up_to(bytes).unwrap(), ..broken }
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
        (
            Fault::CheckThenMark,
            &["one_pair", "one_payment_many_intents", "one_intent_many_payments", "one_purchase_many_payments"]
                as &[_],
        ),
        (Fault::UnfencedCommit, &["taken_over_is_lost", "own_lease_is_taken_over", "one_takes_over"]),
        (Fault::UnfencedRelease, &["release_is_repeatable", "taken_over_is_lost"]),
        (Fault::UnfencedRenewal, &["taken_over_is_lost", "a_lost_renewal_changes_nothing"]),
        (Fault::CommitByTheClock, &["late_holder_commits", "commit_is_repeatable"]),
        (Fault::ReleaseFreesSold, &["committed_stays"]),
        (Fault::IgnoresMark, &["begin_is_repeatable", "payments_at_or_below_are_refused"]),
        (Fault::BeginMovesMark, &["begin_is_repeatable"]),
        (Fault::TellsNoMark, &["begin_is_repeatable"]),
        (Fault::ForgetsEarly, &["kept_to_the_second"]),
        (Fault::ForgetsNever, &["forgetting_raises_the_mark", "forgotten_with_its_sale"]),
        (Fault::SweepsEveryNetwork, &["forgetting_is_its_own", "settlements_are_its_own"]),
        (Fault::FirstCandidateAlone, &["payments_above_are_taken", "each_candidate_has_its_own_mark"]),
        (Fault::BeginsEverywhere, &["each_has_its_own_mark", "not_begun_sells_nothing"]),
        (Fault::IntentUnmarked, &["both_are_consumed", "intent_holds_one", "one_intent_many_payments"]),
        (Fault::AuthorizationByPlace, &["an_authorization_is_one_payment", "a_lease_follows_its_authorization"]),
        (Fault::AuthorizationByNonce, &["authorizations_are_told_apart"]),
        (Fault::PermitByToken, &["permits_are_told_apart", "a_permit_is_settled_and_sold"]),
        (Fault::VoucherByTotal, &["a_voucher_pays_once_for_its_intent"]),
        (
            Fault::LapsedIsAnybodys,
            &[
                "its_own_intent_goes_on",
                "a_foreign_claim_changes_nothing",
                "refused_as_if_held",
                "only_its_intent_resumes",
                "no_second_beside_it",
            ],
        ),
        (Fault::RecordsTheReservation, &["recorded_as_settled"]),
        (Fault::UnfencedSettling, &["only_the_holder_records"]),
        (
            Fault::ForgetsSettlements,
            &[
                "a_release_leaves_the_record",
                "the_last_record_counts",
                "what_was_begun_is_undecided",
                "what_was_begun_keeps_it",
            ],
        ),
        (
            Fault::TellsNoSettling,
            &[
                "its_own_intent_goes_on",
                "kept_for_its_intent",
                "only_its_intent_resumes",
                "found_by_intent_and_payment",
                "one_record_for_each_intent_and_payment",
            ],
        ),
        (Fault::TellsTheHeadAlone, &["the_last_record_counts", "its_own_intent_goes_on"]),
        (Fault::LosesDroppedCommits, &["a_dropped_commit_is_repeated"]),
        (
            Fault::IgnoresPurchases,
            &[
                "another_payment_waits",
                "one_payment_buys_it",
                "told_behind_intent_and_payment",
                "one_purchase_many_payments",
                "what_was_begun_is_undecided",
                "what_was_begun_keeps_it",
                "forgotten_with_its_sale",
            ],
        ),
        (Fault::MixesPurchases, &["without_a_name_all_are_free"]),
        (Fault::PurchaseFirst, &["told_behind_intent_and_payment"]),
        (Fault::PurchaseNeverFree, &["what_is_not_sold_is_free", "a_lease_that_ran_out_gives_way"]),
        (
            Fault::PurchaseByTheClock,
            &["a_lease_that_ran_out_gives_way", "one_takes_over_a_purchase", "what_was_begun_is_undecided"],
        ),
        (Fault::PurchaseByTheLastClaim, &["what_was_begun_keeps_it"]),
        (Fault::KeepsNoAnswer, &["kept_byte_for_byte", "kept_from_the_commit_on"]),
        (Fault::KeepsTheLastAnswer, &["a_repeated_commit_keeps_the_first"]),
        (Fault::KeepsLosersAnswers, &["a_lost_lease_keeps_nothing"]),
        (Fault::KeepsForEver, &["kept_for_its_time", "a_repeated_commit_keeps_the_first", "for_no_time_none_is_kept"]),
    ] {
        let caught = caught(fault).await;
        for check in checks {
            assert!(caught.contains(check), "{fault:?} passed {check}; it was caught by {caught:?}");
        }
    }
}

#[tokio::test]
async fn a_ledger_that_ignores_its_space_is_caught() {
    for (fault, checks) in [
        (Fault::KeepsForEver, &["answers_stay_within_the_space", "one_beyond_all_space_is_not_kept"] as &[_]),
        (Fault::KeepsNoAnswer, &["answers_stay_within_the_space", "space_comes_back"]),
    ] {
        let bench = Bench { fault, clock: FakeClock::new(0) };
        let violations = conformance::run_space(&bench).await.unwrap_err();
        let caught: Vec<_> = violations.as_slice().iter().map(|violation| violation.check.name).collect();
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
