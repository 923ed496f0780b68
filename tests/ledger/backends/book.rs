//! The book of sales on each ledger: the conformance suite of books, books that are wrong, and what becomes of a book in time.

use std::{
    sync::Mutex,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tower_x402::{
    ledger::{
        BookedSale, Claim, KnownPayment, Ledger as _, LedgerError, Maintenance as _, RefundOutcome, SalesBook,
        SalesQuery, SqliteLedger, UtcDay,
        conformance::{self, Harness, KeepsAnswers, Reopens},
        redis_driver as driver,
    },
    protocol::{Network, PaymentId, TxHash},
};

use super::{LEASE, claim, claim_for, hold, paid, sell, time};
use crate::kinds::{AnyLedger, Kind, Place, on_each_kind};

on_each_kind! {
    its_book_conforms
    what_is_forgotten_stays_in_the_book
    a_book_is_read_across_pages_of_the_stream
    a_sale_is_in_the_book_at_once
}

/// Ledgers in places of their own, with a book for good.
pub(super) struct Books {
    kind: Kind,
    places: Mutex<Vec<Place>>,
}

impl Books {
    /// `None` where there is no server of this kind.
    pub(super) async fn new(kind: Kind) -> Option<Self> {
        Place::new(kind).await?.remove().await;
        Some(Self { kind, places: Mutex::default() })
    }

    pub(super) async fn remove(self) {
        for place in self.places.into_inner().unwrap() {
            place.remove().await;
        }
    }

    fn address(&self) -> String {
        self.places.lock().unwrap().last().unwrap().address().to_owned()
    }
}

impl Harness for Books {
    type Ledger = AnyLedger;

    async fn fresh(&self) -> AnyLedger {
        let place = Place::new(self.kind).await.unwrap();
        self.places.lock().unwrap().push(place);
        let ledger = AnyLedger::booking(&self.address()).await;
        ledger.migrate().await.unwrap();
        ledger
    }

    async fn share(&self, _: &AnyLedger) -> AnyLedger {
        AnyLedger::booking(&self.address()).await
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    fn skips_time(&self) -> bool {
        false
    }
}

impl KeepsAnswers for Books {
    async fn with_answer_space(&self, bytes: usize) -> AnyLedger {
        let place = Place::new(self.kind).await.unwrap();
        self.places.lock().unwrap().push(place);
        AnyLedger::with_answer_space(&self.address(), bytes).await
    }
}

impl Reopens for Books {
    async fn reopen(&self, ledger: &AnyLedger) -> AnyLedger {
        ledger.clone().close().await;
        AnyLedger::booking(&self.address()).await
    }
}

async fn its_book_conforms(kind: Kind) {
    let Some(books) = Books::new(kind).await else { return };
    let report = conformance::run_book(&books).await.unwrap();
    assert!(!report.passed.is_empty() && report.left_out.is_empty());
    books.remove().await;
}

/// Redis as it is by default: the same, while its sales are remembered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_conforms_without_a_book_for_good() {
    struct Remembered(Books);

    impl Harness for Remembered {
        type Ledger = AnyLedger;

        async fn fresh(&self) -> AnyLedger {
            drop(self.0.fresh().await);
            AnyLedger::patient(&self.0.address()).await
        }

        async fn share(&self, _: &AnyLedger) -> AnyLedger {
            AnyLedger::patient(&self.0.address()).await
        }

        async fn pass(&self, span: Duration) {
            tokio::time::sleep(span).await;
        }

        fn skips_time(&self) -> bool {
            false
        }
    }

    let Some(books) = Books::new(Kind::Redis).await else { return };
    let books = Remembered(books);
    conformance::run_book(&books).await.unwrap();
    conformance::run_announcements(&books).await.unwrap();
    books.0.remove().await;
}

fn everything() -> SalesQuery {
    SalesQuery::since(UNIX_EPOCH)
}

async fn all(book: &impl SalesBook) -> Vec<BookedSale> {
    let (mut sales, mut all) = (book.sales(everything()), Vec::new());
    while let Some(sale) = sales.next().await {
        all.push(sale.unwrap());
    }
    all
}

/// A claim on a payment that is as young as this head.
fn claim_at(name: u64, head: u64) -> Claim {
    let paid = paid(name).with_block(31_000_000, time(head));
    let claim = claim_for(name, name, LEASE, head);
    Claim::builder(claim.resource(), claim.intent()).pay_until(time(head)).payments(vec![paid]).head(time(head)).build()
}

async fn what_is_forgotten_stays_in_the_book(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    place.begun().await.close().await;
    let ledger = AnyLedger::booking(place.address()).await;
    for name in 1..=40 {
        sell(&ledger, &claim(name, name)).await;
    }
    assert_eq!(ledger.note_refund(paid(7).payment_id(), TxHash::new([7; 32])).await, Ok(RefundOutcome::Noted));
    let before = all(&ledger).await;
    assert_eq!(before.len(), 40);
    assert_eq!(before.iter().filter(|sale| sale.refund.is_some()).count(), 1);
    let beyond = claim(1, 1).keep_until(&paid(1).into()).after(Duration::from_secs(1));
    // Some by a claim, the rest by name.
    let _ = hold(&ledger, &claim_at(99, beyond.unix())).await;
    assert!(ledger.sweep(Network::BASE, beyond).await.unwrap() > 0);
    assert_eq!(ledger.size().await.unwrap().remembered, 0);
    assert_eq!(all(&ledger).await, before);
    let known = ledger.known(&[paid(7).payment_id(), paid(8).payment_id(), paid(41).payment_id()]).await.unwrap();
    assert_eq!(known.iter().map(|known| known.sold).collect::<Vec<_>>(), [true, true, false]);
    place.remove().await;
}

/// Without `keep_book` the book is what the ledger remembers; a handle that keeps one saves what it finds.
#[tokio::test]
async fn redis_forgets_its_book_unless_it_is_kept() {
    // Who sells, who forgets, and how many sales are left.
    for (sells, forgets, left) in [(false, false, 0), (true, false, 1), (false, true, 1)] {
        let Some(place) = Place::new(Kind::Redis).await else { return };
        let (plain, booking) = (place.begun().await, AnyLedger::booking(place.address()).await);
        let choose = |books: bool| if books { &booking } else { &plain };
        sell(choose(sells), &claim(1, 1)).await;
        assert_eq!(all(&plain).await.len(), 1);
        let beyond = claim(1, 1).keep_until(&paid(1).into()).after(Duration::from_secs(1));
        assert_eq!(choose(forgets).sweep(Network::BASE, beyond).await, Ok(1));
        assert_eq!(all(&plain).await.len(), left, "{sells} {forgets}");
        assert_eq!(plain.known(&[paid(1).payment_id()]).await.unwrap()[0].sold, left == 1);
        let (mut connection, prefix) = place.redis().await;
        let booked: usize =
            driver::cmd("ZCARD").arg(format!("{prefix}booked")).query_async(&mut connection).await.unwrap();
        assert_eq!(booked, left);
        place.remove().await;
    }
}

/// Also for a reader in the millisecond in which it was recorded.
async fn a_sale_is_in_the_book_at_once(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let (ledger, mut last) = (place.begun().await, None);
    for name in 1..=200 {
        sell(&ledger, &claim(name, name)).await;
        let read = ledger.page(&everything(), last.as_ref(), 9).await.unwrap();
        let payments: Vec<_> = read.iter().map(|sale| sale.payment).collect();
        assert_eq!(payments, [paid(name).payment_id()], "sale {name}");
        last = read.into_iter().next();
    }
    place.remove().await;
}

async fn a_book_is_read_across_pages_of_the_stream(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let before = SystemTime::now();
    // More than a page of the stream.
    for name in 1..=1_010 {
        sell(&ledger, &claim(name, name)).await;
    }
    let sales = all(&ledger).await;
    assert_eq!(sales.len(), 1_010);
    assert!(sales.is_sorted_by_key(|sale| (sale.sold_at, sale.payment.to_string())));
    let mut names: Vec<_> = sales.iter().map(|sale| sale.payment).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 1_010);
    let totals = ledger.totals(everything()).await.unwrap();
    assert_eq!(totals.iter().map(|total| total.sales).sum::<u64>(), 1_010);
    assert!(totals.iter().all(|total| total.day >= UtcDay::of(before - Duration::from_secs(60))), "{totals:?}");
    place.remove().await;
}

