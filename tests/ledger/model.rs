//! A model that keeps the whole history and derives every answer from it, and the memory ledger against it.

use std::time::{Duration, Instant};

use proptest::{collection::vec, prelude::*, sample::select};
use tower_x402::{
    ledger::{
        Claim, CommitOutcome, KeptAnswer, Lease, Ledger as _, Maintenance, MemoryLedger, RenewOutcome, ReserveOutcome,
        Settling,
    },
    protocol::{Binding, ChainTime, IntentKey, Network, Payment, PaymentId, PurchaseKey, SignedTransfer, Transfer},
    testing::FakeClock,
};

use super::{LEASE, claim, claim_for, paid};

pub const MARK: u64 = 1_000_000;
const PAY_UNTIL: u64 = MARK + 40;
/// How much longer than block time or intent a sale is kept.
const KEPT: u64 = 2 * 86_400 + 180 + 60 + 240;
/// Ledgers forget idle leases after an hour; the model does not.
const LIFETIME: Duration = Duration::from_secs(3_500);

/// How many payments there are, the last one below the mark.
const PAYMENTS: usize = 9;

/// Two transactions with two transfers each; one authorization in two transactions, and before it was settled; one that is not
/// settled at all; one payment below the mark. Equal amounts.
fn payments() -> [Payment; PAYMENTS] {
    let nonce = |name| Binding::none().with_nonce([name; 32]);
    [
        (1, 0, 50, Binding::none()),
        (1, 1, 50, Binding::none()),
        (2, 0, 20, Binding::none()),
        (2, 1, 90, Binding::none()),
        (4, 0, 30, nonce(4)),
        (5, 2, 30, nonce(4)),
        (0, 0, 30, nonce(4)),
        (0, 0, 60, nonce(6)),
        (3, 0, 0, Binding::none()),
    ]
    .map(|(tx, position, t, binding)| match tx {
        0 => signed(&paid(0, 0, MARK + t).with_binding(binding)),
        _ => paid(tx, position, MARK + t).with_binding(binding).into(),
    })
}

/// The authorization that this transfer is made from.
fn signed(paid: &Transfer) -> Payment {
    SignedTransfer::new(paid.network, paid.token, paid.payer, paid.binding.nonce().copied().unwrap_or_default())
        .with_recipient(paid.recipient)
        .with_amount(paid.amount)
        .with_shown(paid.block_time)
        .into()
}

/// As it is settled: the authorization that is shown also as settled after that, the other before it was reserved.
fn mined(unsettled: &Payment) -> Transfer {
    let t = if unsettled.time().unix() == MARK + 60 { 15 } else { 85 };
    let mut mined =
        paid(7, 4, MARK + t).with_binding(Binding::none().with_nonce(unsettled.nonce().copied().unwrap_or_default()));
    mined.block_number += 1;
    mined
}

/// A ledger, and a hand on the clock of its leases.
pub trait Bench {
    fn ledger(&self) -> &impl Maintenance;

    async fn pass(&self, span: Duration);

    /// How much time passes in a whole run beside that, at most.
    fn drift(&self) -> Duration;

    /// Whether what was sold and forgotten is in a book, by which it is refused.
    fn keeps_book(&self) -> bool;
}

#[derive(Clone, Debug)]
pub enum Step {
    Reserve {
        intent: u8,
        payments: Vec<usize>,
        head: u64,
        /// The purchase that it names.
        purchase: Option<u8>,
    },
    Renew(usize),
    /// Begin to settle, for the request of this name.
    Settling(usize, u8),
    NotSettled(usize),
    /// With an answer that is kept so long, or with none; and where it was not settled, after that.
    Commit(usize, Option<Duration>, bool),
    Release(usize),
    Pass(Duration),
    /// Seconds after the first mark.
    Begin(u64),
    Raise(u64),
}

/// Spans as a clock that is moved by hand can tell them apart.
fn spans() -> impl Strategy<Value = Duration> {
    prop_oneof![
        4 => (0..40_u64).prop_map(Duration::from_secs),
        2 => Just(LEASE),
        1 => (40..900_u64).prop_map(Duration::from_secs),
        1 => (0..2_000_u64).prop_map(Duration::from_millis),
    ]
}

