//! `RedisLedger`: conformance, races, what a server has to be, and what happens when it fails.

mod failures;
mod memory;
mod records;
mod settings;

use std::time::{Duration, Instant};

use tower_x402::ledger::{
    Claim, CommitOutcome, Lease, Ledger as _, RedisLedger,
    conformance::{self, CHECKS, Harness},
};

use super::hold;
use crate::kinds::{PATIENT, prefix, redis_server as server};

async fn ledger_at(url: &str, prefix: &str) -> RedisLedger {
    RedisLedger::builder().key_prefix(prefix).time_limit(PATIENT).connect(url).await.unwrap()
}

async fn sell(ledger: &RedisLedger, claim: &Claim) -> Lease {
    let lease = hold(ledger, claim).await;
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    lease
}

/// Ledgers on one server, each under its own prefix.
struct Server {
    url: &'static str,
    rounds: usize,
}

impl Harness for Server {
    type Ledger = RedisLedger;

    async fn fresh(&self) -> RedisLedger {
        ledger_at(self.url, &prefix()).await
    }

    /// A connection of its own.
    async fn share(&self, ledger: &RedisLedger) -> RedisLedger {
        ledger_at(self.url, ledger.key_prefix()).await
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    fn skips_time(&self) -> bool {
        false
    }

    fn rounds(&self) -> usize {
        self.rounds
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_conforms() {
    let Some(url) = server::shared().await else { return };
    let report = conformance::run(&Server { url, rounds: 20 }).await.unwrap();
    assert!(report.left_out.iter().all(|check| check.takes_minutes));
    assert_eq!(report.passed.len() + report.left_out.len(), CHECKS.len());
}

/// SECURITY 1: 64 tasks on two connections, 1,000 rounds, from a barrier; exactly one delivery in each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_64_at_once_one_is_answered_a_thousand_times() {
    let Some(url) = server::shared().await else { return };
    let server = Server { url, rounds: 1_000 };
    for race in ["one_pair", "one_delivery"] {
        let start = Instant::now();
        assert_eq!(conformance::run_one(&server, race).await, Ok(true));
        println!("{race}: {:?}", start.elapsed());
    }
}
