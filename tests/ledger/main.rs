//! Is it spent? The memory ledger against the conformance suite, the suite against broken ledgers, and a reference model.
#![cfg(all(
    feature = "axum",
    feature = "devchain",
    feature = "evm",
    feature = "facilitator",
    feature = "metrics",
    feature = "page",
    feature = "postgres",
    feature = "redis",
    feature = "reqwest",
    feature = "sqlite",
    feature = "wallet"
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    async_fn_in_trait,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub
)]

mod accounts;
mod announced;
mod any;
pub mod backends;
mod broken;
#[allow(dead_code, unused_macros, reason = "each program uses a part of it")]
#[path = "../kinds/mod.rs"]
mod kinds;
pub mod model;
#[allow(dead_code, reason = "each program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

use std::{sync::Arc, time::Duration};

use tower_x402::{
    ledger::{
        Claim, CommitOutcome, Ledger, LedgerError, Maintenance, MemoryLedger, RenewOutcome, ReserveOutcome, Settling,
        conformance::{self, CHECKS, Harness, KeepsAnswers},
    },
    protocol::{
        Address, Amount, ChainTime, IntentKey, Network, Payment, PurchaseKey, SignedTransfer, Transfer, TxHash,
    },
    testing::FakeClock,
};

const LEASE: Duration = Duration::from_secs(60);
const AGE: Duration = Duration::from_secs(86_400);

/// The memory ledger under a clock that is moved by hand.
struct Memory {
    clock: FakeClock,
    rounds: usize,
}

impl Memory {
    fn new(rounds: usize) -> Self {
        Self { clock: FakeClock::new(0), rounds }
    }
}

impl Harness for Memory {
    type Ledger = MemoryLedger;

    async fn fresh(&self) -> MemoryLedger {
        MemoryLedger::with_clock(self.clock.clone())
    }

    async fn share(&self, ledger: &MemoryLedger) -> MemoryLedger {
        ledger.clone()
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    fn skips_time(&self) -> bool {
        true
    }

    fn rounds(&self) -> usize {
        self.rounds
    }
}

impl KeepsAnswers for Memory {
    async fn with_answer_space(&self, bytes: usize) -> MemoryLedger {
        self.fresh().await.answers_up_to(bytes).unwrap()
    }
}

/// The memory ledger under the machine's clock, behind a shared handle.
struct RealTime;

impl Harness for RealTime {
    type Ledger = Arc<MemoryLedger>;

    async fn fresh(&self) -> Arc<MemoryLedger> {
        Arc::default()
    }

