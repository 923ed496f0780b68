//! How many honest sales remain beside a crowd of forgers. Each forger repeatedly shows a worthless signature: its
//! payment is reserved, refused and released, which costs the forger nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tower_x402::{
    ledger::{Claim, CommitOutcome, Ledger, ReserveOutcome},
    protocol::SignedTransfer,
};

use super::{LEASE, claim, time};

/// The number of concurrent sellers, and of forgers beside them.
const SELLERS: u64 = 8;
const FORGERS: [u64; 3] = [0, 100, 600];
const SPAN: Duration = Duration::from_secs(4);
/// The number of the first forged payment, above those of all sales.
const FORGED: u64 = 1 << 40;

/// One line of the table: sales a second and forged payments a second, for each number of forgers.
pub(super) struct Line {
    ledger: &'static str,
    rates: Vec<[f64; 2]>,
}

impl Line {
    /// Measures a ledger that has just begun.
    pub(super) async fn measure<L: Ledger + Clone>(name: &'static str, ledger: &L) -> Self {
        let next = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(FORGED))];
        let mut rates = Vec::new();
        for forgers in FORGERS {
            rates.push(run(ledger, &next, forgers).await);
        }
        Self { ledger: name, rates }
    }
}

pub(super) fn print(lines: &[Line]) {
    println!("| Ledger | Forgers | Sales per second | Of the rate alone | Forged per second |");
    println!("|---|---:|---:|---:|---:|");
    for Line { ledger, rates } in lines {
        let alone = rates.first().map_or(f64::NAN, |[sold, _]| *sold);
        for (forgers, [sold, forged]) in FORGERS.iter().zip(rates) {
            println!("| {ledger} | {forgers} | {sold:.0} | {:.0} % | {forged:.0} |", sold / alone * 100.0);
        }
    }
}

/// Returns sales and forged payments a second.
async fn run<L: Ledger + Clone>(ledger: &L, [sales, forged]: &[Arc<AtomicU64>; 2], forgers: u64) -> [f64; 2] {
    let (ends, mut crowd) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    let mut join = |next: &Arc<AtomicU64>, forges: bool| {
        let (ledger, next, ends) = (ledger.clone(), Arc::clone(next), Arc::clone(&ends));
        crowd.spawn(async move {
            let mut done = 0;
            while !ends.load(Ordering::Relaxed) {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let served = if forges { forge(&ledger, n).await } else { sell(&ledger, n).await };
                done += u64::from(served);
                // A ledger in memory never yields by itself.
                tokio::task::yield_now().await;
            }
            if forges { [0, done] } else { [done, 0] }
        });
    };
    (0..forgers).for_each(|_| join(forged, true));
    // The crowd starts before the first sale.
    tokio::time::sleep(SPAN / 4).await;
    let start = Instant::now();
    (0..SELLERS).for_each(|_| join(sales, false));
    tokio::time::sleep(SPAN).await;
    ends.store(true, Ordering::Relaxed);
    let took = start.elapsed().as_secs_f64();
    let done = crowd.join_all().await;
    [0, 1].map(|which| done.iter().map(|done| done[which]).sum::<u64>() as f64 / took)
}

/// Returns whether the payment was sold; an overloaded ledger may not answer.
async fn sell(ledger: &impl Ledger, n: u64) -> bool {
    match ledger.reserve(&claim(n, u64::MAX >> 20)).await {
        Ok(ReserveOutcome::Granted(lease)) => ledger.commit(&lease, None).await == Ok(CommitOutcome::Done),
        _ => false,
    }
}

/// Returns whether the payment was reserved and released.
async fn forge(ledger: &impl Ledger, n: u64) -> bool {
    match ledger.reserve(&unsettled(n)).await {
        Ok(ReserveOutcome::Granted(lease)) => ledger.release(&lease).await.is_ok(),
        _ => false,
    }
}

/// Returns a claim on a payment that was signed but not settled.
fn unsettled(n: u64) -> Claim {
    let sale = claim(n, u64::MAX >> 20);
    let paid = &sale.payments()[0];
    let nonce = paid.transaction().map(|transaction| *transaction.as_bytes()).unwrap_or_default();
    let signed = SignedTransfer::new(paid.network(), paid.token(), paid.payer(), nonce)
        .with_recipient(paid.recipient())
        .with_amount(paid.amount())
        .with_shown(paid.time());
    Claim::builder(sale.resource(), sale.intent())
        .pay_until(time(n))
        .payments([signed])
        .head(sale.head())
        .lease(LEASE)
        .build()
}
