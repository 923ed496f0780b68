//! Servers that are killed and started again while sixteen tasks sell: errors meanwhile, and soon; then everything is
//! sold, nothing twice.

use std::{
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use rand::{SeedableRng as _, rngs::StdRng};
use tower_x402::ledger::{Ledger as _, LedgerError};

use super::selling::{Event, Seller, Story, What, all_is_sold, check, sell_all};
use crate::kinds::{AnyLedger, Kind, Place, redis_server::Private};
use crate::support::servers::{PrivatePostgres, missing};

const TASKS: u64 = 16;
/// Each round another lot of them is sold, while the server dies.
const LOT: u64 = 60;
const ROUNDS: u64 = 2;
/// Two seconds, and what a busy machine takes.
const SOON: Duration = Duration::from_secs(4);
const PATIENCE: Duration = Duration::from_secs(120);

struct Replica {
    ledger: AnyLedger,
    shop: Arc<Shop>,
}

#[derive(Default)]
struct Shop {
    events: Mutex<Vec<Event>>,
    groups: AtomicU64,
    closes: AtomicU64,
    failures: AtomicUsize,
    slowest: Mutex<Duration>,
}

impl Seller for Replica {
    fn ledger(&self) -> &AnyLedger {
        &self.ledger
    }

    fn note(&self, event: Event) {
        self.shop.events.lock().unwrap().push(event);
    }

    fn failed(&self, error: LedgerError, after: Duration) {
        assert_eq!(error, LedgerError::unavailable());
        self.shop.failures.fetch_add(1, Ordering::SeqCst);
        let mut slowest = self.shop.slowest.lock().unwrap();
        *slowest = after.max(*slowest);
    }
}

impl Shop {
    fn delivered(&self) -> usize {
        self.events.lock().unwrap().iter().filter(|event| event.what == What::Delivered).count()
    }

    async fn until(&self, holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < PATIENCE, "nothing moves; delivered: {}", self.delivered());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

trait Mortal {
    fn kill(&mut self);
    fn restart(&mut self) -> impl Future<Output = ()>;
}

impl Mortal for PrivatePostgres {
    fn kill(&mut self) {
        self.kill();
    }

    async fn restart(&mut self) {
        self.restart().await;
    }
}

impl Mortal for Private {
    fn kill(&mut self) {
        self.kill();
    }

    async fn restart(&mut self) {
        self.restart().await;
    }
}

async fn sells_on(place: Place, mut server: impl Mortal) {
    let patient = place.begun().await;
    let shop = Arc::new(Shop::default());
    shop.groups.store(LOT, Ordering::SeqCst);
    let mut tasks = Vec::new();
    let replicas = [AnyLedger::connect(place.address()).await, AnyLedger::connect(place.address()).await];
    for task in 0..TASKS {
        let seller = Replica { ledger: replicas[task as usize % 2].clone(), shop: Arc::clone(&shop) };
        tasks.push(tokio::spawn(async move {
            let open = || (seller.shop.groups.load(Ordering::SeqCst), seller.shop.closes.load(Ordering::SeqCst) > 0);
            sell_all(&seller, &mut StdRng::seed_from_u64(task), open).await;
        }));
    }
    let start = Instant::now();
    for round in 1..=ROUNDS {
        // In the midst of it.
        let (delivered, failures) = (shop.delivered(), || shop.failures.load(Ordering::SeqCst));
        shop.until(|| shop.delivered() >= delivered + LOT as usize / 2).await;
        // More than they sell while it is being killed, which takes a busy machine its time: who is out of work fails at
        // nothing.
        shop.groups.store(LOT * (round + 1), Ordering::SeqCst);
        let before = failures();
        server.kill();
        shop.until(|| failures() >= before + TASKS as usize).await;
        server.restart().await;
    }
    shop.closes.store(1, Ordering::SeqCst);
    for task in tasks {
        tokio::time::timeout(PATIENCE, task).await.expect("it sells on").unwrap();
    }
    let slowest = *shop.slowest.lock().unwrap();
    assert!(slowest < SOON, "an error took {slowest:?}");
    let stories = [Story { events: shop.events.lock().unwrap().clone(), died: false }];
    let (groups, failures) = (LOT * (ROUNDS + 1), shop.failures.load(Ordering::SeqCst));
    let tally = check(&stories, groups);
    assert_eq!(tally.cut_short, 0, "a commit is repeated until its outcome is known");
    // A connection that was not used meanwhile is found broken once.
    let start_asking = Instant::now();
    while patient.health().await.is_err() {
        assert!(start_asking.elapsed() < PATIENCE, "it does not recover");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    all_is_sold(&patient, &stories, groups).await;
    println!("{:?}: {tally:?}, {failures} errors, the slowest {slowest:?}, {:?}", place.kind, start.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_that_is_killed_sells_on() {
    let Some(server) = PrivatePostgres::start(&[]).await.or_else(|| missing("postgres")) else { return };
    sells_on(Place::on(Kind::Postgres, &server.url()).await, server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_that_is_killed_sells_on() {
    let Some(server) = Private::start(&["--appendonly", "yes", "--appendfsync", "always"]).await else { return };
    sells_on(Place::on(Kind::Redis, &server.url()).await, server).await;
}
