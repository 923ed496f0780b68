//! One sequence of questions, put to every ledger; one model that knows every answer.
//!
//! Time passes by setting back what the database wrote down: to it that is the same, and takes no time.

use std::time::Duration;

use proptest::{
    prelude::*,
    test_runner::{TestCaseError, TestRunner},
};
use tower_x402::ledger::{Maintenance, redis_driver as driver};

use crate::kinds::{AnyLedger, Kind, Place};
use crate::model::{Bench, Step, check, check_memory, steps};

/// Sets back, by milliseconds, when leases run out and answers end.
const SET_BACK: &str = "
local prefix, span = KEYS[1], tonumber(ARGV[1])
for _, id in ipairs(redis.call('ZRANGE', prefix .. 'held', 0, -1)) do
  redis.call('ZINCRBY', prefix .. 'held', -span, id)
  redis.call('HINCRBY', prefix .. 'payment:' .. id, 'until', -span)
end
for _, answer in ipairs(redis.call('KEYS', prefix .. 'answer:*')) do
  redis.call('PEXPIRE', answer, string.format('%.0f', redis.call('PTTL', answer) - span))
end";

struct Database<'p> {
    place: &'p Place,
    ledger: AnyLedger,
}

impl<'p> Database<'p> {
    /// Of a process that knows of no sale yet: one that does would notice that it is gone.
    async fn cleared(place: &'p Place) -> Self {
        let ledger = place.ledger().await;
        ledger.migrate().await.unwrap();
        let database = Self { place, ledger };
        database.clear().await;
        database
    }

    /// Forgets everything.
    async fn clear(&self) {
        match self.place.kind {
            Kind::Redis => self.place.empty().await,
            _ => {
                let tables = ["sales", "settling", "answers", "marks", "book", "refunds"]
                    .map(|table| format!("DELETE FROM ledger_{table};"));
                self.place.sql(&tables.concat()).await;
            }
        }
    }
}

impl Bench for Database<'_> {
    fn ledger(&self) -> &impl Maintenance {
        &self.ledger
    }

    async fn pass(&self, span: Duration) {
        let span = span.as_millis();
        let by = match self.place.kind {
            Kind::Sqlite => span.to_string(),
            Kind::Postgres => format!("interval '{span} milliseconds'"),
            Kind::Redis => {
                let (mut connection, prefix) = self.place.redis().await;
                let script = driver::Script::new(SET_BACK);
                let _: () = script.key(prefix).arg(span.to_string()).invoke_async(&mut connection).await.unwrap();
                return;
            }
        };
        let leases = format!("UPDATE ledger_sales SET lease_until = lease_until - {by}");
        let answers = format!("UPDATE ledger_answers SET kept_until = kept_until - {by}");
        self.place.sql(&format!("{leases}; {answers}")).await;
    }

    /// Less than what [`spans`] is made of.
    fn drift(&self) -> Duration {
        Duration::from_secs(19)
    }

    fn keeps_book(&self) -> bool {
        self.place.kind != Kind::Redis
    }
}

/// So long that what passes beside them changes no answer: leases are multiples of them.
fn spans() -> impl Strategy<Value = Duration> {
    prop_oneof![4 => 1..=3_u64, 1 => 4..=45_u64].prop_map(|count| Duration::from_secs(20 * count))
}

#[test]
fn one_sequence_four_ledgers_one_model() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut places = Vec::new();
    for kind in [Kind::Sqlite, Kind::Postgres, Kind::Redis] {
        places.extend(runtime.block_on(Place::new(kind)));
    }
    let config = ProptestConfig { failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::with_cases(32) };
    let all = |steps: Vec<Step>| {
        runtime.block_on(async {
            check_memory(&steps).await?;
            for place in &places {
                let database = Database::cleared(place).await;
                let agrees = check(&database, &steps).await;
                database.ledger.close().await;
                agrees.map_err(|error| TestCaseError::fail(format!("{:?}: {error}", place.kind)))?;
            }
            Ok(())
        })
    };
    if let Err(error) = TestRunner::new(config).run(&steps(spans(), 32), all) {
        panic!("{error}");
    }
    runtime.block_on(async {
        for place in places {
            place.remove().await;
        }
    });
}