    async fn share(&self, ledger: &Arc<MemoryLedger>) -> Arc<MemoryLedger> {
        Arc::clone(ledger)
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    fn skips_time(&self) -> bool {
        false
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(400)
    }

    fn rounds(&self) -> usize {
        10
    }
}

fn paid(name: u8, position: u32, block_time: u64) -> Transfer {
    Transfer::new(Network::BASE, TxHash::new([name; 32]), position)
        .with_token(Address::new([1; 20]))
        .with_payer(Address::new([2; 20]))
        .with_recipient(Address::new([3; 20]))
        .with_amount(Amount::from_base_units(490_000))
        .with_block(block_time / 2, ChainTime::from_unix(block_time))
}

fn claim<P: Clone + Into<Payment>>(intent: u8, payments: &[P], pay_until: u64, head: u64) -> Claim {
    claim_for(None, intent, payments, pay_until, head)
}

fn claim_for<P: Clone + Into<Payment>>(
    purchase: Option<PurchaseKey>,
    intent: u8,
    payments: &[P],
    pay_until: u64,
    head: u64,
) -> Claim {
    let [pay_until, head] = [pay_until, head].map(ChainTime::from_unix);
    Claim::builder("insights", IntentKey::new([intent; 16]))
        .purchase(purchase)
        .pay_until(pay_until)
        .payments(payments.to_vec())
        .head(head)
        .max_payment_age(AGE)
        .lease(LEASE)
        .build()
}

/// A settlement that was begun keeps the payment for its intent, and is forgotten where age rules out that the payment comes back.
async fn is_kept_for_its_intent<H: Harness<Ledger: Maintenance>>(harness: &H) {
    const MARK: u64 = 1_000_000;
    let (pay_until, hours) = (MARK + 40, Duration::from_secs(3 * 3_600));
    let unsettled = |name: u8| {
        let paid = paid(0, 0, MARK + 30);
        let signed = SignedTransfer::new(paid.network, paid.token, paid.payer, [name; 32]);
        Payment::from(signed.with_recipient(paid.recipient).with_amount(paid.amount).with_shown(paid.block_time))
    };
    let ledger = harness.fresh().await;
    ledger.begin(Network::BASE, ChainTime::from_unix(MARK)).await.unwrap();
    // More of each than any ledger forgets in one step of its own.
    for name in 1..=40 {
        let of = |intent, payment: Payment| claim(intent, &[payment], pay_until, MARK + 100);
        for claim in [of(name, unsettled(name)), of(name + 100, paid(name, 0, MARK + 30).into())] {
            let ReserveOutcome::Granted(lease) = ledger.reserve(&claim).await.unwrap() else { panic!("it is free") };
            if !lease.payment().is_settled() {
                let begun = Settling::new([name; 16], claim.head());
                assert_eq!(ledger.settling(&lease, &begun).await, Ok(RenewOutcome::Held));
            }
        }
    }
    let foreign = |head| claim(200, &[unsettled(7)], pay_until, head);
    let last = foreign(MARK).keep_until(&unsettled(7)).unix();
    for head in [MARK + 100, last] {
        harness.pass(hours).await;
        assert_eq!(ledger.sweep(Network::BASE, ChainTime::from_unix(head)).await, Ok(0));
        assert_eq!(ledger.size().await.unwrap().held, 0, "leases are forgotten");
        assert_eq!(ledger.reserve(&foreign(head)).await, Ok(ReserveOutcome::Busy { retry_after: LEASE }));
    }
    harness.pass(hours).await;
    assert_eq!(ledger.sweep(Network::BASE, ChainTime::from_unix(last + 1)).await, Ok(0));
    assert_eq!(ledger.size().await.unwrap().held, 0);
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(ChainTime::from_unix(MARK))), "nothing was sold");
    assert!(matches!(ledger.reserve(&foreign(last + 1)).await.unwrap(), ReserveOutcome::Granted(_)));
}

#[tokio::test]
async fn what_was_begun_to_be_settled_is_kept_for_its_intent() {
    is_kept_for_its_intent(&Memory::new(1)).await;
}

async fn sell(ledger: &MemoryLedger, claim: &Claim) {
    let ReserveOutcome::Granted(lease) = ledger.reserve(claim).await.unwrap() else { panic!("it is free") };
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
}

#[tokio::test]
async fn answers_stay_within_their_space() {
    let report = conformance::run_space(&Memory::new(1)).await.unwrap();
    assert!(!report.passed.is_empty() && report.left_out.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_memory_ledger_conforms() {
    let report = conformance::run(&Memory::new(100)).await.unwrap();
    assert_eq!((report.passed.len(), report.left_out.len()), (CHECKS.len(), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_ledger_conforms_in_real_time() {
    let report = conformance::run(&RealTime).await.unwrap();
    assert!(report.left_out.iter().all(|check| check.takes_minutes));
    assert_eq!(report.passed.len() + report.left_out.len(), CHECKS.len());
}

/// 64 tasks, 1,000 rounds, from a barrier; exactly one delivery in each.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_at_once_one_is_answered_a_thousand_times() {
    for race in ["one_pair", "one_delivery"] {
        assert_eq!(conformance::run_one(&Memory::new(1_000), race).await, Ok(true));
    }
}

#[tokio::test]
async fn an_unknown_check_is_not_made() {
    assert_eq!(conformance::run_one(&Memory::new(1), "no_such_check").await, Ok(false));
}

#[tokio::test]
async fn a_restart_refuses_what_was_paid_before_it() {
    let (start, restart) = (1_000_000, 1_000_500);
    let before = MemoryLedger::new();
    before.begin(Network::BASE, ChainTime::from_unix(start)).await.unwrap();
    let payments: Vec<_> = (0..=10).map(|n| paid(n, 0, restart - 10 + u64::from(n))).collect();
    for (intent, payment) in payments.iter().enumerate().skip(5) {
        sell(&before, &claim(intent as u8, std::slice::from_ref(payment), restart, restart)).await;
    }
    let after = MemoryLedger::new();
    let unbegun = claim(99, &payments[..1], restart, restart);
    assert_eq!(after.reserve(&unbegun).await, Err(LedgerError::unavailable()));
    after.begin(Network::BASE, ChainTime::from_unix(restart)).await.unwrap();
    for payment in &payments {
        let replay = claim(payment.transaction.as_bytes()[0], std::slice::from_ref(payment), restart, restart + 1);
        assert_eq!(after.reserve(&replay).await, Ok(ReserveOutcome::BeforeMemory), "sold or not: nobody can tell");
    }
    sell(&after, &claim(100, &[paid(100, 0, restart + 1)], restart, restart + 1)).await;
}

/// To the second: later of block time and intent's end, plus age, a day to be mined again, head lag, lease, twice the skew.
#[tokio::test]
async fn a_sale_is_forgotten_a_second_after_it_could_come_back() {
    let (mark, mined) = (1_000_000, 1_000_010);
    for pay_until in [mined - 5, mined, mined + 900] {
        let ledger = MemoryLedger::new();
        ledger.begin(Network::BASE, ChainTime::from_unix(mark)).await.unwrap();
        let payment = [paid(1, 0, mined)];
        sell(&ledger, &claim(1, &payment, pay_until, mined)).await;
        let last = mined.max(pay_until) + 2 * 86_400 + 180 + 60 + 240;
        let refused = |head| {
            let (ledger, claim) = (&ledger, claim(2, &payment, head, head));
            async move { ledger.reserve(&claim).await.unwrap() }
        };
        assert_eq!(refused(last - 1).await, ReserveOutcome::PaymentUsed);
        assert_eq!(refused(last).await, ReserveOutcome::PaymentUsed);
        assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(ChainTime::from_unix(mark))));
        assert_eq!(refused(last + 1).await, ReserveOutcome::BeforeMemory);
        let counts = ledger.counts().unwrap();
        assert_eq!((counts.remembered, counts.consumed), (0, 1));
        assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(ChainTime::from_unix(mined))));
        assert_eq!(refused(mined).await, ReserveOutcome::BeforeMemory, "a head that goes back brings nothing back");
    }
}