pub fn steps(spans: impl Strategy<Value = Duration> + 'static, most: usize) -> impl Strategy<Value = Vec<Step>> {
    // Heads around the ends of what is kept.
    let heads: Vec<u64> = [40, 50, 85, 90].into_iter().flat_map(|t| [MARK + t + KEPT, MARK + t + KEPT + 1]).collect();
    let head = prop_oneof![12 => Just(MARK + 100), 1 => select(heads)];
    let keep_for = prop_oneof![1 => Just(None), 2 => select(vec![0, 60, 400, 100_000])
        .prop_map(|seconds| Some(Duration::from_secs(seconds)))];
    let step = prop_oneof![
        16 => (0..3_u8, vec(0..PAYMENTS, 1..4), head, select(vec![None, None, Some(0), Some(0), Some(1)])).prop_map(
            |(intent, payments, head, purchase)| Step::Reserve { intent, payments, head, purchase }
        ),
        4 => any::<usize>().prop_map(Step::Renew),
        6 => (any::<usize>(), 0..3_u8).prop_map(|(lease, request)| Step::Settling(lease, request)),
        2 => any::<usize>().prop_map(Step::NotSettled),
        4 => (any::<usize>(), keep_for, any::<bool>())
            .prop_map(|(lease, keep_for, settled)| Step::Commit(lease, keep_for, settled)),
        6 => any::<usize>().prop_map(Step::Release),
        10 => spans.prop_map(Step::Pass),
        1 => (0..100_u64).prop_map(Step::Begin),
        1 => select(vec![10, 20, 30, 50]).prop_map(Step::Raise),
    ];
    vec(step, 1..most)
}

/// One grant and what became of it.
struct Grant {
    lease: Lease,
    purchase: Option<PurchaseKey>,
    until: Duration,
    keep_until: ChainTime,
    end: End,
    /// How long its answer is kept.
    answer_until: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// Held, or run out and not taken over.
    Open,
    /// Released or taken over.
    Vain,
    Sold,
    Forgotten,
}

#[derive(Default)]
struct Model {
    now: Duration,
    raised: u64,
    keeps_book: bool,
    history: Vec<Grant>,
    begun: Vec<Begun>,
}

/// A settlement that was begun, and did not end.
#[derive(Clone, Copy)]
struct Begun {
    intent: IntentKey,
    payment: PaymentId,
    purchase: Option<PurchaseKey>,
    settling: Settling,
    keep_until: ChainTime,
}

/// How another payment stands in the way of a purchase.
enum Rival {
    Sold,
    Until(Duration),
}

impl Model {
    fn mark(&self) -> ChainTime {
        let forgotten = self.history.iter().filter(|grant| grant.end == End::Forgotten);
        let forgotten = forgotten.map(|grant| grant.lease.payment().time()).max();
        forgotten.max(Some(ChainTime::from_unix(MARK + self.raised))).unwrap()
    }

    fn reserve(&mut self, claim: &Claim) -> Expected {
        for grant in self.history.iter_mut().filter(|grant| grant.end == End::Sold) {
            if grant.keep_until < claim.head() {
                grant.end = End::Forgotten;
            }
        }
        let (now, mark) = (self.now, self.mark());
        let keeps_book = self.keeps_book;
        let sold = |grant: &&Grant| grant.end == End::Sold || keeps_book && grant.end == End::Forgotten;
        let live = |grant: &&Grant| grant.end == End::Open && grant.until > now;
        if self.history.iter().filter(sold).any(|grant| grant.lease.intent() == claim.intent()) {
            return Expected::Is(ReserveOutcome::IntentConsumed);
        }
        let on = |paid: &Payment| {
            let key = paid.id();
            move |grant: &&Grant| grant.lease.payment().id() == key
        };
        let unsold: Vec<_> = claim
            .payments()
            .iter()
            .filter(|paid| !self.history.iter().filter(sold).any(|grant| on(paid)(&grant)))
            .collect();
        if unsold.is_empty() {
            return Expected::Is(ReserveOutcome::PaymentUsed);
        }
        if matches!(self.rival(claim, unsold[0]), Some(Rival::Sold)) {
            return Expected::Is(ReserveOutcome::PurchaseConsumed);
        }
        let live: Vec<_> = self.history.iter().filter(live).collect();
        if let Some(grant) = live.iter().find(|grant| grant.lease.intent() == claim.intent()) {
            return Expected::Is(ReserveOutcome::IntentHeld { retry_after: grant.until - now });
        }
        // What was begun keeps the payment for its intent, and the intent for the payment.
        let kept = |paid: &Payment| {
            let of = |begun: &Begun| [begun.intent == claim.intent(), begun.payment == paid.id()];
            !paid.is_settled() && self.begun.iter().any(|begun| matches!(of(begun), [true, false] | [false, true]))
        };
        let until = |paid: &Payment| {
            let until = live.iter().find(|grant| on(paid)(grant)).map(|grant| grant.until);
            until.or_else(|| kept(paid).then(|| now + claim.lease()))
        };
        let mut frees_at = None::<Duration>;
        for paid in unsold {
            let until = match (self.rival(claim, paid), until(paid)) {
                (Some(Rival::Sold), _) => return Expected::Is(ReserveOutcome::PurchaseConsumed),
                (_, Some(until)) | (Some(Rival::Until(until)), None) => until,
                (None, None) if paid.time() > mark => {
                    return Expected::Grant(paid.clone(), self.begun_for(claim, paid));
                }
                (None, None) => continue,
            };
            frees_at = Some(frees_at.map_or(until, |least| least.min(until)));
        }
        Expected::Is(match frees_at {
            Some(until) => ReserveOutcome::Busy { retry_after: until - now },
            None => ReserveOutcome::BeforeMemory,
        })
    }

