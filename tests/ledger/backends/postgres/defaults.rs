//! Databases whose defaults are not ours, schemas of another name or another version, sweeps by name.

use std::time::Duration;

use tower_x402::{
    ledger::{
        Claim, CommitOutcome, Ledger, LedgerError, Maintenance as _, PostgresLedger, RenewOutcome, ReserveOutcome,
        sqlx::{self, AssertSqlSafe, Row as _},
    },
    protocol::{IntentKey, Network, Transfer},
};

use super::{
    super::{AGE, HEAD, LEASE, MARK, claim, hold, paid, sell, time},
    Database,
};

/// Runs through every question, as a seller does.
pub(super) async fn works(ledger: &PostgresLedger) {
    ledger.migrate().await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    for name in 1..=3 {
        let failed = hold(ledger, &claim(name, name)).await;
        assert_eq!(ledger.renew(&failed).await, Ok(RenewOutcome::Held));
        ledger.release(&failed).await.unwrap();
        let lease = hold(ledger, &claim(name, name)).await;
        assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
        assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
        assert_eq!(ledger.renew(&lease).await, Ok(RenewOutcome::LeaseLost), "what is sold has no lease");
        assert_eq!(ledger.consumed(lease.intent()).await.map(|sale| sale.is_some()), Ok(true));
        assert_eq!(ledger.reserve(&claim(name + 10, name)).await, Ok(ReserveOutcome::PaymentUsed));
    }
    ledger.raise_mark_to(Network::BASE, time(MARK + 1)).await.unwrap();
    ledger.lower_mark_to(Network::BASE, time(MARK)).await.unwrap();
    assert_eq!(ledger.health().await, Ok(()));
}

