//! SECURITY 59: pgbouncer in transaction mode between the ledger and its database.

use std::{fs, time::Duration};
use tower_x402::protocol::Network;

use tower_x402::ledger::{
    CommitOutcome, Ledger, PostgresLedger, ReserveOutcome,
    conformance::{self, Harness},
    sqlx::{self, AssertSqlSafe, Connection as _, PgConnection, PgPool},
};

use super::{
    super::{MARK, PATIENT, claim, hold, time},
    Database,
    defaults::works,
};
use crate::support::servers::{Watched, as_server, free_port, installed, missing, own};

/// A pooler that lends each of two connections for one transaction at a time.
struct Pooler {
    _program: Watched,
    _folder: tempfile::TempDir,
    database: Database,
    url: String,
    schema: String,
}

impl Pooler {
    async fn new() -> Option<Self> {
        let database = Database::new(5).await?;
        let program = installed("pgbouncer", &["/usr/sbin".into(), "/usr/local/sbin".into()]);
        let program = program.or_else(|| missing("pgbouncer"))?;
        let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
        let server: sqlx::postgres::PgConnectOptions = database.url.parse().unwrap();
        let (base, schema) = (server.get_database().unwrap(), database.url.rsplit('=').next().unwrap().to_owned());
        let settings = folder.path().join("pgbouncer.ini");
        let text = format!(
            "[databases]\n{base} = host={} port={} dbname={base} user={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n\
             max_client_conn = 200\nignore_startup_parameters = extra_float_digits\n",
            server.get_host(),
            server.get_port(),
            server.get_username(),
        );
        fs::write(&settings, text).unwrap();
        own(folder.path());
        let mut run = as_server(&program);
        run.arg(&settings);
        let watched = Watched::start(&run);
        let url = format!("postgres://{}@127.0.0.1:{port}/{base}", server.get_username());
        for _ in 0..400 {
            if let Ok(connection) = PgConnection::connect(&url).await {
                connection.close().await.unwrap();
                return Some(Self { _program: watched, _folder: folder, database, url, schema });
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("the pooler does not answer");
    }

    async fn ledger(&self) -> PostgresLedger {
        let builder = PostgresLedger::builder().time_limit(PATIENT).schema(&self.schema).unwrap();
        builder.connect(&self.url).await.unwrap()
    }
}

impl Harness for Pooler {
    type Ledger = PostgresLedger;

    async fn fresh(&self) -> PostgresLedger {
        let again = format!("DROP SCHEMA {0} CASCADE; CREATE SCHEMA {0}", self.schema);
        sqlx::raw_sql(AssertSqlSafe(again)).execute(&self.database.pools[0]).await.unwrap();
        let ledger = self.ledger().await;
        ledger.migrate().await.unwrap();
        ledger
    }

    async fn share(&self, _: &PostgresLedger) -> PostgresLedger {
        self.ledger().await
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    fn skips_time(&self) -> bool {
        false
    }

    fn rounds(&self) -> usize {
        self.database.rounds
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_it_conforms() {
    let Some(pooler) = Pooler::new().await else { return };
    for check in ["a_pair_is_sold_once", "extremes_are_kept", "taken_over_is_lost", "one_pair", "one_delivery"] {
        assert_eq!(conformance::run_one(&pooler, check).await, Ok(true));
    }
    let ledger = pooler.fresh().await;
    works(&ledger).await;
}

/// Two connections for forty at once, and others who prepare and set what they like beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_pooler_each_gets_its_own_answer() {
    let Some(pooler) = Pooler::new().await else { return };
    let ledgers = [pooler.fresh().await, pooler.ledger().await];
    ledgers[0].begin(Network::BASE, time(MARK)).await.unwrap();
    let other = PgPool::connect(&pooler.url).await.unwrap();
    let others = tokio::spawn(async move {
        for n in 0..200_i32 {
            let text = format!("PREPARE sqlx_s_{n} AS SELECT 1; SELECT 'another client''s answer', {n}");
            let _ = sqlx::raw_sql(AssertSqlSafe(text)).execute(&other).await;
        }
        // What a ledger set must not end this.
        let slept = sqlx::raw_sql("SELECT pg_sleep(2.5)").execute(&other).await;
        assert!(slept.is_ok(), "another application is cancelled: {slept:?}");
    });
    let selling: Vec<_> = (0..40_u64)
        .map(|task| {
            let ledger = ledgers[task as usize % 2].clone();
            tokio::spawn(async move {
                for n in 0..10 {
                    let name = 1 + task * 10 + n;
                    let lease = hold(&ledger, &claim(name, name)).await;
                    let asked = claim(name, name);
                    assert_eq!((lease.intent(), lease.payment()), (asked.intent(), &asked.payments()[0]));
                    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
                    assert_eq!(ledger.reserve(&claim(name, name)).await, Ok(ReserveOutcome::IntentConsumed));
                    assert_eq!(
                        ledger.consumed(claim(name + 1_000, 1).intent()).await.map(|sale| sale.is_some()),
                        Ok(false)
                    );
                }
            })
        })
        .collect();
    for task in selling {
        task.await.unwrap();
    }
    others.await.unwrap();
    let sold: i64 =
        sqlx::query_scalar("SELECT count(*) FROM ledger_sold").fetch_one(&pooler.database.pools[0]).await.unwrap();
    assert_eq!(sold, 400);
}
