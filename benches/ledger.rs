//! The cost of a sale with each ledger, `reserve` and `commit` together: alone and 64 at once, with few records and
//! with many, without and with a stored answer of 1 KiB.
//!
//! A ledger of n records keeps n: with each sale it may delete the oldest. So the figures include the cost of
//! deleting, and apply to that size from the first sale to the last.
//!
//! Then the rate of honest sales beside a crowd of forgers.
//!
//! `X402_BENCH_RECORDS` sets the sizes, by default `1000,100000`; if it is empty, only the crowd is measured. The
//! benchmark starts its own servers from installed binaries: PostgreSQL with its default settings, Redis with
//! `appendfsync always`. A backend without a binary is skipped with a message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[allow(dead_code, unreachable_pub)]
#[path = "../tests/support/servers.rs"]
mod servers;

mod crowd;

#[allow(dead_code, unreachable_pub)]
#[path = "../tests/kinds/redis_server.rs"]
mod redis_server;

mod support {
    pub(crate) use super::servers;
}

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use sha2::{Digest as _, Sha256};
use tokio::{runtime::Runtime, task::JoinSet};
use tower_x402::{
    ledger::{
        Claim, CommitOutcome, KeptAnswer, Ledger, MemoryLedger, PostgresLedger, RedisLedger, ReserveOutcome,
        SqliteLedger, redis_driver as driver,
        sqlx::{self, AssertSqlSafe, Connection as _, PgConnection, SqliteConnection},
    },
    protocol::{Address, Amount, ChainTime, IntentKey, Network, Transfer, TxHash},
};

/// The chain time of sale number 0; each later one is `APART` seconds later. The ledger begins before.
const FIRST: u64 = 1_795_280_000;
const APART: u64 = 100;
const LEASE: Duration = Duration::from_secs(60);
/// A busy machine must not pass for a hanging server.
const PATIENT: Duration = Duration::from_secs(60);
/// What a ledger adds to a payment's age before it deletes the record: [`Claim::keep_until`].
const MARGIN: u64 = 86_400 + 180 + 240 + 60;

const TASKS: [u64; 2] = [1, 64];
/// The sizes of the stored answers, and how long they are stored. Zero stores none.
const ANSWERS: [usize; 2] = [0, 1_024];
const KEPT: Duration = Duration::from_secs(15 * 60);

/// Returns sale number `n` of a ledger that keeps `records` records.
fn claim(n: u64, records: u64) -> Claim {
    // Names are distributed like real ones.
    let name: [u8; 32] = Sha256::digest(n.to_be_bytes()).into();
    let intent: [u8; 16] = Sha256::digest(name)[..16].try_into().unwrap();
    let transfer = Transfer::new(Network::BASE, TxHash::new(name), 3)
        .with_token(Address::new([0x55; 20]))
        .with_payer(Address::new([0x66; 20]))
        .with_recipient(Address::new([0x77; 20]))
        .with_amount(Amount::from_base_units(490_000))
        .with_block(30_000_000 + n, time(n));
    let age = Duration::from_secs(records * APART - MARGIN);
    Claim::builder("demand-insights", IntentKey::new(intent))
        .pay_until(time(n))
        .payments(vec![transfer])
        .head(time(n))
        .max_payment_age(age)
        .lease(LEASE)
        .build()
}

fn time(n: u64) -> ChainTime {
    ChainTime::from_unix(FIRST + n * APART)
}

/// Returns whether the payment was sold.
async fn sell(ledger: &impl Ledger, claim: &Claim, answer: Option<&KeptAnswer>) -> bool {
    match ledger.reserve(claim).await.unwrap() {
        ReserveOutcome::Granted(lease) => {
            assert_eq!(ledger.commit(&lease, answer).await, Ok(CommitOutcome::Done));
            true
        }
        // Other tasks sold as many as the ledger keeps before this one continued.
        ReserveOutcome::BeforeMemory => false,
        other => panic!("it is free, but: {other:?}"),
    }
}

/// One line of the table.
struct Line {
    ledger: &'static str,
    tasks: u64,
    /// The size in bytes of the answer that is stored with each sale.
    answer: usize,
    records: u64,
    per_second: f64,
    half: Duration,
    most: Duration,
    bytes: u64,
}