/// A role's or a database's default, as every connection of this URL has it.
fn with_default(url: &str, setting: &str) -> String {
    let (url, search_path) = url.split_once("?options[").unwrap();
    format!("{url}?options[{search_path}&options[{setting}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_defaults_are_it_works() {
    for setting in [
        "default_transaction_read_only]=on",
        "default_transaction_isolation]=serializable",
        "default_transaction_isolation]=repeatable%20read",
        "standard_conforming_strings]=off",
        "synchronous_commit]=off",
    ] {
        let Some(database) = Database::new(0).await else { return };
        let ledger = PostgresLedger::connect(&with_default(&database.url, setting)).await.unwrap();
        let ledger = ledger.time_limit(super::PATIENT);
        works(&ledger).await;
        // Races are decided, and not refused for want of a snapshot.
        let tasks: Vec<_> = (0..32)
            .map(|n| {
                let ledger = ledger.clone();
                tokio::spawn(async move { ledger.reserve(&claim(100 + n, 100)).await })
            })
            .collect();
        let mut granted = 0;
        for task in tasks {
            match task.await.unwrap().unwrap() {
                ReserveOutcome::Granted(_) => granted += 1,
                ReserveOutcome::Busy { .. } => {}
                other => panic!("{setting}: {other:?}"),
            }
        }
        assert_eq!(granted, 1, "{setting}");
        database.remove().await;
    }
}

/// Whatever a caller or another application set on the connections stays as it was.
#[tokio::test]
async fn nothing_is_set_on_the_session() {
    let Some(database) = Database::new(0).await else { return };
    let pool = sqlx::postgres::PgPoolOptions::new().max_connections(1).connect(&database.url).await.unwrap();
    let settings = "SELECT COALESCE(string_agg(name || '=' || setting, ', ' ORDER BY name), '') FROM pg_settings
        WHERE source = 'session'";
    let before: String = sqlx::query_scalar(settings).fetch_one(&pool).await.unwrap();
    let elsewhere = format!("{}_b", database.url.rsplit('=').next().unwrap());
    works(&PostgresLedger::builder().schema(&elsewhere).unwrap().on(pool.clone()).await.unwrap()).await;
    let after: String = sqlx::query_scalar(settings).fetch_one(&pool).await.unwrap();
    assert_eq!(after, before);
    let named = "SELECT count(*) FROM pg_prepared_statements WHERE statement ~ 'x402|ledger'";
    let named: i64 = sqlx::raw_sql(named).fetch_one(&pool).await.unwrap().get(0);
    assert_eq!(named, 0);
    sqlx::raw_sql(AssertSqlSafe(format!("DROP SCHEMA {elsewhere} CASCADE"))).execute(&pool).await.unwrap();
    pool.close().await;
    database.remove().await;
}

#[tokio::test]
async fn two_schemas_are_two_ledgers() {
    let Some(database) = Database::new(0).await else { return };
    let base = database.url.rsplit('=').next().unwrap().to_owned();
    for n in 1..=2 {
        let ledger = PostgresLedger::builder().schema(&format!("{base}_{n}")).unwrap().time_limit(super::PATIENT);
        let ledger = ledger.connect(&database.url).await.unwrap();
        works(&ledger).await;
        ledger.migrate().await.unwrap();
        let elsewhere = format!("SELECT count(*) FROM {base}_{n}.ledger_sold");
        let sold: i64 = sqlx::query_scalar(AssertSqlSafe(elsewhere)).fetch_one(&database.pools[0]).await.unwrap();
        assert_eq!(sold, 3);
    }
    let here: bool =
        sqlx::query_scalar("SELECT to_regclass('ledger_memory') IS NULL").fetch_one(&database.pools[0]).await.unwrap();
    assert!(here, "nothing is made where the search path leads");
    for n in 1..=2 {
        let drop = format!("DROP SCHEMA {base}_{n} CASCADE");
        sqlx::raw_sql(AssertSqlSafe(drop)).execute(&database.pools[0]).await.unwrap();
    }
    database.remove().await;
}

/// A later one whose schema this version can read is left as it is; one that it cannot read is refused.
#[tokio::test]
async fn a_later_revision_is_served_and_another_version_is_not() {
    let Some(database) = Database::new(0).await else { return };
    let (ledger, pool) = (database.begun().await, &database.pools[0]);
    sqlx::raw_sql("UPDATE ledger_memory SET revision = 9").execute(pool).await.unwrap();
    ledger.migrate().await.unwrap();
    sell(&ledger, &claim(3, 3)).await;
    for version in [2, 4] {
        let another = format!("UPDATE ledger_memory SET version = {version}");
        sqlx::raw_sql(AssertSqlSafe(another)).execute(pool).await.unwrap();
        assert_eq!(ledger.migrate().await, Err(LedgerError::incompatible()));
        assert_eq!(ledger.health().await, Err(LedgerError::incompatible()));
        assert_eq!(ledger.reserve(&claim(4, 4)).await, Err(LedgerError::incompatible()));
    }
    database.remove().await;
}

#[tokio::test]
async fn a_sweep_by_name_forgets_all_that_may_be() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    for name in 1..=40 {
        sell(&ledger, &claim(name, name)).await;
    }
    let _held = hold(&ledger, &claim(50, 50)).await;
    let last = claim(1, 1).keep_until(&paid(1).into());
    assert_eq!(ledger.sweep(Network::BASE, last).await, Ok(0), "it is kept to the second");
    assert_eq!(ledger.sweep(Network::BASE, last.after(Duration::from_secs(1))).await, Ok(40));
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK + 100))));
    let rows: (i64, i64) =
        sqlx::query_as("SELECT (SELECT count(*) FROM ledger_sales), (SELECT count(*) FROM ledger_book)")
            .fetch_one(&database.pools[0])
            .await
            .unwrap();
    assert_eq!(rows, (1, 40), "what is held stays");
    database.remove().await;
}

/// A reorganisation brings back what was sold weeks ago: the book knows it.
#[tokio::test]
async fn what_is_in_the_book_is_not_sold_again_whenever_it_was_mined() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    sell(&ledger, &claim(1, 1)).await;
    let month = HEAD + 30 * 86_400;
    assert_eq!(ledger.sweep(Network::BASE, time(month)).await, Ok(1));
    let moved = {
        let mut transfer = paid(1);
        transfer.block_time = time(month - 60);
        transfer
    };
    let fresh = {
        let mut transfer = paid(2);
        transfer.block_time = time(month - 60);
        transfer
    };
    let at = |intent: u128, transfer: &Transfer| {
        let key = IntentKey::new(intent.to_be_bytes());
        Claim::builder("r", key)
            .pay_until(time(month))
            .payments(vec![transfer.clone()])
            .head(time(month))
            .max_payment_age(AGE)
            .lease(LEASE)
            .build()
    };
    assert_eq!(ledger.reserve(&at(5, &moved)).await, Ok(ReserveOutcome::PaymentUsed));
    assert_eq!(ledger.reserve(&at(1, &fresh)).await, Ok(ReserveOutcome::IntentConsumed));
    sell(&ledger, &at(5, &fresh)).await;
    database.remove().await;
}
