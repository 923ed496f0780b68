//! The memory ledger against a model that keeps the whole history and derives every answer from it.

use std::time::Duration;

use proptest::{collection::vec, prelude::*, sample::select};
use tower_x402::{
    ledger::{Claim, Commit, Handler, Lease, Ledger, MemoryLedger, Renewal, Reservation},
    protocol::{ChainTime, Transfer},
    testing::FakeClock,
};

use super::{LEASE, claim, paid};

const MARK: u64 = 1_000_000;
const PAY_UNTIL: u64 = MARK + 40;
/// How much longer than block time or intent a sale is kept.
const KEPT: u64 = 86_400 + 180 + 60 + 240;
/// The memory ledger forgets idle leases and attempts after an hour; the model does not.
const LIFETIME: Duration = Duration::from_secs(3_500);

/// Two transactions with two transfers each, and one payment below the mark; equal amounts.
fn payments() -> [Transfer; 5] {
    [(1, 0, 50), (1, 1, 50), (2, 0, 20), (2, 1, 90), (3, 0, 0)].map(|(tx, position, t)| paid(tx, position, MARK + t))
}

#[derive(Clone, Debug)]
enum Step {
    Reserve {
        intent: u8,
        payments: Vec<usize>,
        head: u64,
    },
    /// Reserve and release, as often as that is granted.
    Fail {
        intent: u8,
        payment: usize,
        times: usize,
    },
    Renew(usize),
    Commit(usize),
    Release(usize, Handler),
    Pass(Duration),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Heads around the ends of what is kept.
    let heads: Vec<u64> = [40, 50, 90].into_iter().flat_map(|t| [MARK + t + KEPT, MARK + t + KEPT + 1]).collect();
    let head = prop_oneof![12 => Just(MARK + 100), 1 => select(heads)];
    let handler = select(vec![Handler::Started, Handler::NotStarted]);
    let span = prop_oneof![
        4 => (0..40_u64).prop_map(Duration::from_secs),
        2 => Just(LEASE),
        1 => (40..900_u64).prop_map(Duration::from_secs),
        1 => (0..2_000_u64).prop_map(Duration::from_millis),
    ];
    let step = prop_oneof![
        8 => (0..3_u8, vec(0..5_usize, 1..4), head)
            .prop_map(|(intent, payments, head)| Step::Reserve { intent, payments, head }),
        2 => (0..3_u8, 0..4_usize, 14..18_usize)
            .prop_map(|(intent, payment, times)| Step::Fail { intent, payment, times }),
        2 => any::<usize>().prop_map(Step::Renew),
        2 => any::<usize>().prop_map(Step::Commit),
        3 => (any::<usize>(), handler).prop_map(|(lease, handler)| Step::Release(lease, handler)),
        5 => span.prop_map(Step::Pass),
    ];
    vec(step, 1..80)
}

/// One grant and what became of it.
struct Grant {
    lease: Lease,
    until: Duration,
    keep_until: ChainTime,
    end: End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// Held, or run out and not taken over.
    Open,
    /// Released or taken over after a start, then.
    Vain(Duration),
    NotStarted,
    Sold,
    Forgotten,
}

#[derive(Default)]
struct Model {
    now: Duration,
    history: Vec<Grant>,
}

impl Model {
    fn mark(&self) -> ChainTime {
        let forgotten = self.history.iter().filter(|grant| grant.end == End::Forgotten);
        forgotten.map(|grant| grant.lease.transfer().block_time).max().unwrap_or(ChainTime::from_unix(MARK))
    }

    fn reserve(&mut self, claim: &Claim) -> Expected {
        for grant in self.history.iter_mut().filter(|grant| grant.end == End::Sold) {
            if grant.keep_until < claim.head() {
                grant.end = End::Forgotten;
            }
        }
        let (now, mark) = (self.now, self.mark());
        let sold = |grant: &&Grant| grant.end == End::Sold;
        let live = |grant: &&Grant| grant.end == End::Open && grant.until > now;
        if self.history.iter().filter(sold).any(|grant| grant.lease.intent() == claim.intent()) {
            return Expected::Is(Reservation::IntentConsumed);
        }
        let on = |paid: &Transfer| {
            let key = paid.key();
            move |grant: &&Grant| grant.lease.transfer().key() == key
        };
        let unsold: Vec<_> = claim
            .transfers()
            .iter()
            .filter(|paid| !self.history.iter().filter(sold).any(|grant| on(paid)(&grant)))
            .collect();
        if unsold.is_empty() {
            return Expected::Is(Reservation::PaymentUsed);
        }
        let live: Vec<_> = self.history.iter().filter(live).collect();
        if let Some(grant) = live.iter().find(|grant| grant.lease.intent() == claim.intent()) {
            return Expected::Is(Reservation::Busy { retry_after: grant.until - now });
        }
        let until = |paid: &Transfer| live.iter().find(|grant| on(paid)(grant)).map(|grant| grant.until);
        match unsold.iter().find(|paid| until(paid).is_none() && paid.block_time > mark) {
            Some(paid) => match self.pause(claim, paid) {
                Some(retry_after) => Expected::Is(Reservation::TooManyAttempts { retry_after }),
                None => Expected::Grant((*paid).clone()),
            },
            None => match unsold.iter().filter_map(|paid| until(paid)).min() {
                Some(until) => Expected::Is(Reservation::Busy { retry_after: until - now }),
                None => Expected::Is(Reservation::BeforeMemory),
            },
        }
    }