struct Bench {
    criterion: Criterion,
    runtime: Runtime,
    lines: Vec<Line>,
}

impl Bench {
    /// Measures a ledger that was filled with sales 0 to `records`.
    fn measure<L: Ledger + Clone>(&mut self, name: &'static str, records: u64, bytes: u64, ledger: &L) {
        let next = Arc::new(AtomicU64::new(records));
        for (tasks, answer) in TASKS.into_iter().flat_map(|tasks| ANSWERS.map(|answer| (tasks, answer))) {
            // For each run: the intended number of sales, the rate a second, and the duration of each sale.
            let mut runs = Vec::new();
            let mut group = self.criterion.benchmark_group(name);
            group.sample_size(20).sampling_mode(SamplingMode::Flat).throughput(Throughput::Elements(tasks));
            let title =
                if answer > 0 { format!("{tasks} at once, {answer} B kept") } else { format!("{tasks} at once") };
            group.bench_function(BenchmarkId::new(title, records), |bencher| {
                bencher.iter_custom(|times| {
                    let sales = times * tasks;
                    let (took, each) = self.runtime.block_on(run(ledger, &next, records, answer, [tasks, sales]));
                    runs.push((sales, each.len() as f64 / took.as_secs_f64(), each));
                    took
                });
            });
            group.finish();
            // The final runs all have the same size; smaller ones were warm-up.
            let Some(&(size, ..)) = runs.last() else { continue };
            runs.retain(|(sales, ..)| *sales == size);
            let mut rates: Vec<_> = runs.iter().map(|(_, rate, _)| *rate).collect();
            rates.sort_by(f64::total_cmp);
            let mut each: Vec<_> = runs.into_iter().flat_map(|(.., each)| each).collect();
            each.sort_unstable();
            let (per_second, half, most) = (rates[rates.len() / 2], each[each.len() / 2], each[each.len() * 99 / 100]);
            self.lines.push(Line { ledger: name, tasks, answer, records, per_second, half, most, bytes });
        }
    }

    fn print(&self) {
        println!("| Ledger | At once | Answer, bytes | Records | Sales per second | Median | p99 | Bytes a record |");
        println!("|---|---:|---:|---:|---:|---:|---:|---:|");
        for Line { ledger, tasks, answer, records, per_second, half, most, bytes } in &self.lines {
            println!(
                "| {ledger} | {tasks} | {answer} | {records} | {per_second:.0} | {half:.2?} | {most:.2?} | {bytes} |"
            );
        }
    }
}

/// Makes `sales` sales in `tasks` tasks.
async fn run<L: Ledger + Clone>(
    ledger: &L,
    next: &Arc<AtomicU64>,
    records: u64,
    answer: usize,
    [tasks, sales]: [u64; 2],
) -> (Duration, Vec<Duration>) {
    let last = next.load(Ordering::Relaxed) + sales;
    let mut crowd = JoinSet::new();
    let answer = (answer > 0).then(|| KeptAnswer::new(vec![b'a'; answer], KEPT));
    let start = Instant::now();
    for _ in 0..tasks {
        let (ledger, next, answer) = (ledger.clone(), Arc::clone(next), answer.clone());
        crowd.spawn(async move {
            let mut each = Vec::new();
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= last {
                    return each;
                }
                let claim = claim(n, records);
                let start = Instant::now();
                if sell(&ledger, &claim, answer.as_ref()).await {
                    each.push(start.elapsed());
                }
            }
        });
    }
    let each = crowd.join_all().await.concat();
    let took = start.elapsed();
    // Each task took one number that it did not use.
    next.store(last, Ordering::Relaxed);
    (took, each)
}

async fn memory(records: u64) -> (MemoryLedger, u64) {
    let before = resident();
    let ledger = MemoryLedger::new();
    ledger.begin(Network::BASE, ChainTime::from_unix(FIRST - 1)).await.unwrap();
    for n in 0..records {
        assert!(sell(&ledger, &claim(n, records), None).await);
    }
    (ledger, resident().saturating_sub(before) / records)
}

/// Returns the resident memory of this process in bytes, or zero if the system does not tell.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok()).unwrap_or(0) * 1_024
}

