//! Sales that wait for their announcement: the memory ledger against the suite, and the suite against ledgers that do it wrong.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_x402::{
    ledger::{
        Announcements, BookedSale, Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, MemoryLedger,
        RenewOutcome, ReserveOutcome, Sale, Settling,
        conformance::{self, Harness},
    },
    protocol::{ChainTime, IntentKey, Network, PaymentId},
    testing::FakeClock,
};

use crate::Memory;

#[tokio::test]
async fn the_memory_ledger_announces_as_it_should() {
    let report = conformance::run_announcements(&Memory::new(1)).await.unwrap();
    assert!(!report.passed.is_empty() && report.left_out.is_empty());
}

/// What a ledger does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Says that it marks none.
    SaysNo,
    /// Marks every sale.
    MarksEverything,
    /// Marks a sale that it keeps no answer of, and no other.
    NotWithAnAnswer,
    /// Keeps the mark.
    Keeps,
    /// Marks again what is committed again.
    MarksAgain,
    /// Goes on at the beginning.
    IgnoresAfter,
    /// Shows a sale as it was reserved.
    TellsTheReservation,
    /// Loses the marks of sales that are too old to come back.
    Forgets,
}

#[derive(Clone)]
struct Broken {
    fault: Fault,
    inner: MemoryLedger,
    told: Arc<Mutex<HashSet<PaymentId>>>,
}

impl Ledger for Broken {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.inner.begin(network, now).await
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        self.inner.reserve(claim).await
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        self.inner.renew(lease).await
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        self.inner.settling(lease, settling).await
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.inner.not_settled(lease).await
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        let lease = match self.fault {
            Fault::MarksEverything => lease.clone().announcing(),
            _ => lease.clone(),
        };
        let outcome = self.inner.commit(&lease, answer).await?;
        match self.fault {
            Fault::NotWithAnAnswer if answer.is_some() => self.inner.announced(lease.payment().id()).await?,
            Fault::MarksAgain => drop(self.told.lock().unwrap().remove(&lease.payment().id())),
            _ => {}
        }
        Ok(outcome)
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.inner.release(lease).await
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        self.inner.consumed(intent).await
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        self.inner.begun(intent, payment).await
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        if self.fault == Fault::Forgets {
            for sale in self.inner.unannounced(None, usize::MAX).await? {
                self.inner.announced(sale.payment).await?;
            }
        }
        self.inner.sweep(network, head).await
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.inner.health().await
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        (self.fault != Fault::SaysNo).then_some(self)
    }
}

impl Announcements for Broken {
    async fn unannounced(&self, after: Option<&BookedSale>, most: usize) -> Result<Vec<BookedSale>, LedgerError> {
        let after = after.filter(|_| self.fault != Fault::IgnoresAfter);
        let mut sales = self.inner.unannounced(after, most).await?;
        sales.retain(|sale| !self.told.lock().unwrap().contains(&sale.payment));
        if self.fault == Fault::TellsTheReservation {
            sales.iter_mut().for_each(|sale| sale.block_number = None);
        }
        Ok(sales)
    }

    async fn announced(&self, payment: PaymentId) -> Result<(), LedgerError> {
        match self.fault {
            Fault::Keeps => {}
            Fault::MarksAgain => drop(self.told.lock().unwrap().insert(payment)),
            _ => self.inner.announced(payment).await?,
        }
        Ok(())
    }
}

struct Bench(Fault, FakeClock);

impl Harness for Bench {
    type Ledger = Broken;

    async fn fresh(&self) -> Broken {
        Broken { fault: self.0, inner: MemoryLedger::with_clock(self.1.clone()), told: Arc::default() }
    }

    async fn share(&self, ledger: &Broken) -> Broken {
        ledger.clone()
    }

    async fn pass(&self, span: Duration) {
        self.1.advance(span);
    }

    fn skips_time(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn every_fault_of_announcements_is_caught_by_its_check() {
    for (fault, check) in [
        (Fault::SaysNo, "a_sale_waits_for_its_announcement"),
        (Fault::MarksEverything, "what_is_not_to_be_announced_does_not_wait"),
        (Fault::NotWithAnAnswer, "a_sale_waits_for_its_announcement"),
        (Fault::Keeps, "a_dropped_acknowledgement_is_repeated"),
        (Fault::MarksAgain, "a_repeated_commit_marks_nothing_again"),
        (Fault::IgnoresAfter, "pages_follow_each_other"),
        (Fault::TellsTheReservation, "it_waits_as_it_was_settled"),
        (Fault::Forgets, "it_waits_longer_than_the_sale_is_remembered"),
    ] {
        let violations = conformance::run_announcements(&Bench(fault, FakeClock::new(0))).await.unwrap_err();
        let caught: Vec<_> = violations.as_slice().iter().map(|violation| violation.check.name).collect();
        assert!(caught.contains(&check), "{fault:?} passed {check}; it was caught by {caught:?}");
    }
}