    /// From the history of this pair: how many starts, and when the last one ended.
    fn pause(&self, claim: &Claim, paid: &Transfer) -> Option<Duration> {
        let ends: Vec<_> = self
            .history
            .iter()
            .filter(|grant| grant.lease.intent() == claim.intent() && grant.lease.transfer().key() == paid.key())
            .filter_map(|grant| match grant.end {
                End::Open => Some(grant.until),
                End::Vain(at) => Some(at),
                End::NotStarted | End::Sold | End::Forgotten => None,
            })
            .collect();
        let seconds = match ends.len() {
            ..16 => return None,
            16 => 60,
            17 => 120,
            18 => 240,
            19 => 480,
            _ => 900,
        };
        let over = *ends.last()? + Duration::from_secs(seconds);
        over.checked_sub(self.now).filter(|rest| !rest.is_zero())
    }

    fn granted(&mut self, claim: &Claim, lease: Lease) {
        for grant in self.history.iter_mut().filter(|grant| grant.end == End::Open) {
            if grant.lease.intent() == lease.intent() || grant.lease.transfer().key() == lease.transfer().key() {
                grant.end = End::Vain(grant.until);
            }
        }
        let (until, keep_until) = (self.now + claim.lease(), claim.keep_until(lease.transfer()));
        self.history.push(Grant { lease, until, keep_until, end: End::Open });
    }
}

enum Expected {
    Is(Reservation),
    Grant(Transfer),
}

struct Run {
    ledger: MemoryLedger,
    clock: FakeClock,
    model: Model,
}

impl Run {
    async fn start() -> Self {
        let clock = FakeClock::new(0);
        let ledger = MemoryLedger::with_clock(clock.clone());
        ledger.begin(ChainTime::from_unix(MARK)).await.unwrap();
        Self { ledger, clock, model: Model::default() }
    }

    async fn reserve(&mut self, claim: &Claim) -> Result<bool, TestCaseError> {
        let expected = self.model.reserve(claim);
        let got = self.ledger.reserve(claim).await.unwrap();
        match (expected, got) {
            (Expected::Grant(paid), Reservation::Granted(lease)) => {
                prop_assert_eq!(lease.transfer(), &paid);
                prop_assert!(self.model.history.iter().all(|grant| grant.lease.fence() != lease.fence()));
                self.model.granted(claim, lease);
                Ok(true)
            }
            (Expected::Grant(paid), other) => {
                prop_assert!(false, "expected a grant of {paid:?}, got {other:?}");
                Ok(false)
            }
            (Expected::Is(expected), got) => {
                prop_assert_eq!(got, expected);
                Ok(false)
            }
        }
    }

    async fn release(&mut self, index: usize, handler: Handler) {
        let (now, grant) = (self.model.now, &mut self.model.history[index]);
        self.ledger.release(&grant.lease, handler).await.unwrap();
        if grant.end == End::Open {
            grant.end = if handler == Handler::Started { End::Vain(now) } else { End::NotStarted };
        }
    }

    async fn step(&mut self, step: Step) -> Result<(), TestCaseError> {
        let (now, count) = (self.model.now, self.model.history.len());
        match step {
            Step::Reserve { intent, payments: chosen, head } => {
                let all = payments();
                let chosen: Vec<_> = chosen.into_iter().map(|index| all[index].clone()).collect();
                self.reserve(&claim(intent, &chosen, PAY_UNTIL, head)).await?;
            }
            Step::Fail { intent, payment, times } => {
                let claim = claim(intent, &payments()[payment..=payment], PAY_UNTIL, MARK + 100);
                for _ in 0..times {
                    if self.reserve(&claim).await? {
                        self.release(self.model.history.len() - 1, Handler::Started).await;
                    }
                }
            }
            Step::Pass(span) => {
                if now + span <= LIFETIME {
                    self.model.now += span;
                    self.clock.advance(span);
                }
            }
            Step::Renew(index) if count > 0 => {
                let grant = &mut self.model.history[index % count];
                let expected = if grant.end == End::Open { Renewal::Held } else { Renewal::LeaseLost };
                prop_assert_eq!(self.ledger.renew(&grant.lease).await.unwrap(), expected);
                if expected == Renewal::Held {
                    grant.until = now + LEASE;
                }
            }
            Step::Commit(index) if count > 0 => {
                let grant = &mut self.model.history[index % count];
                let done = matches!(grant.end, End::Open | End::Sold);
                let expected = if done { Commit::Done } else { Commit::LeaseLost };
                prop_assert_eq!(self.ledger.commit(&grant.lease).await.unwrap(), expected);
                if done {
                    grant.end = End::Sold;
                }
            }
            Step::Release(index, handler) if count > 0 => self.release(index % count, handler).await,
            Step::Renew(_) | Step::Commit(_) | Step::Release(..) => {}
        }
        self.compare().await
    }

    /// What can be seen without touching anything.
    async fn compare(&self) -> Result<(), TestCaseError> {
        let of = |end: End| self.model.history.iter().filter(move |grant| grant.end == end);
        for intent in 0..3 {
            let intent = claim(intent, &[], 0, 0).intent();
            let consumed = of(End::Sold).any(|grant| grant.lease.intent() == intent);
            prop_assert_eq!(self.ledger.is_consumed(intent).await.unwrap(), consumed);
        }
        let counts = self.ledger.counts().unwrap();
        prop_assert_eq!(counts.low_water_mark, Some(self.model.mark()));
        prop_assert_eq!((counts.held, counts.remembered), (of(End::Open).count(), of(End::Sold).count()));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn the_memory_ledger_does_as_its_model(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut run = Run::start().await;
            for step in steps {
                run.step(step).await?;
            }
            Ok::<(), TestCaseError>(())
        })?;
    }
}