    /// The purchase that a grant would be for: that of a settlement which was begun, of the payment or else for the intent, or the
    /// claim's.
    fn purchase(&self, claim: &Claim, paid: &Payment) -> Option<PurchaseKey> {
        let of_payment = self.begun.iter().find(|begun| begun.payment == paid.id()).and_then(|begun| begun.purchase);
        let of_intent = self.begun.iter().find(|begun| begun.intent == claim.intent()).and_then(|begun| begun.purchase);
        of_payment.or(of_intent).or(claim.purchase())
    }

    fn rival(&self, claim: &Claim, paid: &Payment) -> Option<Rival> {
        let purchase = self.purchase(claim, paid)?;
        let others = || {
            self.history
                .iter()
                .filter(|grant| grant.purchase == Some(purchase) && grant.lease.payment().id() != paid.id())
        };
        if others().any(|grant| grant.end == End::Sold) {
            return Some(Rival::Sold);
        }
        if let Some(grant) = others().find(|grant| grant.end == End::Open && grant.until > self.now) {
            return Some(Rival::Until(grant.until));
        }
        let waits = |begun: &Begun| {
            begun.purchase == Some(purchase) && begun.payment != paid.id() && begun.intent != claim.intent()
        };
        self.begun.iter().any(waits).then(|| Rival::Until(self.now + claim.lease()))
    }

    /// The settlement of this payment that was begun for the claim's intent.
    fn begun_for(&self, claim: &Claim, paid: &Payment) -> Option<Settling> {
        let of = |begun: &&Begun| begun.intent == claim.intent() && begun.payment == paid.id();
        self.begun.iter().find(of).map(|begun| begun.settling)
    }

    fn granted(&mut self, claim: &Claim, lease: Lease) {
        let purchase = self.purchase(claim, lease.payment());
        for grant in self.history.iter_mut().filter(|grant| grant.end == End::Open) {
            let is_same = grant.lease.intent() == lease.intent() || grant.lease.payment().id() == lease.payment().id();
            if is_same || purchase.is_some() && grant.purchase == purchase {
                grant.end = End::Vain;
            }
        }
        let (until, keep_until) = (self.now + claim.lease(), claim.keep_until(lease.payment()));
        self.history.push(Grant { lease, purchase, until, keep_until, end: End::Open, answer_until: None });
    }
}

enum Expected {
    Is(ReserveOutcome),
    /// With the settlement that was begun.
    Grant(Payment, Option<Settling>),
}

/// The memory ledger under a clock that is moved by hand.
struct Memory {
    ledger: MemoryLedger,
    clock: FakeClock,
}

impl Bench for Memory {
    fn ledger(&self) -> &impl Maintenance {
        &self.ledger
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    fn drift(&self) -> Duration {
        Duration::ZERO
    }

    fn keeps_book(&self) -> bool {
        false
    }
}

/// Whether a ledger that remembers nothing does as the model.
pub async fn check(bench: &impl Bench, steps: &[Step]) -> Result<(), TestCaseError> {
    bench.ledger().begin(Network::BASE, ChainTime::from_unix(MARK)).await.unwrap();
    let mut run = Run { bench, model: Model { keeps_book: bench.keeps_book(), ..Model::default() } };
    let start = Instant::now();
    for step in steps {
        if !bench.drift().is_zero() && start.elapsed() >= bench.drift() {
            // A machine that is this slow proves nothing.
            return Ok(());
        }
        let agrees = run.step(step.clone()).await;
        if bench.drift().is_zero() || start.elapsed() < bench.drift() {
            agrees?;
        }
    }
    Ok(())
}

/// The memory ledger against its model.
pub async fn check_memory(steps: &[Step]) -> Result<(), TestCaseError> {
    let clock = FakeClock::new(0);
    check(&Memory { ledger: MemoryLedger::with_clock(clock.clone()), clock }, steps).await
}

struct Run<'b, B> {
    bench: &'b B,
    model: Model,
}

