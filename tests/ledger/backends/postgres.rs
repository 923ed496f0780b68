//! `PostgresLedger`: conformance over two pools, migrations, backups, servers that hang, die or lose the answer.

mod answers;
mod defaults;
mod flushes;
mod grants;
mod outages;
mod pooler;
mod reading;
mod shares;
mod statements;
mod together;

use std::{
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};
use tower_x402::protocol::Network;

use tower_x402::ledger::{
    CommitOutcome, Ledger, LedgerError, Maintenance as _, PostgresLedger, ReserveOutcome,
    conformance::{self, CHECKS, Harness},
    sqlx::{self, AssertSqlSafe, PgPool, postgres::PgPoolOptions},
};

use super::{HEAD, MARK, PATIENT, Sold, claim, claim_for, documented_query, hold, sell, time};
use crate::support::servers;

/// A schema of a test's own, and two pools on it.
struct Database {
    url: String,
    pools: [PgPool; 2],
    made: AtomicUsize,
    rounds: usize,
    skips_time: bool,
}

impl Database {
    /// `None` where there is no server.
    async fn new(rounds: usize) -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let server = servers::postgres().await?;
        let schema = format!("x402_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let admin = PgPool::connect(server).await.unwrap();
        let create = format!("CREATE SCHEMA {schema}");
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&admin).await.unwrap();
        let url = format!("{server}?options[search_path]={schema}");
        let pool = || PgPoolOptions::new().max_connections(4).connect_lazy(&url).unwrap();
        let pools = [pool(), pool()];
        Some(Self { url, pools, made: AtomicUsize::new(0), rounds, skips_time: false })
    }

    /// A letter or more for each ledger.
    fn prefix(n: usize) -> String {
        n.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).chain(['_']).collect()
    }

    async fn ledger(&self, pool: usize, n: usize) -> PostgresLedger {
        let builder = PostgresLedger::builder().table_prefix(&Self::prefix(n)).unwrap().time_limit(PATIENT);
        builder.on(self.pools[pool].clone()).await.unwrap()
    }

    /// A ledger under its usual names, as a seller connects.
    async fn connected(&self) -> PostgresLedger {
        PostgresLedger::connect(&self.url).await.unwrap().time_limit(PATIENT)
    }

    async fn begun(&self) -> PostgresLedger {
        let ledger = self.connected().await;
        ledger.migrate().await.unwrap();
        ledger.begin(Network::BASE, time(MARK)).await.unwrap();
        ledger
    }

    /// Removes what the test made.
    async fn remove(self) {
        let schema = self.url.rsplit('=').next().unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!("DROP SCHEMA {schema} CASCADE"))).execute(&self.pools[0]).await.unwrap();
        for pool in &self.pools {
            pool.close().await;
        }
    }
}

impl Harness for Database {
    type Ledger = PostgresLedger;

    async fn fresh(&self) -> PostgresLedger {
        let ledger = self.ledger(0, self.made.fetch_add(1, Ordering::Relaxed)).await;
        ledger.migrate().await.unwrap();
        ledger
    }

    /// What is shared is always the last that was made.
    async fn share(&self, _: &PostgresLedger) -> PostgresLedger {
        self.ledger(1, self.made.load(Ordering::Relaxed) - 1).await
    }

    async fn pass(&self, span: Duration) {
        if !self.skips_time {
            return tokio::time::sleep(span).await;
        }
        // Time passes where what is remembered is longer ago.
        let prefix = Self::prefix(self.made.load(Ordering::Relaxed) - 1);
        let ago = format!("interval '{} microseconds'", span.as_micros());
        let pass = format!(
            "UPDATE {prefix}sales SET lease_until = lease_until - {ago};
             UPDATE {prefix}answers SET kept_until = kept_until - {ago}"
        );
        sqlx::raw_sql(AssertSqlSafe(pass)).execute(&self.pools[0]).await.unwrap();
    }

    fn skips_time(&self) -> bool {
        self.skips_time
    }