#[tokio::test]
async fn a_sweep_by_name_forgets_all_that_may_be() {
    let ledger = MemoryLedger::new();
    ledger.begin(Network::BASE, ChainTime::from_unix(1_000)).await.unwrap();
    for name in 1..=40 {
        sell(&ledger, &claim(name, &[paid(name, 0, 2_000)], 2_000, 2_000)).await;
    }
    // One of them was mined again later.
    let moved = claim(99, &[paid(7, 0, 5_000)], 2_000, 2_000);
    assert_eq!(ledger.reserve(&moved).await, Ok(ReserveOutcome::PaymentUsed));
    let last = claim::<Payment>(1, &[], 2_000, 2_000).keep_until(&paid(1, 0, 2_000).into());
    assert_eq!(ledger.sweep(Network::BASE, last).await, Ok(0), "it is kept to the second");
    assert_eq!(ledger.sweep(Network::BASE, last.after(Duration::from_secs(1))).await, Ok(39));
    assert_eq!(ledger.sweep(Network::BASE, last.after(Duration::from_secs(3_001))).await, Ok(1));
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(ChainTime::from_unix(5_000))));
}

/// Nothing is dropped for want of space. 20,000 sales within a second, then every one of them again.
#[tokio::test]
async fn every_sale_of_a_crowd_is_refused_again() {
    let ledger = MemoryLedger::new();
    ledger.begin(Network::BASE, ChainTime::from_unix(1_000)).await.unwrap();
    let crowd: Vec<_> = (0..20_000_u64)
        .map(|n| {
            let mut name = [0; 32];
            name[..8].copy_from_slice(&n.to_be_bytes());
            let intent = IntentKey::new(*name.first_chunk().unwrap());
            let payment = {
                let mut transfer = paid(0, 0, 2_000);
                transfer.transaction = TxHash::new(name);
                transfer
            };
            let [until, head] = [3_000, 2_000].map(ChainTime::from_unix);
            let claim = |intent| {
                Claim::builder("insights", intent)
                    .pay_until(until)
                    .payments(vec![payment.clone()])
                    .head(head)
                    .max_payment_age(AGE)
                    .lease(LEASE)
                    .build()
            };
            [claim(intent), claim(IntentKey::new([0xff; 16]))]
        })
        .collect();
    for [claim, _] in &crowd {
        sell(&ledger, claim).await;
    }
    for [claim, other_intent] in &crowd {
        assert_eq!(ledger.reserve(claim).await, Ok(ReserveOutcome::IntentConsumed));
        assert_eq!(ledger.reserve(other_intent).await, Ok(ReserveOutcome::PaymentUsed));
    }
}