impl<B: Bench> Run<'_, B> {
    async fn reserve(&mut self, claim: &Claim) -> Result<bool, TestCaseError> {
        let over = |begun: &Begun| begun.keep_until < claim.head();
        // Ledgers forget sooner or later, or when they are told to.
        self.bench.ledger().sweep(Network::BASE, claim.head()).await.unwrap();
        self.model.begun.retain(|begun| !over(begun));
        let expected = self.model.reserve(claim);
        let got = self.bench.ledger().reserve(claim).await.unwrap();
        match (expected, got) {
            (Expected::Grant(paid, begun), ReserveOutcome::Granted(lease)) => {
                prop_assert_eq!(lease.payment(), &paid);
                prop_assert_eq!(lease.settling().copied(), begun);
                prop_assert!(
                    self.model.history.iter().all(|grant| grant.lease.fencing_token() != lease.fencing_token())
                );
                self.model.granted(claim, lease);
                Ok(true)
            }
            (Expected::Grant(paid, _), other) => {
                prop_assert!(false, "expected a grant of {paid:?}, got {other:?}");
                Ok(false)
            }
            (Expected::Is(expected), got) => {
                prop_assert!(self.agrees(&got, &expected), "expected {expected:?}, got {got:?}");
                Ok(false)
            }
        }
    }

    /// The same; or the same but for what passed of its time meanwhile.
    fn agrees(&self, got: &ReserveOutcome, expected: &ReserveOutcome) -> bool {
        use ReserveOutcome::{Busy, IntentHeld};
        match (got, expected) {
            (Busy { retry_after: got }, Busy { retry_after: expected })
            | (IntentHeld { retry_after: got }, IntentHeld { retry_after: expected })
                if !self.bench.drift().is_zero() =>
            {
                // Databases count in milliseconds.
                let most = *expected + Duration::from_millis(2);
                *got <= most && *got + self.bench.drift() >= *expected
            }
            _ => got == expected,
        }
    }

    async fn release(&mut self, index: usize) {
        let grant = &mut self.model.history[index];
        self.bench.ledger().release(&grant.lease).await.unwrap();
        if grant.end == End::Open {
            grant.end = End::Vain;
        }
    }

    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let (now, count) = (self.model.now, self.model.history.len());
        match step {
            Step::Reserve { intent, payments: chosen, head, purchase } => {
                let all = payments();
                let chosen: Vec<_> = chosen.into_iter().map(|index| all[index].clone()).collect();
                let purchase = purchase.map(|name| PurchaseKey::new([name; 16]));
                self.reserve(&claim_for(purchase, intent, &chosen, PAY_UNTIL, head)).await?;
            }
            Step::Pass(span) => {
                if now + span <= LIFETIME {
                    self.model.now += span;
                    self.bench.pass(span).await;
                }
            }
            Step::Begin(after) => {
                let mark = self.bench.ledger().begin(Network::BASE, ChainTime::from_unix(MARK + after)).await.unwrap();
                prop_assert!(mark.unix() >= MARK);
            }
            Step::Raise(after) => {
                let mark =
                    self.bench.ledger().raise_mark_to(Network::BASE, ChainTime::from_unix(MARK + after)).await.unwrap();
                self.model.raised = self.model.raised.max(after);
                prop_assert_eq!(mark, Some(self.model.mark()));
            }
            Step::Renew(index) if count > 0 => {
                let grant = &mut self.model.history[index % count];
                let expected = if grant.end == End::Open { RenewOutcome::Held } else { RenewOutcome::LeaseLost };
                prop_assert_eq!(self.bench.ledger().renew(&grant.lease).await.unwrap(), expected);
                if expected == RenewOutcome::Held {
                    grant.until = now + LEASE;
                }
            }
            Step::Settling(index, request) if count > 0 => {
                let grant = &mut self.model.history[index % count];
                let (intent, payment, purchase) = (grant.lease.intent(), grant.lease.payment().id(), grant.purchase);
                let settling = Settling::new([request; 16], ChainTime::from_unix(MARK + u64::from(request)));
                let expected = if grant.end == End::Open { RenewOutcome::Held } else { RenewOutcome::LeaseLost };
                prop_assert_eq!(self.bench.ledger().settling(&grant.lease, &settling).await.unwrap(), expected);
                if expected == RenewOutcome::Held {
                    grant.until = now + LEASE;
                    let keep_until = grant.lease.keep_until();
                    self.model.begun.retain(|begun| begun.intent != intent && begun.payment != payment);
                    self.model.begun.push(Begun { intent, payment, purchase, settling, keep_until });
                }
            }
            Step::NotSettled(index) if count > 0 => {
                let grant = &self.model.history[index % count];
                let (intent, payment) = (grant.lease.intent(), grant.lease.payment().id());
                self.bench.ledger().not_settled(&grant.lease).await.unwrap();
                if grant.end == End::Open {
                    self.model.begun.retain(|begun| begun.intent != intent || begun.payment != payment);
                }
            }
            Step::Commit(index, keep_for, settled) if count > 0 => {
                let grant = &mut self.model.history[index % count];
                if grant.end == End::Open && settled && !grant.lease.payment().is_settled() {
                    let mined = mined(grant.lease.payment());
                    let keep_until = ChainTime::from_unix(mined.block_time.unix().max(PAY_UNTIL) + KEPT);
                    grant.keep_until = grant.keep_until.max(keep_until);
                    grant.lease = grant.lease.clone().settled_by(mined);
                }
                let done = matches!(grant.end, End::Open | End::Sold);
                let expected = if done { CommitOutcome::Done } else { CommitOutcome::LeaseLost };
                let answer = keep_for.map(|keep_for| KeptAnswer::new(content(&grant.lease), keep_for));
                prop_assert_eq!(self.bench.ledger().commit(&grant.lease, answer.as_ref()).await.unwrap(), expected);
                if grant.end == End::Open {
                    grant.answer_until = keep_for.map(|keep_for| now + keep_for);
                }
                if grant.end == End::Open {
                    let (intent, payment) = (grant.lease.intent(), grant.lease.payment().id());
                    self.model.begun.retain(|begun| begun.intent != intent && begun.payment != payment);
                }
                if done {
                    grant.end = End::Sold;
                }
            }
            Step::Release(index) if count > 0 => self.release(index % count).await,
            Step::Renew(_) | Step::Settling(..) | Step::NotSettled(_) | Step::Commit(..) | Step::Release(..) => {}
        }
        self.compare().await
    }

    /// What can be seen without touching anything.
    async fn compare(&self) -> Result<(), TestCaseError> {
        let of = |end: End| self.model.history.iter().filter(move |grant| grant.end == end);
        for intent in 0..3 {
            let intent = claim::<Payment>(intent, &[], 0, 0).intent();
            let sold = of(End::Sold).find(|grant| grant.lease.intent() == intent);
            let told = self.bench.ledger().consumed(intent).await.unwrap();
            prop_assert_eq!(told.is_some(), sold.is_some());
            if let (Some(told), Some(sold)) = (told, sold) {
                self.compare_answer(sold, told.answer.as_deref())?;
            }
        }
        prop_assert_eq!(self.bench.ledger().low_water_mark(Network::BASE).await, Ok(Some(self.model.mark())));
        let size = self.bench.ledger().size().await.unwrap();
        let [held, sold] = [size.held, size.remembered].map(|number| number as usize);
        prop_assert_eq!((held, sold), (of(End::Open).count(), of(End::Sold).count()));
        Ok(())
    }
}

impl<B: Bench> Run<'_, B> {
    /// The answer that is kept; or none any more, but for what passed of its time meanwhile.
    fn compare_answer(&self, sold: &Grant, told: Option<&[u8]>) -> Result<(), TestCaseError> {
        let (now, drift) = (self.model.now, self.bench.drift());
        // Databases count in milliseconds.
        let slack = if drift.is_zero() { drift } else { Duration::from_millis(2) };
        match sold.answer_until {
            Some(until) if now + drift < until => prop_assert_eq!(told, Some(&*content(&sold.lease))),
            Some(until) if now < until + slack => {}
            _ => prop_assert_eq!(told, None),
        }
        Ok(())
    }
}

/// What is answered under a lease.
fn content(lease: &Lease) -> Vec<u8> {
    lease.fencing_token().to_be_bytes().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn the_memory_ledger_does_as_its_model(steps in steps(spans(), 80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(check_memory(&steps))?;
    }
}