/// What a book does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Goes on behind a moment, not behind a sale, and so leaves out what was sold at the same time, as its coarse clock has it.
    SkipsEqualTimes,
    /// Shows the last sale of a page again.
    RepeatsTheLast,
    IgnoresTheResource,
    IgnoresTheEnd,
    /// Writes a second refund over the first.
    OverwritesRefunds,
    /// Shows no refund.
    HidesRefunds,
    /// Calls every payment sold.
    KnowsTooMuch,
    /// Answers in another order than was asked.
    AnswersBackwards,
}

#[derive(Clone)]
struct Broken {
    fault: Fault,
    inner: SqliteLedger,
}

mod as_before {
    use tower_x402::{
        ledger::{
            Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, RenewOutcome, ReserveOutcome, Sale, Settling,
        },
        protocol::{ChainTime, IntentKey, Network, PaymentId},
    };

    impl Ledger for super::Broken {
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
            self.inner.commit(lease, answer).await
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
            self.inner.sweep(network, head).await
        }

        async fn health(&self) -> Result<(), LedgerError> {
            self.inner.health().await
        }
    }
}

impl SalesBook for Broken {
    async fn page(
        &self,
        query: &SalesQuery,
        after: Option<&BookedSale>,
        most: usize,
    ) -> Result<Vec<BookedSale>, LedgerError> {
        let mut query = query.clone();
        if self.fault == Fault::IgnoresTheResource || self.fault == Fault::IgnoresTheEnd {
            let (resource, end) = (query.of_resource().map(str::to_owned), query.end());
            query = SalesQuery::since(query.start());
            if let (Some(resource), Fault::IgnoresTheEnd) = (resource, self.fault) {
                query = query.resource(resource);
            }
            if let (Some(end), Fault::IgnoresTheResource) = (end, self.fault) {
                query = query.until(end);
            }
        }
        let mut page = match (self.fault, after) {
            (Fault::SkipsEqualTimes, Some(after)) => {
                let later = SalesQuery::since(after.sold_at + Duration::from_millis(50));
                self.inner.page(&later, None, most).await?
            }
            (Fault::RepeatsTheLast, Some(after)) => {
                let again = self.inner.page(&SalesQuery::since(after.sold_at), None, usize::MAX).await?;
                again.into_iter().skip_while(|sale| sale.payment != after.payment).take(most).collect()
            }
            _ => self.inner.page(&query, after, most).await?,
        };
        if self.fault == Fault::HidesRefunds {
            page.iter_mut().for_each(|sale| sale.refund = None);
        }
        Ok(page)
    }