/// The columns that a bulk insert fills.
const COLUMNS: &str = "payment, tx_hash, intent, chain_id, log_position, resource, payer, recipient, token, amount, block_number, \
                       block_time, keep_until, lease_until, reserved_at, consumed_at";

async fn sqlite(folder: &Path, records: u64) -> (SqliteLedger, u64) {
    let path = folder.join(format!("{records}.db"));
    let ledger = SqliteLedger::open(&path).await.unwrap().time_limit(PATIENT);
    ledger.begin(Network::BASE, ChainTime::from_unix(FIRST - 1)).await.unwrap();
    let mut connection = SqliteConnection::connect(path.to_str().unwrap()).await.unwrap();
    let fill = format!(
        "WITH RECURSIVE sale(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM sale WHERE n + 1 < {records})
         INSERT INTO ledger_sales ({COLUMNS})
         SELECT 'eip155:8453/0x' || lower(hex(randomblob(32))) || '/3', randomblob(32), randomblob(16), 8453, 3, 'demand-insights', zeroblob(20), zeroblob(20), zeroblob(20),
             '490000', 30000000 + n, {FIRST} + n * {APART}, {FIRST} + (n + {records}) * {APART}, {at}, {at}, {at} FROM sale;
         PRAGMA wal_checkpoint(TRUNCATE)",
        at = FIRST * 1_000,
    );
    sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    (ledger, fs::metadata(path).unwrap().len() / records)
}

async fn postgres(server: &str, records: u64) -> (PostgresLedger, u64) {
    let ledger = PostgresLedger::connect(server).await.unwrap().time_limit(PATIENT);
    ledger.migrate().await.unwrap();
    ledger.begin(Network::BASE, ChainTime::from_unix(FIRST - 1)).await.unwrap();
    let mut connection = PgConnection::connect(server).await.unwrap();
    let fill = format!(
        "INSERT INTO ledger_sales ({COLUMNS})
         SELECT 'eip155:8453/0x' || encode(sha256(int8send(n)), 'hex') || '/3', sha256(int8send(n)), substr(sha256(int8send(-1 - n)), 1, 16), 8453, 3, 'demand-insights', address,
             address, address, 490000, 30000000 + n, {FIRST} + n * {APART}, {FIRST} + (n + {records}) * {APART}, now(), now(), now()
         FROM generate_series(0::bigint, {records} - 1) AS n, decode(repeat('66', 20), 'hex') AS address"
    );
    sqlx::raw_sql(AssertSqlSafe(fill)).execute(&mut connection).await.unwrap();
    for settle in ["VACUUM ANALYZE ledger_sales", "CHECKPOINT"] {
        sqlx::raw_sql(settle).execute(&mut connection).await.unwrap();
    }
    let size: (i64,) =
        sqlx::query_as("SELECT pg_total_relation_size('ledger_sales')").fetch_one(&mut connection).await.unwrap();
    (ledger, size.0.cast_unsigned() / records)
}

/// Creates sales ARGV[1] to ARGV[2] like [`claim`], with other names.
const FILL: &str = "
local prefix = '{ledger}:'
for n = ARGV[1], ARGV[2] do
  local intent = string.sub(redis.sha1hex('intent' .. n), 1, 32)
  local hash = redis.sha1hex('a' .. n) .. string.sub(redis.sha1hex('b' .. n), 1, 24)
  local id, first = 'eip155:8453/0x' .. hash .. '/3', tonumber(ARGV[4])
  local at = string.format('%.0f', first * 1000)
  redis.call('HSET', prefix .. 'payment:' .. id, 'intent', intent, 'fence', at .. '000', 'resource', 'demand-insights',
    'reserved_at', at, 'consumed_at', at, 'block_time', first + n * ARGV[6], 'keep_until', first + (n + ARGV[3]) * ARGV[6],
    'payer', ARGV[5], 'recipient', ARGV[5], 'token', ARGV[5], 'amount', '490000', 'block_number', 30000000 + n)
  redis.call('SET', prefix .. 'intent:' .. intent, id)
  redis.call('ZADD', prefix .. 'kept:8453', first + (n + ARGV[3]) * ARGV[6], id)
  redis.call('ZADD', prefix .. 'sold', at, id)
end";