    fn rounds(&self) -> usize {
        self.rounds
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_conforms() {
    let Some(database) = Database::new(20).await else { return };
    let report = conformance::run(&database).await.unwrap();
    assert!(report.left_out.iter().all(|check| check.takes_minutes));
    assert_eq!(report.passed.len() + report.left_out.len(), CHECKS.len());
    database.remove().await;
}

#[tokio::test]
async fn it_pauses_for_minutes() {
    let Some(database) = Database::new(0).await else { return };
    let database = Database { skips_time: true, ..database };
    for check in CHECKS.iter().filter(|check| check.takes_minutes) {
        assert_eq!(conformance::run_one(&database, check.name).await, Ok(true));
    }
    database.remove().await;
}

#[tokio::test]
async fn what_was_begun_to_be_settled_is_kept_for_its_intent() {
    let Some(database) = Database::new(0).await else { return };
    let database = Database { skips_time: true, ..database };
    crate::is_kept_for_its_intent(&database).await;
    database.remove().await;
}

/// SECURITY 1 and 2, over two pools: 64 tasks, 400 rounds, which take as long as a thousand on a file.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_at_once_one_is_answered_four_hundred_times() {
    let Some(database) = Database::new(400).await else { return };
    assert_eq!(conformance::run_one(&database, "one_pair").await, Ok(true));
    database.remove().await;
}

#[tokio::test]
async fn another_replica_and_the_next_one_know_everything() {
    let Some(database) = Database::new(0).await else { return };
    let before = database.begun().await;
    let sold = hold(&before, &claim(1, 1)).await;
    assert_eq!(before.commit(&sold, None).await, Ok(CommitOutcome::Done));
    let held = hold(&before, &claim(2, 2)).await;
    drop(before);

    let after = database.connected().await;
    after.migrate().await.unwrap();
    after.begin(Network::BASE, time(MARK + 10_000)).await.unwrap();
    assert_eq!(after.low_water_mark(Network::BASE).await, Ok(Some(time(MARK))), "it had begun");
    assert_eq!(after.reserve(&claim(1, 9)).await, Ok(ReserveOutcome::IntentConsumed));
    assert_eq!(after.reserve(&claim(9, 1)).await, Ok(ReserveOutcome::PaymentUsed));
    assert!(matches!(after.reserve(&claim(9, 2)).await, Ok(ReserveOutcome::Busy { .. })));
    assert_eq!(after.commit(&sold, None).await, Ok(CommitOutcome::Done));
    assert_eq!(after.commit(&held, None).await, Ok(CommitOutcome::Done), "the lease outlives the process too");
    assert!(hold(&after, &claim(4, 4)).await.fencing_token() > held.fencing_token());
    database.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn replicas_may_migrate_at_once() {
    let Some(database) = Database::new(0).await else { return };
    let unmigrated = database.connected().await;
    assert_eq!(unmigrated.begin(Network::BASE, time(MARK)).await, Err(LedgerError::incompatible()));
    assert_eq!(unmigrated.reserve(&claim(1, 1)).await, Err(LedgerError::incompatible()));
    assert_eq!(unmigrated.health().await, Err(LedgerError::incompatible()));
    let migrating: Vec<_> = (0..8)
        .map(|n| {
            let ledger = PostgresLedger::from(database.pools[n % 2].clone());
            tokio::spawn(async move { ledger.migrate().await })
        })
        .collect();
    for migrated in migrating {
        assert_eq!(migrated.await.unwrap(), Ok(()));
    }
    assert_eq!(unmigrated.reserve(&claim(1, 1)).await, Err(LedgerError::unavailable()), "it has not begun");
    assert_eq!(unmigrated.low_water_mark(Network::BASE).await, Ok(None));
    unmigrated.begin(Network::BASE, time(MARK)).await.unwrap();
    sell(&unmigrated, &claim(1, 1)).await;
    unmigrated.migrate().await.unwrap();
    assert_eq!(unmigrated.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::IntentConsumed), "a migration loses nothing");

    sqlx::raw_sql("UPDATE ledger_memory SET version = 1").execute(&database.pools[0]).await.unwrap();
    let incompatible = Err(LedgerError::incompatible());
    assert_eq!(unmigrated.migrate().await, incompatible);
    assert_eq!(unmigrated.begin(Network::BASE, time(MARK)).await.map(drop), incompatible);
    assert_eq!(unmigrated.health().await, incompatible);
    assert_eq!(unmigrated.reserve(&claim(2, 2)).await, Err(LedgerError::incompatible()));
    database.remove().await;
}

#[tokio::test]
async fn a_prefix_is_letters_and_underscores() {
    for good in ["a", "_", "shop_", "shop2_", &"z".repeat(32)] {
        assert!(PostgresLedger::builder().table_prefix(good).is_ok(), "{good}");
        assert!(PostgresLedger::builder().schema(good).is_ok(), "{good}");
    }
    for bad in ["", "A", "1a", "a-b", "a b", "a\"", "a;drop table x", "ä", &"z".repeat(33)] {
        assert!(PostgresLedger::builder().table_prefix(bad).is_err(), "{bad}");
        assert!(PostgresLedger::builder().schema(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn two_prefixes_are_two_ledgers() {
    let Some(database) = Database::new(0).await else { return };
    // One that the names of the statements contain, and the longest.
    let builder = |prefix: &str| PostgresLedger::builder().table_prefix(prefix).unwrap().time_limit(PATIENT);
    let one = builder("my_ledger_").run_migrations(true).on(database.pools[0].clone()).await.unwrap();
    let two = builder(&"l".repeat(32)).run_migrations(true).pool_size(1).connect(&database.url).await.unwrap();
    for ledger in [&one, &two] {
        ledger.begin(Network::BASE, time(MARK)).await.unwrap();
        sell(ledger, &claim(1, 1)).await;
        assert_eq!(ledger.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::IntentConsumed));
    }
    database.remove().await;
}

#[tokio::test]
async fn a_restored_backup_refuses_what_was_sold_since_once_the_mark_is_raised() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    sell(&ledger, &claim(1, 1)).await;
    // As restoring an older backup would leave it.
    let backup = "CREATE TABLE copy AS TABLE ledger_sales";
    sqlx::raw_sql(backup).execute(&database.pools[0]).await.unwrap();
    sell(&ledger, &claim(2, 2)).await;
    let restore = "DELETE FROM ledger_sales WHERE fence NOT IN (SELECT fence FROM copy)";
    sqlx::raw_sql(restore).execute(&database.pools[0]).await.unwrap();

    ledger.raise_mark_to(Network::BASE, time(HEAD)).await.unwrap();
    ledger.raise_mark_to(Network::BASE, time(MARK)).await.unwrap();
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(HEAD))));
    assert_eq!(ledger.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::IntentConsumed));
    assert_eq!(ledger.reserve(&claim(2, 2)).await, Ok(ReserveOutcome::BeforeMemory));
    ledger.lower_mark_to(Network::BASE, time(MARK + 99)).await.unwrap();
    ledger.lower_mark_to(Network::BASE, time(HEAD)).await.unwrap();
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK + 99))));
    assert_eq!(ledger.reserve(&claim(3, 3)).await, Err(LedgerError::unavailable()), "its last sale is missing");
    sell(&database.connected().await, &claim(3, 3)).await;
    database.remove().await;
}

