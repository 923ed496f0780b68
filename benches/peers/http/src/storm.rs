//! Ten thousand paid intents, all redeemed at once, with each ledger: how fast, and that each is sold once.
//!
//! Runs in process, because the ledger is what takes the time.

use std::{
    env,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use axum::Router;
use http::StatusCode;
use tokio::{runtime::Builder, task::JoinSet};
use tower::ServiceExt as _;
use tower_x402::ledger::{
    Ledger, MemoryLedger, PostgresLedger, RedisLedger, SqliteLedger,
    redis_driver as driver,
    sqlx::{self, AssertSqlSafe, Connection as _, PgConnection},
};

use crate::shop::{Shop, ask};

const INTENTS: usize = 10_000;
const AT_ONCE: usize = 64;
/// A busy machine must not pass for a hanging server.
const PATIENT: Duration = Duration::from_secs(60);
/// The prefix of tables and keys; everything with this prefix is deleted.
const PREFIX: &str = "http_bench";

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        println!("\n| Ledger | Answers a second | Median | p99 | Delivered | Delivered again |");
        println!("|---|---:|---:|---:|---:|---:|");
        storm("memory", MemoryLedger::new()).await?;
        let folder = tempfile::tempdir()?;
        storm("SQLite", SqliteLedger::open(folder.path().join("ledger.db")).await?.time_limit(PATIENT)).await?;
        match env::var("X402_BENCH_POSTGRES") {
            Ok(url) => postgres(&url).await?,
            Err(_) => println!("| PostgreSQL | X402_BENCH_POSTGRES is not set | – | – | – | – |"),
        }
        match env::var("X402_BENCH_REDIS") {
            Ok(url) => redis(&url).await?,
            Err(_) => println!("| Redis | X402_BENCH_REDIS is not set | – | – | – | – |"),
        }
        Ok(())
    })
}

async fn postgres(url: &str) -> Result<(), Box<dyn Error>> {
    // Its own schema, so that nothing else is touched.
    let mut connection = PgConnection::connect(url).await?;
    let drop = format!("DROP SCHEMA IF EXISTS {PREFIX} CASCADE");
    let create = format!("{drop}; CREATE SCHEMA {PREFIX}");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await?;
    let separator = if url.contains('?') { '&' } else { '?' };
    let ledger = PostgresLedger::connect(&format!("{url}{separator}options[search_path]={PREFIX}")).await?;
    let ledger = ledger.time_limit(PATIENT);
    ledger.migrate().await?;
    let done = storm("PostgreSQL", ledger).await;
    sqlx::raw_sql(AssertSqlSafe(drop)).execute(&mut connection).await?;
    done
}

async fn redis(url: &str) -> Result<(), Box<dyn Error>> {
    let client = driver::Client::open(url)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let drop = driver::Script::new(
        "local cursor = '0'
         repeat
           local page = redis.call('SCAN', cursor, 'MATCH', ARGV[1], 'COUNT', 1000)
           cursor = page[1]
           for _, key in ipairs(page[2]) do redis.call('UNLINK', key) end
         until cursor == '0'",
    );
    let keys = format!("{{{PREFIX}}}:*");
    drop.arg(&keys).invoke_async::<()>(&mut connection).await?;
    let ledger = RedisLedger::builder().key_prefix(PREFIX).time_limit(PATIENT).connect(url).await?;
    let done = storm("Redis", ledger).await;
    drop.arg(&keys).invoke_async::<()>(&mut connection).await?;
    done
}

async fn storm(name: &str, ledger: impl Ledger) -> Result<(), Box<dyn Error>> {
    let shop = Shop::open(ledger).await?;
    let proofs: Arc<[String]> = shop.proofs(INTENTS).await?.into();
    let start = Instant::now();
    let mut each = redeem(&shop.app, &proofs, StatusCode::OK).await?;
    let took = start.elapsed();
    let delivered = each.len();
    let again = INTENTS - redeem(&shop.app, &proofs, StatusCode::CONFLICT).await?.len();
    let runs = shop.runs.load(Ordering::Relaxed);
    if (delivered, again, runs) != (INTENTS, 0, INTENTS as u64) {
        return Err(format!("{name}: {delivered} delivered, {again} twice, the handler ran {runs} times").into());
    }
    each.sort_unstable();
    let rate = delivered as f64 / took.as_secs_f64();
    let (half, most) = (each[delivered / 2], each[delivered * 99 / 100]);
    println!("| {name} | {rate:.0} | {half:.2?} | {most:.2?} | {delivered} | {again} |");
    Ok(())
}

/// Shows every proof, and returns the durations of the answers with that status.
async fn redeem(app: &Router, proofs: &Arc<[String]>, status: StatusCode) -> Result<Vec<Duration>, Box<dyn Error>> {
    let next = Arc::new(AtomicUsize::new(0));
    let mut crowd = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (app, proofs, next) = (app.clone(), Arc::clone(proofs), Arc::clone(&next));
        crowd.spawn(async move {
            let mut each = Vec::new();
            while let Some(proof) = proofs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let request = ask(Some(proof))?;
                let start = Instant::now();
                let Ok(answer) = app.clone().oneshot(request).await;
                if answer.status() == status {
                    each.push(start.elapsed());
                }
            }
            Ok::<_, http::Error>(each)
        });
    }
    let each: Result<Vec<_>, _> = crowd.join_all().await.into_iter().collect();
    Ok(each?.concat())
}