async fn redis(url: &str, records: u64) -> (RedisLedger, u64) {
    let ledger = RedisLedger::builder().time_limit(PATIENT).connect(url).await.unwrap();
    ledger.begin(Network::BASE, ChainTime::from_unix(FIRST - 1)).await.unwrap();
    let before = redis_memory(url).await;
    let client = driver::Client::open(url).unwrap();
    let patient = driver::AsyncConnectionConfig::new().set_response_timeout(Some(PATIENT));
    let mut connection = client.get_multiplexed_async_connection_with_config(&patient).await.unwrap();
    let fill = driver::Script::new(FILL);
    for n in (0..records).step_by(1_000) {
        let mut call = fill.arg(n);
        call.arg(records.min(n + 1_000) - 1)
            .arg(records)
            .arg(FIRST)
            .arg(Address::new([0x66; 20]).to_string())
            .arg(APART);
        call.invoke_async::<()>(&mut connection).await.unwrap();
    }
    (ledger, redis_memory(url).await.saturating_sub(before) / records)
}

async fn redis_memory(url: &str) -> u64 {
    let info: String = redis_server::command(url, &["INFO", "memory"]).await;
    info.lines().find_map(|line| line.strip_prefix("used_memory:")?.trim().parse().ok()).unwrap()
}

/// Measures each ledger beside forgers, set up as a seller does.
async fn crowds(folder: &Path) -> Vec<crowd::Line> {
    let first = ChainTime::from_unix(FIRST - 1);
    let ledger = SqliteLedger::open(folder.join("crowd.db")).await.unwrap();
    ledger.begin(Network::BASE, first).await.unwrap();
    let mut lines = vec![crowd::Line::measure("sqlite", &ledger).await];
    let ledger = MemoryLedger::new();
    ledger.begin(Network::BASE, first).await.unwrap();
    lines.push(crowd::Line::measure("memory", &ledger).await);
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    if let Some(server) = redis_server::Private::start(&durable).await {
        let ledger = RedisLedger::connect(&server.url()).await.unwrap();
        ledger.begin(Network::BASE, first).await.unwrap();
        lines.push(crowd::Line::measure("redis", &ledger).await);
    }
    if let Some(server) = servers::PrivatePostgres::start(&[]).await.or_else(|| servers::missing("postgres")) {
        let ledger = PostgresLedger::connect(&server.url()).await.unwrap();
        ledger.migrate().await.unwrap();
        ledger.begin(Network::BASE, first).await.unwrap();
        lines.push(crowd::Line::measure("postgres", &ledger).await);
    }
    lines
}

fn main() {
    let sizes = std::env::var("X402_BENCH_RECORDS").unwrap_or("1000,100000".to_owned());
    let sizes = sizes.split(',').map(str::trim).filter(|size| !size.is_empty());
    let sizes: Vec<u64> = sizes.map(|size| size.parse().expect("numbers, by commas")).collect();
    assert!(sizes.iter().all(|size| size * APART > MARGIN), "a ledger keeps {} records at least", MARGIN / APART);
    let criterion = Criterion::default().configure_from_args();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut bench = Bench { criterion, runtime, lines: Vec::new() };
    for &records in &sizes {
        let (ledger, bytes) = bench.runtime.block_on(memory(records));
        bench.measure("memory", records, bytes, &ledger);
    }
    let folder = tempfile::tempdir().unwrap();
    for &records in &sizes {
        let (ledger, bytes) = bench.runtime.block_on(sqlite(folder.path(), records));
        bench.measure("sqlite", records, bytes, &ledger);
    }
    for &records in &sizes {
        let server = bench.runtime.block_on(servers::PrivatePostgres::start(&[]));
        let Some(server) = server.or_else(|| servers::missing("postgres")) else { break };
        let (ledger, bytes) = bench.runtime.block_on(postgres(&server.url(), records));
        bench.measure("postgres", records, bytes, &ledger);
    }
    for &records in &sizes {
        let durable = ["--appendonly", "yes", "--appendfsync", "always"];
        let Some(server) = bench.runtime.block_on(redis_server::Private::start(&durable)) else { break };
        let (ledger, bytes) = bench.runtime.block_on(redis(&server.url(), records));
        bench.measure("redis", records, bytes, &ledger);
    }
    bench.print();
    crowd::print(&bench.runtime.block_on(crowds(folder.path())));
    bench.criterion.final_summary();
}