#[tokio::test]
async fn the_book_has_every_sale_and_forgets_none() {
    let Some(database) = Database::new(0).await else { return };
    let pool = &database.pools[0];
    let ledger = database.begun().await;
    // More than one step of a sweep forgets.
    for name in 1..=140 {
        sell(&ledger, &claim(name, name)).await;
    }
    let _held = hold(&ledger, &claim(190, 190)).await;
    let query = documented_query(include_str!("../../../src/ledger/postgres/handle.rs"));
    // The driver reads no `numeric` here.
    let query = query.replace("sum(amount)", "sum(amount)::bigint");
    let today: Vec<Sold> = sqlx::query_as(AssertSqlSafe(query)).fetch_all(pool).await.unwrap();
    assert_eq!(today, [("demand-insights".to_owned(), 8453, format!("0x{}", "55".repeat(20)), 140, 140 * 490_000)]);

    let beyond = HEAD + 2 * 86_400 + 180 + 240 + 3_600 + 1;
    let swept = claim_for(1, 1, Duration::from_secs(60), beyond);
    assert_eq!(ledger.sweep(Network::BASE, time(beyond)).await, Ok(140));
    assert_eq!(ledger.reserve(&swept).await, Ok(ReserveOutcome::IntentConsumed));
    assert_eq!(
        ledger.reserve(&claim_for(199, 1, Duration::from_secs(60), beyond)).await,
        Ok(ReserveOutcome::PaymentUsed)
    );
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK + 100))));
    let count = "SELECT (SELECT count(*) FROM ledger_sales), (SELECT count(*) FROM ledger_book), (SELECT count(*) FROM ledger_sold)";
    let rows: (i64, i64, i64) = sqlx::query_as(count).fetch_one(pool).await.unwrap();
    assert_eq!(rows, (1, 140, 140), "the lease stays");
    let sale: (String, String, String, i64, String, i64, bool) = sqlx::query_as(
        "SELECT payer, amount::text, tx_hash, log_position, intent, block_time, reserved_at <= consumed_at
         FROM ledger_sold ORDER BY fence OFFSET 1 LIMIT 1",
    )
    .fetch_one(pool)
    .await
    .unwrap();
    let (payer, hash) = (format!("0x{}", "66".repeat(20)), super::paid(2).transaction.to_string());
    assert_eq!(sale, (payer, "490000".to_owned(), hash, 3, format!("0x{:032x}", 2), (MARK + 100) as i64, true));
    database.remove().await;
}

/// Sweeping that fails now is done later, and refuses nobody meanwhile.
#[tokio::test]
async fn a_sweep_that_fails_stops_nothing() {
    let Some(database) = Database::new(0).await else { return };
    let pool = &database.pools[0];
    let ledger = database.begun().await;
    sell(&ledger, &claim(1, 1)).await;
    let full = "ALTER TABLE ledger_book ADD CONSTRAINT is_full CHECK (false)";
    sqlx::raw_sql(full).execute(pool).await.unwrap();
    let beyond = HEAD + 2 * 86_400 + 180 + 240 + 3_600 + 1;
    let at = |intent, payment| claim_for(intent, payment, Duration::from_secs(60), beyond);
    assert!(ledger.sweep(Network::BASE, time(beyond)).await.is_err());
    assert_eq!(ledger.reserve(&at(1, 1)).await, Ok(ReserveOutcome::IntentConsumed), "it is remembered longer");
    sell(&ledger, &at(2, 2)).await;
    sqlx::raw_sql("ALTER TABLE ledger_book DROP CONSTRAINT is_full").execute(pool).await.unwrap();
    assert_eq!(ledger.sweep(Network::BASE, time(beyond)).await, Ok(1));
    assert_eq!(ledger.reserve(&at(1, 1)).await, Ok(ReserveOutcome::IntentConsumed), "from the book");
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK + 100))), "it is forgotten by now");
    database.remove().await;
}