    async fn known(&self, payments: &[PaymentId]) -> Result<Vec<KnownPayment>, LedgerError> {
        let mut known = self.inner.known(payments).await?;
        match self.fault {
            Fault::KnowsTooMuch => known.iter_mut().for_each(|known| known.sold = true),
            Fault::AnswersBackwards => known.reverse(),
            _ => {}
        }
        Ok(known)
    }

    async fn note_refund(&self, payment: PaymentId, transaction: TxHash) -> Result<RefundOutcome, LedgerError> {
        match self.inner.note_refund(payment, transaction).await? {
            RefundOutcome::Differs { .. } if self.fault == Fault::OverwritesRefunds => Ok(RefundOutcome::Noted),
            outcome => Ok(outcome),
        }
    }
}

struct Bench(Fault, tempfile::TempDir, Mutex<u32>);

impl Harness for Bench {
    type Ledger = Broken;

    async fn fresh(&self) -> Broken {
        let name = {
            let mut last = self.2.lock().unwrap();
            *last += 1;
            format!("{last}.db")
        };
        let inner = SqliteLedger::open(self.1.path().join(name)).await.unwrap().time_limit(super::PATIENT);
        Broken { fault: self.0, inner }
    }

    async fn share(&self, ledger: &Broken) -> Broken {
        ledger.clone()
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    fn skips_time(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_book_that_is_wrong_is_found_out() {
    for (fault, check) in [
        (Fault::SkipsEqualTimes, "pages_follow_each_other"),
        (Fault::RepeatsTheLast, "pages_follow_each_other"),
        (Fault::IgnoresTheResource, "a_query_is_a_span_and_a_resource"),
        (Fault::IgnoresTheEnd, "a_query_is_a_span_and_a_resource"),
        (Fault::OverwritesRefunds, "a_refund_is_noted_once"),
        (Fault::HidesRefunds, "refunds_are_shown"),
        (Fault::KnowsTooMuch, "payments_are_known_apart"),
        (Fault::AnswersBackwards, "payments_are_known_apart"),
    ] {
        let bench = Bench(fault, tempfile::tempdir().unwrap(), Mutex::default());
        let Err(violations) = conformance::run_book(&bench).await else { panic!("{fault:?} is not found out") };
        let found = violations.as_slice().iter().any(|violation| violation.check.name == check);
        assert!(found, "{fault:?}: {violations}");
    }
}
