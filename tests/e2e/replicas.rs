//! Two replicas of the datasets service on one PostgreSQL: each has a merchant, a verifier and a pool of its own, and
//! both have one sealing key.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use serde_json::json;
use tower_x402::ledger::{
    PostgresLedger,
    sqlx::{self, AssertSqlSafe, PgPool, postgres::PgPoolOptions},
};

use super::{
    app::{App, PATIENT},
    datasets::{open_with, with_proof},
    market::{Market, PRICE},
    shop::{Answer, CONVERSIONS, INSIGHTS, Shop},
};
use crate::support::servers;

const ROUNDS: usize = 12;
/// How many present one payment at once, half of them at each replica.
const PRESENTERS: usize = 8;
/// A key in hexadecimal: the one of [`Market::merchant`].
pub const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";

/// A schema of a test's own.
pub struct Database {
    server: &'static str,
    schema: String,
}

impl Database {
    /// `None` where there is no server.
    pub async fn new() -> Option<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let server = servers::postgres().await?;
        let schema = format!("x402_app_{}_{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let database = Self { server, schema };
        database.run(format!("CREATE SCHEMA {}", database.schema)).await;
        Some(database)
    }

    pub fn url(&self) -> String {
        format!("{}?options[search_path]={}", self.server, self.schema)
    }

    async fn run(&self, statement: String) {
        let admin = PgPool::connect(self.server).await.unwrap();
        // A server that is ending may still clear away what it need not remember: then one of the two is sent away.
        for _ in 0..5 {
            match sqlx::raw_sql(AssertSqlSafe(statement.clone())).execute(&admin).await {
                Err(error)
                    if error.as_database_error().is_some_and(|error| error.code().as_deref() == Some("40P01")) => {}
                done => {
                    done.unwrap();
                    return;
                }
            }
        }
        panic!("the server does not let go of the schema");
    }

    /// The one number that this question has for an answer.
    pub async fn count(&self, question: &str) -> i64 {
        // Other tests may have all the connections that there are.
        let pool = PgPoolOptions::new().max_connections(1).acquire_timeout(Duration::from_secs(300));
        let pool = pool.connect(&self.url()).await.unwrap();
        sqlx::query_scalar(AssertSqlSafe(question)).fetch_one(&pool).await.unwrap()
    }

    pub async fn remove(self) {
        self.run(format!("DROP SCHEMA {} CASCADE", self.schema)).await;
    }

    /// A replica that starts as one does: it connects, and makes sure of the tables.
    async fn replica(&self, market: &Market) -> Shop {
        // A machine that is busy with other tests is no server that hangs.
        let ledger = PostgresLedger::connect(&self.url()).await.unwrap().time_limit(Duration::from_secs(60));
        ledger.migrate().await.unwrap();
        open_with(market.merchant().await.ledger(ledger)).await
    }
}

/// Presents these requests at once, each at the replica beside it; tells what each was told.
async fn race(requests: Vec<(&Shop, serde_json::Value)>) -> Vec<(u16, String)> {
    let answers = requests.iter().map(|(shop, body)| shop.post(INSIGHTS, body));
    let told = |answer: Answer| (answer.status, answer.code().to_owned());
    futures_util::future::join_all(answers).await.into_iter().map(told).collect()
}

/// One of them got the answer; the others were told one of these.
#[track_caller]
fn assert_one_sold(told: &[(u16, String)], refusals: &[&str]) {
    let sold = told.iter().filter(|(status, _)| *status == 200).count();
    let refused = |(status, code): &(u16, String)| *status == 409 && refusals.contains(&code.as_str());
    assert_eq!(sold, 1, "{told:?}");
    assert!(told.iter().filter(|(status, _)| *status != 200).all(refused), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_pair_raced_at_both_is_sold_once() {
    let Some(database) = Database::new().await else { return };
    let market = Market::new().await;
    let (left, right) = tokio::join!(database.replica(&market), database.replica(&market));
    let question = json!({ "query": "pricing" });
    for round in 0..ROUNDS {
        let quoting = if round % 2 == 0 { &left } else { &right };
        let intent = quoting.intent(INSIGHTS).await;
        let body = with_proof(&question, &intent, market.pay(PRICE).await);
        let requests = (0..PRESENTERS).map(|n| (if n % 2 == 0 { &left } else { &right }, body.clone()));
        let told = race(requests.collect()).await;
        assert_one_sold(&told, &["redemption_in_progress", "already_consumed"]);
        for shop in [&left, &right] {
            shop.post(INSIGHTS, &body).await.refused("already_consumed");
        }
    }
    assert_eq!(database.count("SELECT count(*) FROM ledger_sold").await, ROUNDS as i64);
    database.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_payment_raced_with_many_intents_at_both_is_sold_once() {
    let Some(database) = Database::new().await else { return };
    let market = Market::new().await;
    let (left, right) = (database.replica(&market).await, database.replica(&market).await);
    let question = json!({ "query": "pricing" });
    for _ in 0..ROUNDS {
        let payment = market.pay(PRICE).await;
        let mut requests = Vec::new();
        for n in 0..PRESENTERS {
            // Quoted by one, presented to the other.
            let (quoting, asked) = if n % 2 == 0 { (&left, &right) } else { (&right, &left) };
            requests.push((asked, with_proof(&question, &quoting.intent(INSIGHTS).await, payment)));
        }
        let told = race(requests).await;
        assert_one_sold(&told, &["redemption_in_progress", "tx_already_used"]);
    }
    assert_eq!(market.takings().await, ROUNDS as u128 * PRICE);
    assert_eq!(database.count("SELECT count(*) FROM ledger_sold").await, ROUNDS as i64);
    database.remove().await;
}

#[tokio::test]
async fn what_one_quotes_the_other_redeems_also_after_the_first_is_gone() {
    let Some(database) = Database::new().await else { return };
    let market = Market::new().await;
    let left = database.replica(&market).await;
    let intent = left.intent(CONVERSIONS).await;
    let payment = market.pay(PRICE).await;
    drop(left);
    let right = database.replica(&market).await;
    let body = with_proof(&json!({ "filters": { "aggregate": "country" } }), &intent, payment);
    let _ = right.post(CONVERSIONS, &body).await.taken();
    // One that comes later knows it, too.
    database.replica(&market).await.post(CONVERSIONS, &body).await.refused("already_consumed");
    database.remove().await;
}

/// As an operator starts them: two processes at once on an empty database, by flags.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_share_one_ledger() {
    let Some(database) = Database::new().await else { return };
    let market = Market::new().await;
    let url = database.url();
    let flags = ["--ledger", &url, "--sealing-key", KEY];
    let start = || App::start(market.chain.rpc_url(), &flags);
    let (left, right) = tokio::join!(start(), start());
    let (intent, payment) = (left.intent().await, market.pay(PRICE).await);
    let (at_left, at_right) = tokio::join!(left.redeem(&intent, payment), right.redeem(&intent, payment));
    assert_eq!([&at_left, &at_right].iter().filter(|answer| answer.status == 200).count(), 1);

    left.kill();
    right.redeem(&intent, payment).await.refused("already_consumed");
    let (intent, payment) = (right.intent().await, market.pay(PRICE).await);
    right.kill();
    let next = start().await;
    let _ = tokio::time::timeout(PATIENT, next.redeem(&intent, payment)).await.unwrap().taken();
    database.remove().await;
}
