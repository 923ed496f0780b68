//! `SqliteLedger`: conformance, several handles on one file, restarts, backups, and a file that does not work.

#[cfg(unix)]
mod files;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tower_x402::{
    ledger::{
        Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, LedgerErrorKind, Maintenance as _,
        ReserveOutcome, SalesBook as _, SalesQuery, SqliteLedger,
        conformance::{self, CHECKS, Harness},
        sqlx::{self, Connection as _, SqliteConnection},
    },
    protocol::{IntentKey, Network},
};

use super::{HEAD, LEASE, MARK, PATIENT, Sold, claim, claim_for, documented_query, hold, sell, time};

struct Files {
    folder: TempDir,
    made: AtomicUsize,
    rounds: usize,
    skips_time: bool,
}

impl Files {
    fn new(rounds: usize) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), made: AtomicUsize::new(0), rounds, skips_time: false }
    }

    fn path(&self, n: usize) -> PathBuf {
        self.folder.path().join(format!("{n}.db"))
    }

    async fn open(&self, n: usize) -> SqliteLedger {
        SqliteLedger::open(self.path(n)).await.unwrap().time_limit(PATIENT)
    }
}

impl Harness for Files {
    type Ledger = SqliteLedger;

    async fn fresh(&self) -> SqliteLedger {
        let n = self.made.fetch_add(1, Ordering::Relaxed);
        self.open(n).await
    }

    /// What is shared is always the last that was made.
    async fn share(&self, _: &SqliteLedger) -> SqliteLedger {
        self.open(self.made.load(Ordering::Relaxed) - 1).await
    }

    async fn pass(&self, span: Duration) {
        if !self.skips_time {
            return tokio::time::sleep(span).await;
        }
        // Time passes where what is remembered is longer ago.
        let ago = span.as_millis();
        let pass = format!(
            "UPDATE ledger_sales SET lease_until = lease_until - {ago};
             UPDATE ledger_answers SET kept_until = kept_until - {ago}"
        );
        let path = self.path(self.made.load(Ordering::Relaxed) - 1);
        sqlx::raw_sql(sqlx::AssertSqlSafe(pass)).execute(&mut raw(&path).await).await.unwrap();
    }

    fn skips_time(&self) -> bool {
        self.skips_time
    }

    fn rounds(&self) -> usize {
        self.rounds
    }
}

async fn raw(path: &Path) -> SqliteConnection {
    SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap()
}

/// Lets another process do something with the file: locks are a process's.
fn elsewhere(does: &str, path: &Path) {
    // A write that is too large is an error then, and not the end.
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    run(shell, does, path);
}

/// In the program that `start` starts with what follows it.
fn run(mut start: Command, does: &str, path: &Path) {
    start.arg(std::env::current_exe().unwrap());
    start.args(["--exact", "backends::sqlite::as_another_program", "--test-threads=1"]);
    start.env("SQLITE_FILE", path).env("SQLITE_DOES", does);
    let output = start.output().unwrap();
    let told = [output.stdout, output.stderr].map(|told| String::from_utf8_lossy(&told).into_owned());
    assert!(output.status.success(), "{}{}", told[0], told[1]);
    assert!(told[0].contains("1 passed"));
}

/// What [`elsewhere`] runs; on its own it does nothing.
#[tokio::test]
async fn as_another_program() {
    let (Ok(path), Ok(does)) = (std::env::var("SQLITE_FILE"), std::env::var("SQLITE_DOES")) else { return };
    let path = Path::new(&path);
    match &*does {
        // As `sqlite3 … .backup` does.
        "reads" => {
            let mut connection = raw(path).await;
            sqlx::raw_sql("SELECT count(*) FROM ledger_sales").execute(&mut connection).await.unwrap();
            connection.close().await.unwrap();
        }
        "finds it sold" => {
            let ledger = SqliteLedger::open(path).await.unwrap().time_limit(PATIENT);
            assert_eq!(ledger.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::IntentConsumed));
            assert_eq!(ledger.reserve(&claim(2, 1)).await, Ok(ReserveOutcome::PaymentUsed));
        }
        #[cfg(target_os = "linux")]
        "has a full disk" => has_a_full_disk(path).await,
        "is well" => assert_eq!(SqliteLedger::open(path).await.unwrap().time_limit(PATIENT).health().await, Ok(())),
        "cannot open it" => {
            let error = SqliteLedger::open(path).await.unwrap_err();
            assert_eq!(error.kind(), LedgerErrorKind::Unsafe);
            assert!(error.to_string().contains("mounted alone"), "{error}");
            assert!(error.to_string().contains("mount the folder"));
        }
        other => panic!("{other} is not known"),
    }
}

/// On POSIX a process that closes a file drops every lock that it has on it.
#[tokio::test]
async fn opened_twice_it_keeps_its_locks_and_sells_once() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let _twin = begun(&path).await;
    #[cfg(target_os = "linux")]
    assert!(is_locked(&path), "the lock that says that somebody uses it is gone");
    elsewhere("reads", &path);
    // An older SQLite, where there is one: from 3.51 on it looks for others itself before it takes the log away.
    let _ = Command::new("sqlite3").arg(&path).arg("SELECT count(*) FROM ledger_sales").output();
    assert!(files.folder.path().join("0.db-wal").exists(), "another program took the log away");
    sell(&ledger, &claim(1, 1)).await;
    elsewhere("finds it sold", &path);
}

/// Whether this process has a lock on the file.
#[cfg(target_os = "linux")]
fn is_locked(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (process, file) = (std::process::id().to_string(), format!(":{}", std::fs::metadata(path).unwrap().ino()));
    let locks = std::fs::read_to_string("/proc/locks").unwrap();
    locks
        .lines()
        .map(|lock| lock.split_whitespace().collect::<Vec<_>>())
        .any(|lock| matches!(lock[..], [_, "POSIX", _, _, owner, at, ..] if owner == process && at.ends_with(&file)))
}

async fn begun(path: &Path) -> SqliteLedger {
    let ledger = SqliteLedger::open(path).await.unwrap().time_limit(PATIENT);
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    ledger
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn it_conforms() {
    let report = conformance::run(&Files::new(20)).await.unwrap();
    assert!(report.left_out.iter().all(|check| check.takes_minutes));
    assert_eq!(report.passed.len() + report.left_out.len(), CHECKS.len());
}

#[tokio::test]
async fn it_pauses_for_minutes() {
    let files = Files { skips_time: true, ..Files::new(0) };
    for check in CHECKS.iter().filter(|check| check.takes_minutes) {
        assert_eq!(conformance::run_one(&files, check.name).await, Ok(true));
    }
}

#[tokio::test]
async fn what_was_begun_to_be_settled_is_kept_for_its_intent() {
    crate::is_kept_for_its_intent(&Files { skips_time: true, ..Files::new(0) }).await;
}

/// SECURITY 1, on two handles: 64 tasks, 1,000 rounds.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_at_once_one_is_answered_a_thousand_times() {
    assert_eq!(conformance::run_one(&Files::new(1_000), "one_pair").await, Ok(true));
}

#[tokio::test]
async fn a_restart_keeps_everything() {
    let files = Files::new(0);
    let path = files.path(0);
    let before = begun(&path).await;
    let sold = hold(&before, &claim(1, 1)).await;
    assert_eq!(before.commit(&sold, None).await, Ok(CommitOutcome::Done));
    let held = hold(&before, &claim(2, 2)).await;
    drop(before);

    let after = SqliteLedger::open(&path).await.unwrap();
    after.begin(Network::BASE, time(MARK + 10_000)).await.unwrap();
    assert_eq!(after.low_water_mark(Network::BASE).await, Ok(Some(time(MARK))), "it had begun");
    assert_eq!(after.reserve(&claim(1, 9)).await, Ok(ReserveOutcome::IntentConsumed));
    assert_eq!(after.reserve(&claim(9, 1)).await, Ok(ReserveOutcome::PaymentUsed));
    assert!(matches!(after.reserve(&claim(9, 2)).await, Ok(ReserveOutcome::Busy { .. })));
    assert_eq!(after.commit(&sold, None).await, Ok(CommitOutcome::Done));
    assert_eq!(after.commit(&held, None).await, Ok(CommitOutcome::Done), "the lease outlives the process too");
    assert!(hold(&after, &claim(4, 4)).await.fencing_token() > held.fencing_token());
}

#[tokio::test]
async fn a_restored_backup_refuses_what_was_sold_since_once_the_mark_is_raised() {
    let files = Files::new(0);
    let (path, copy) = (files.path(0), files.path(1));
    let ledger = begun(&path).await;
    sell(&ledger, &claim(1, 1)).await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("VACUUM INTO '{}'", copy.display())))
        .execute(&mut raw(&path).await)
        .await
        .unwrap();
    sell(&ledger, &claim(2, 2)).await;

    let restored = begun(&copy).await;
    restored.raise_mark_to(Network::BASE, time(HEAD)).await.unwrap();
    restored.raise_mark_to(Network::BASE, time(MARK)).await.unwrap();
    assert_eq!(restored.low_water_mark(Network::BASE).await, Ok(Some(time(HEAD))));
    assert_eq!(restored.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::IntentConsumed));
    assert_eq!(restored.reserve(&claim(2, 2)).await, Ok(ReserveOutcome::BeforeMemory));
    restored.lower_mark_to(Network::BASE, time(MARK + 99)).await.unwrap();
    restored.lower_mark_to(Network::BASE, time(HEAD)).await.unwrap();
    assert_eq!(restored.low_water_mark(Network::BASE).await, Ok(Some(time(MARK + 99))));
    sell(&restored, &claim(3, 3)).await;
}

/// What an operator types, where there is such a program.
fn shell(path: &Path, types: &str) {
    let output = Command::new("sqlite3").arg("-bail").arg(path).arg(types).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn has_shell() -> bool {
    let is_there = Command::new("sqlite3").arg("-version").output().is_ok();
    if !is_there {
        eprintln!("LEFT OUT: there is no sqlite3 to restore a backup with");
    }
    is_there
}

async fn sells_nothing(ledger: &SqliteLedger, asked: &Claim) {
    let unavailable = LedgerError::unavailable;
    assert_eq!(ledger.reserve(asked).await, Err(unavailable()));
    assert_eq!(ledger.health().await, Err(unavailable()));
    assert_eq!(ledger.consumed(asked.intent()).await.map(|sale| sale.is_some()), Err(unavailable()));
    assert_eq!(ledger.reserve(&claim(900, 900)).await, Err(unavailable()), "nor anything else");
}

#[tokio::test]
async fn a_backup_restored_under_a_running_ledger_sells_nothing_again() {
    if !has_shell() {
        return;
    }
    // What was sold since the backup was free then, or held, or is another's sale.
    for was in ["free", "held", "another's"] {
        let files = Files::new(0);
        let (path, copy) = (files.path(0), files.path(1));
        let (ledger, twin) = (begun(&path).await, begun(&path).await);
        sell(&ledger, &claim(1, 1)).await;
        let held = if was == "held" { Some(hold(&ledger, &claim(2, 2)).await) } else { None };
        shell(&path, &format!(".backup '{}'", copy.display()));
        match held {
            Some(lease) => assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done)),
            None => sell(if was == "free" { &ledger } else { &twin }, &claim(2, 2)).await,
        }
        assert_eq!(ledger.health().await, Ok(()));
        shell(&path, &format!(".restore '{}'", copy.display()));
        sells_nothing(&ledger, &claim(3, 2)).await;

        let again = begun(&path).await;
        again.raise_mark_to(Network::BASE, time(HEAD)).await.unwrap();
        let told = again.reserve(&claim(3, 2)).await.unwrap();
        assert!(matches!(told, ReserveOutcome::BeforeMemory | ReserveOutcome::Busy { .. }), "{was}: {told:?}");
        sells_nothing(&ledger, &claim(3, 2)).await;
    }
}

/// Also where no fence tells.
#[tokio::test]
async fn a_sale_that_was_taken_out_is_missed() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let first = hold(&ledger, &claim(1, 1)).await;
    sell(&ledger, &claim(2, 2)).await;
    assert_eq!(ledger.commit(&first, None).await, Ok(CommitOutcome::Done));
    let out = format!("UPDATE ledger_sales SET consumed_at = NULL WHERE fence = {}", first.fencing_token());
    sqlx::raw_sql(sqlx::AssertSqlSafe(out)).execute(&mut raw(&path).await).await.unwrap();
    sells_nothing(&ledger, &claim(3, 1)).await;
}

/// As if the clock had been set back since, or as if both were of one millisecond.
#[tokio::test]
async fn a_sale_comes_behind_every_sale_that_a_reader_has_seen() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let query = SalesQuery::since(std::time::UNIX_EPOCH);
    for (name, ahead) in [(9, 5_000), (8, 0), (7, 1_000), (6, 0)] {
        let before = ledger.page(&query, None, 99).await.unwrap();
        sell(&ledger, &claim(name, name)).await;
        let next = ledger.page(&query, before.last(), 99).await.unwrap();
        let [sale] = &next[..] else { panic!("the reader sees {} sales", next.len()) };
        assert_eq!(sale.payment, super::paid(name).payment_id());
        let later =
            format!("UPDATE ledger_sales SET consumed_at = consumed_at + {ahead} WHERE payment = '{}'", sale.payment);
        sqlx::raw_sql(sqlx::AssertSqlSafe(later)).execute(&mut raw(&path).await).await.unwrap();
    }
    // What is far ahead does not count: no later sale is recorded a year too late.
    let year = "UPDATE ledger_sales SET consumed_at = consumed_at + 31536000000";
    sqlx::raw_sql(year).execute(&mut raw(&path).await).await.unwrap();
    sell(&ledger, &claim(5, 5)).await;
    let first = &ledger.page(&query, None, 1).await.unwrap()[0];
    assert_eq!(first.payment, super::paid(5).payment_id());
    assert!(first.sold_at <= std::time::SystemTime::now());
}

/// An operator who lowers the mark makes payments acceptable whose sales were forgotten: such a sale is not missed. One that is raised
/// excuses nothing.
#[tokio::test]
async fn a_lowered_mark_makes_no_forgotten_sale_missing() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    sell(&ledger, &claim(1, 1)).await;
    let beyond = time(claim(1, 1).keep_until(&super::paid(1).into()).unix() + 1);
    assert_eq!(ledger.sweep(Network::BASE, beyond).await, Ok(1));
    sqlx::raw_sql("DELETE FROM ledger_book").execute(&mut raw(&path).await).await.unwrap();
    assert_eq!(ledger.health().await, Ok(()));
    assert_eq!(ledger.lower_mark_to(Network::BASE, time(MARK)).await, Ok(Some(time(MARK))));
    assert_eq!(ledger.health().await, Ok(()));
    sell(&ledger, &claim(2, 2)).await;
    assert_eq!(ledger.raise_mark_to(Network::BASE, time(MARK + 1)).await, Ok(Some(time(MARK + 1))));
    let out = format!("DELETE FROM ledger_sales WHERE payment = '{}'", super::paid(2).payment_id());
    sqlx::raw_sql(sqlx::AssertSqlSafe(out)).execute(&mut raw(&path).await).await.unwrap();
    sells_nothing(&ledger, &claim(3, 2)).await;
}

/// What the triggers of the schema count, whoever changes an answer.
#[tokio::test]
async fn the_space_of_answers_is_counted_as_they_change() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let mut other = raw(&path).await;
    let is_counted = async |other: &mut SqliteConnection, bytes: i64| {
        let counted =
            "SELECT answers, (SELECT COALESCE(sum(256 + length(content)), 0) FROM ledger_answers) FROM ledger_memory";
        let counted: (i64, i64) = sqlx::query_as(counted).fetch_one(other).await.unwrap();
        assert_eq!(counted, (bytes, bytes));
    };
    for name in 1..=3 {
        let (lease, answer) = (hold(&ledger, &claim(name, name)).await, KeptAnswer::new(vec![7; 1_000], LEASE));
        assert_eq!(ledger.commit(&lease, Some(&answer)).await, Ok(CommitOutcome::Done));
        is_counted(&mut other, name as i64 * 1_256).await;
    }
    let answer = "WHERE intent = unhex('00000000000000000000000000000002')";
    for (does, bytes) in [
        (format!("UPDATE ledger_answers SET content = zeroblob(50) {answer}"), 2 * 1_256 + 306),
        (format!("UPDATE ledger_answers SET content = zeroblob(4000) {answer}"), 2 * 1_256 + 4_256),
        (format!("UPDATE ledger_answers SET kept_until = kept_until + 1 {answer}"), 2 * 1_256 + 4_256),
        (format!("DELETE FROM ledger_answers {answer}"), 2 * 1_256),
    ] {
        sqlx::raw_sql(sqlx::AssertSqlSafe(does)).execute(&mut other).await.unwrap();
        is_counted(&mut other, bytes).await;
    }
    // An answer that was left by an intent without a sale is replaced.
    let left = "INSERT INTO ledger_answers (intent, kept_until, content)
        VALUES (unhex('00000000000000000000000000000009'), 1, zeroblob(3000))";
    sqlx::raw_sql(left).execute(&mut other).await.unwrap();
    let (lease, answer) = (hold(&ledger, &claim(9, 9)).await, KeptAnswer::new(vec![7; 1_000], LEASE));
    assert_eq!(ledger.commit(&lease, Some(&answer)).await, Ok(CommitOutcome::Done));
    is_counted(&mut other, 3 * 1_256).await;
    let beyond = time(claim(1, 1).keep_until(&super::paid(1).into()).unix() + 1);
    assert_eq!(ledger.sweep(Network::BASE, beyond).await, Ok(4));
    is_counted(&mut other, 0).await;
}

/// Whatever else becomes of the file and its sales is no loss.
#[tokio::test]
async fn what_an_operator_does_to_a_running_ledger_stops_no_sale() {
    let files = Files::new(0);
    let (path, copy) = (files.path(0), files.path(1));
    let (ledger, twin) = (begun(&path).await, begun(&path).await);
    let beyond = time(claim(1, 1).keep_until(&super::paid(1).into()).unix() + 1);
    let mut other = raw(&path).await;
    let mut name = 0;
    let mut does = vec![
        "VACUUM".to_owned(),
        "CREATE TABLE orders (id INTEGER)".to_owned(),
        "PRAGMA wal_checkpoint(TRUNCATE)".to_owned(),
        format!("VACUUM INTO '{}'", copy.display()),
        "DELETE FROM ledger_book".to_owned(),
    ];
    for does in does.drain(..) {
        for ledger in [&ledger, &twin] {
            name += 1;
            sell(ledger, &claim_at(name, MARK + 100 + 1_000 * name)).await;
        }
        if does.starts_with("DELETE") {
            while twin.sweep(Network::BASE, time(beyond.unix() + 1_000_000)).await.unwrap() > 0 {}
        }
        sqlx::raw_sql(sqlx::AssertSqlSafe(does)).execute(&mut other).await.unwrap();
        for ledger in [&ledger, &twin] {
            assert_eq!(ledger.health().await, Ok(()));
        }
    }
    elsewhere("is well", &path);
    if has_shell() {
        // Nothing was sold since.
        let again = files.path(2);
        shell(&path, &format!(".backup '{}'", again.display()));
        shell(&path, &format!(".restore '{}'", again.display()));
    }
    for ledger in [&ledger, &twin] {
        name += 1;
        sell(ledger, &claim_at(name, MARK + 100 + 1_000_000)).await;
    }
    twin.close().await;
    ledger.lower_mark_to(Network::BASE, time(MARK)).await.unwrap();
    sell(&ledger, &claim_at(100, MARK + 100)).await;
}

/// Of the payment of this name, mined then.
fn claim_at(name: u64, mined: u64) -> Claim {
    let paid = {
        let mut transfer = super::paid(name);
        transfer.block_time = time(mined);
        transfer
    };
    let key = IntentKey::new(u128::from(name).to_be_bytes());
    Claim::builder("demand-insights", key)
        .pay_until(time(mined))
        .payments(vec![paid])
        .head(time(mined))
        .max_payment_age(super::AGE)
        .lease(LEASE)
        .build()
}

#[tokio::test]
async fn the_book_has_every_sale_and_forgets_none() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    // More than one step of a sweep forgets.
    for name in 1..=140 {
        sell(&ledger, &claim(name, name)).await;
    }
    let _held = hold(&ledger, &claim(190, 190)).await;
    let mut connection = raw(&path).await;
    let query = sqlx::AssertSqlSafe(documented_query(include_str!("../../../src/ledger/sqlite/handle.rs")));
    let today: Vec<Sold> = sqlx::query_as(query).fetch_all(&mut connection).await.unwrap();
    let line = ("demand-insights".to_owned(), 8453, format!("0x{}", "55".repeat(20)), 140, 140 * 490_000);
    assert_eq!(today, [line]);

    let beyond = HEAD + 2 * 86_400 + 180 + 240 + 3_600 + 1;
    let swept = claim_for(1, 1, Duration::from_secs(60), beyond);
    assert_eq!(ledger.sweep(Network::BASE, time(beyond)).await, Ok(140));
    assert_eq!(ledger.reserve(&swept).await, Ok(ReserveOutcome::IntentConsumed), "it is in the book");
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK + 100))));
    let rows = async |connection: &mut SqliteConnection| -> (i64, i64, i64) {
        let count = "SELECT (SELECT count(*) FROM ledger_sales), (SELECT count(*) FROM ledger_book), (SELECT count(*) FROM ledger_sold)";
        sqlx::query_as(count).fetch_one(connection).await.unwrap()
    };
    assert_eq!(rows(&mut connection).await, (1, 140, 140), "the lease stays");
    let sale: (String, String, String, i64, String, i64, bool) = sqlx::query_as(
        "SELECT payer, amount, tx_hash, log_position, intent, block_time, reserved_at <= consumed_at FROM ledger_sold ORDER BY fence LIMIT 1 OFFSET 1",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    let payer = format!("0x{}", "66".repeat(20));
    let (hash, intent) = (super::paid(2).transaction.to_string(), format!("0x{:032x}", 2));
    assert_eq!(sale, (payer, "490000".to_owned(), hash, 3, intent, (MARK + 100) as i64, true));
}

/// A transaction that a reorganisation dropped is mined again later, above the mark that its first time left.
#[tokio::test]
async fn what_is_in_the_book_is_refused_whatever_the_mark() {
    let files = Files::new(0);
    let ledger = begun(&files.path(0)).await;
    sell(&ledger, &claim(1, 1)).await;
    let beyond = claim(1, 1).keep_until(&super::paid(1).into()).unix() + 1;
    assert_eq!(ledger.sweep(Network::BASE, time(beyond - 1)).await, Ok(0));
    assert_eq!(ledger.sweep(Network::BASE, time(beyond)).await, Ok(1));
    assert_eq!(ledger.sweep(Network::BASE, time(beyond)).await, Ok(0));
    let again = {
        let mut transfer = super::paid(1);
        transfer.block_time = time(beyond - 100);
        transfer
    };
    let at = |intent: u64, transfer| {
        let key = IntentKey::new(u128::from(intent).to_be_bytes());
        Claim::builder("demand-insights", key)
            .pay_until(time(beyond))
            .payments(vec![transfer])
            .head(time(beyond))
            .max_payment_age(super::AGE)
            .lease(LEASE)
            .build()
    };
    assert_eq!(ledger.reserve(&at(2, again.clone())).await, Ok(ReserveOutcome::PaymentUsed));
    let other = {
        let mut transfer = super::paid(2);
        transfer.block_time = again.block_time;
        transfer
    };
    assert_eq!(ledger.reserve(&at(1, other.clone())).await, Ok(ReserveOutcome::IntentConsumed));
    sell(&ledger, &at(2, other)).await;
}

/// A sweep between a look and the write that follows from it would let a payment through that was sold.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_forgotten_meanwhile_is_not_granted() {
    let files = Files::new(0);
    let path = files.path(0);
    let (ledger, twin) = (begun(&path).await, begun(&path).await);
    for name in 1..=200 {
        sell(&ledger, &claim(name, name)).await;
    }
    let mut connection = raw(&path).await;
    sqlx::raw_sql("PRAGMA busy_timeout = 60000").execute(&mut connection).await.unwrap();
    let beyond = claim(1, 1).keep_until(&super::paid(1).into()).unix() + 1;
    let sweeping = tokio::spawn(async move {
        while twin.sweep(Network::BASE, time(beyond)).await.unwrap() > 0 {
            // Nor does the book help.
            sqlx::raw_sql("DELETE FROM ledger_book").execute(&mut connection).await.unwrap();
        }
    });
    let asking: Vec<_> = (1..=200)
        .map(|name| {
            let ledger = ledger.clone();
            tokio::spawn(async move { ledger.reserve(&claim(1_000 + name, name)).await.unwrap() })
        })
        .collect();
    for asked in asking {
        let told = asked.await.unwrap();
        assert!(matches!(told, ReserveOutcome::PaymentUsed | ReserveOutcome::BeforeMemory), "{told:?}");
    }
    sweeping.await.unwrap();
}

/// How many transactions the log holds: frames that say how large the database is after them.
fn transactions(files: &Files) -> usize {
    let log = std::fs::read(files.folder.path().join("0.db-wal")).unwrap();
    let page = u32::from_be_bytes(log[8..12].try_into().unwrap()) as usize;
    log[32..].chunks_exact(24 + page).filter(|frame| frame[4..8] != [0; 4] && frame[8..16] == log[16..24]).count()
}

/// Puts them all into the line while another program writes, and lets that end.
async fn together<T: Send + 'static>(path: &Path, asking: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let mut other = raw(path).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let asking: Vec<_> = asking.into_iter().map(tokio::spawn).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    let mut told = Vec::new();
    for asked in asking {
        told.push(asked.await.unwrap());
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_together_is_written_together() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let reserve = |name| {
        let ledger = ledger.clone();
        async move { hold(&ledger, &claim(name, name)).await }
    };
    let before = transactions(&files);
    let leases = together(&path, (1..=64).map(reserve).collect()).await;
    let between = transactions(&files);
    assert!((1..=4).contains(&(between - before)), "64 reservations took {}", between - before);
    let commit = |lease: Lease| {
        let ledger = ledger.clone();
        async move { ledger.commit(&lease, None).await }
    };
    let done = together(&path, leases.into_iter().map(commit).collect()).await;
    assert_eq!(done, vec![Ok(CommitOutcome::Done); 64]);
    let sales = transactions(&files) - between;
    assert!((1..=4).contains(&sales), "64 sales took {sales}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_together_the_one_that_fails_fails_alone() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON ledger_sales WHEN NEW.intent = unhex('00000000000000000000000000000007')
        BEGIN SELECT RAISE(FAIL, 'no'); END";
    sqlx::raw_sql(refuse).execute(&mut raw(&path).await).await.unwrap();
    let reserve = |name| {
        let ledger = ledger.clone();
        async move { (name, ledger.reserve(&claim(name, name)).await) }
    };
    for (name, told) in together(&path, (1..=16).map(reserve).collect()).await {
        match told {
            Ok(ReserveOutcome::Granted(lease)) if name != 7 => {
                assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done))
            }
            Err(error) if error.is_transient() && name == 7 => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    sqlx::raw_sql("DROP TRIGGER refuse").execute(&mut raw(&path).await).await.unwrap();
    sell(&ledger, &claim(7, 7)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_together_the_answer_that_cannot_be_kept_fails_alone() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let mut leases = Vec::new();
    for name in 1..=16 {
        leases.push((name, hold(&ledger, &claim(name, name)).await));
    }
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON ledger_answers WHEN NEW.content = x'07'
        BEGIN SELECT RAISE(FAIL, 'no'); END";
    sqlx::raw_sql(refuse).execute(&mut raw(&path).await).await.unwrap();
    let commit = |(name, lease): (u64, Lease)| {
        let ledger = ledger.clone();
        let answer = KeptAnswer::new(vec![name as u8], LEASE);
        async move { (name, ledger.commit(&lease, Some(&answer)).await) }
    };
    let kept = async |name| ledger.consumed(claim(name, name).intent()).await.unwrap().map(|sale| sale.answer);
    for (name, told) in together(&path, leases.clone().into_iter().map(commit).collect()).await {
        match told {
            Ok(CommitOutcome::Done) if name != 7 => assert_eq!(kept(name).await, Some(Some(vec![name as u8].into()))),
            Err(error) if error.is_transient() && name == 7 => assert_eq!(kept(name).await, None, "no sale either"),
            other => panic!("{name}: {other:?}"),
        }
    }
    sqlx::raw_sql("DROP TRIGGER refuse").execute(&mut raw(&path).await).await.unwrap();
    assert_eq!(commit(leases.remove(6)).await, (7, Ok(CommitOutcome::Done)));
    assert_eq!(kept(7).await, Some(Some(vec![7].into())));
}

/// Two that commit one lease in one batch: the first is heard.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_that_commit_together_one_answer_is_kept() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let lease = hold(&ledger, &claim(1, 1)).await;
    let commit = |content: &'static str| {
        let (ledger, lease) = (ledger.clone(), lease.clone());
        async move { ledger.commit(&lease, Some(&KeptAnswer::new(content, LEASE))).await }
    };
    let told = together(&path, ["one", "two", "three"].map(commit).into()).await;
    assert!(told.iter().all(|told| *told == Ok(CommitOutcome::Done)), "{told:?}");
    let kept = ledger.consumed(lease.intent()).await.unwrap().unwrap().answer.unwrap();
    assert!([&b"one"[..], b"two", b"three"].contains(&&*kept), "{kept:?}");
    assert_eq!(commit("four").await, Ok(CommitOutcome::Done));
    assert_eq!(ledger.consumed(lease.intent()).await.unwrap().unwrap().answer.unwrap(), kept);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_goes_away_takes_nobody_along() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let mut other = raw(&path).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let ask = |name| {
        let ledger = ledger.clone();
        tokio::spawn(async move { hold(&ledger, &claim(name, name)).await })
    };
    let asking: Vec<_> = (1..=64).map(ask).collect();
    tokio::time::sleep(Duration::from_millis(100)).await;
    for gone in asking.iter().step_by(2) {
        gone.abort();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    for (place, asked) in asking.into_iter().enumerate() {
        match asked.await {
            Ok(lease) if place % 2 == 1 => assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done)),
            Err(error) if place % 2 == 0 => assert!(error.is_cancelled()),
            other => panic!("{place}: {other:?}"),
        }
    }
    // Nobody waits in their place; the first ones were perhaps being asked already.
    assert!(matches!(
        ledger.reserve(&claim(63, 63)).await,
        Ok(ReserveOutcome::Granted(_) | ReserveOutcome::IntentHeld { .. } | ReserveOutcome::Busy { .. })
    ));
    sell(&ledger, &claim(100, 100)).await;
}

/// Who gives up before the answer, and who gives up with the answer at the door.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_granted_to_nobody_is_free_again() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let wanted = claim(1, 1);
    for round in 0..20 {
        let mut other = raw(&path).await;
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
        let mut asking = Box::pin(ledger.reserve(&wanted));
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut asking).await.is_err());
        if round % 2 == 0 {
            drop(asking);
            sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
        } else {
            sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
            // It is granted meanwhile, and the grant waits to be taken.
            while !is_held(&mut other).await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            drop(asking);
        }
        // What frees it stands in line before this.
        let lease = hold(&ledger, &wanted).await;
        ledger.release(&lease).await.unwrap();
    }
}

/// There is nobody who could free it just then: it is done with what is asked next.
#[test]
fn what_is_granted_to_nobody_outside_a_runtime_is_free_for_the_next() {
    let files = Files::new(0);
    let path = files.path(0);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, second) = (runtime(), runtime());
    let ledger = first.block_on(begun(&path));
    let wanted = claim(1, 1);
    let mut asking = Box::pin(ledger.reserve(&wanted));
    first.block_on(async {
        let mut other = raw(&path).await;
        // It is not granted before it is waited for.
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
        assert!(tokio::time::timeout(Duration::ZERO, &mut asking).await.is_err());
        sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
        while !is_held(&mut other).await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    });
    drop(asking);
    second.block_on(sell(&ledger, &wanted));
}

async fn is_held(connection: &mut SqliteConnection) -> bool {
    let held = sqlx::query_scalar("SELECT EXISTS (SELECT 1 FROM ledger_sales WHERE consumed_at IS NULL)");
    held.fetch_one(connection).await.unwrap()
}

/// Who gave up on a sale and asks again is told what is on the disk already, whoever writes or flushes just then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_that_nobody_heard_of_is_told_at_once() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    let lease = hold(&ledger, &claim(1, 1)).await;
    let mut other = raw(&path).await;
    // It is not done before it is waited for.
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let mut asking = Box::pin(ledger.commit(&lease, None));
    assert!(tokio::time::timeout(Duration::ZERO, &mut asking).await.is_err());
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    while is_held(&mut other).await {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    drop(asking);
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let brief = ledger.clone().time_limit(Duration::from_millis(50));
    assert_eq!(brief.commit(&lease, None).await, Ok(CommitOutcome::Done));
    let same_fence = Lease::new(&claim(2, 2), &super::paid(2).into(), lease.fencing_token());
    assert_eq!(brief.commit(&same_fence, None).await, Err(LedgerError::unavailable()), "it is another's");
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    assert_eq!(ledger.commit(&same_fence, None).await, Ok(CommitOutcome::LeaseLost));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_may_wait_are_refused_at_once() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = SqliteLedger::builder().queue(2).open(&path).await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let mut other = raw(&path).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let start = Instant::now();
    let claims: Vec<_> = (1..=16).map(|name| claim(name, name)).collect();
    let mut asking = claims.iter().map(|claim| Box::pin(ledger.reserve(claim))).collect::<Vec<_>>();
    let mut refused = 0;
    for asked in &mut asking {
        // Polled once.
        if tokio::time::timeout(Duration::ZERO, asked).await == Ok(Err(LedgerError::unavailable())) {
            refused += 1;
        }
    }
    assert!((12..=14).contains(&refused), "{refused}");
    assert!(start.elapsed() < Duration::from_secs(1));
    drop(asking);
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    sell(&ledger.time_limit(PATIENT), &claim(20, 20)).await;
}

/// Who writes is a task of the runtime that asked: it may end, and the next runtime goes on.
#[test]
fn it_outlives_a_runtime() {
    let files = Files::new(0);
    let path = files.path(0);
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let ledger = first.block_on(begun(&path));
    let lease = first.block_on(hold(&ledger, &claim(1, 1)));
    // It stands still, and is not gone.
    assert_eq!(runtime().block_on(ledger.commit(&lease, None)), Ok(CommitOutcome::Done));
    let mut other = first.block_on(raw(&path));
    first.block_on(sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other)).unwrap();
    let (second, third) = (runtime(), claim(2, 2));
    let broken =
        second.block_on(async { tokio::time::timeout(Duration::from_millis(50), ledger.reserve(&third)).await });
    assert!(broken.is_err());
    drop(second);
    first.block_on(sqlx::raw_sql("COMMIT").execute(&mut other)).unwrap();
    first.block_on(sell(&ledger, &claim(3, 3)));
}

/// As containers do it, in a namespace of its own.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_is_mounted_without_its_folder_is_refused() {
    let may =
        |flags: &&str| Command::new("unshare").args([flags, "true"]).output().is_ok_and(|done| done.status.success());
    let Some(flags) = ["-m", "-rm"].into_iter().find(may) else {
        return eprintln!(
            "LEFT OUT: nothing can be mounted here; what is read of /proc/self/mountinfo is tested in the library"
        );
    };
    let files = Files::new(0);
    let ledger = begun(&files.path(0)).await;
    sell(&ledger, &claim(1, 1)).await;
    ledger.close().await;
    let inside = files.folder.path().join("in side");
    std::fs::create_dir(&inside).unwrap();
    let mounted = |what: &Path, at: &Path, does: &str, path: &Path| {
        let mut start = Command::new("unshare");
        start.args([flags, "sh", "-c", "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"", "sh"]).args([what, at]);
        run(start, does, path);
    };
    let (file, link) = (inside.join("0.db"), files.folder.path().join("link.db"));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    mounted(&files.path(0), &file, "cannot open it", &file);
    mounted(&files.path(0), &file, "cannot open it", &link);
    mounted(files.folder.path(), &inside, "finds it sold", &file);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_was_taken_away_sells_nothing() {
    for (taken, comes_back) in [("0.db", true), ("0.db-wal", false), ("0.db-shm", false)] {
        for replaced in [true, false] {
            let files = Files::new(0);
            let path = files.path(0);
            let ledger = begun(&path).await;
            sell(&ledger, &claim(1, 1)).await;
            let lease = hold(&ledger, &claim(2, 2)).await;
            let (here, away) = (files.folder.path().join(taken), files.folder.path().join("away"));
            std::fs::rename(&here, &away).unwrap();
            if replaced {
                std::fs::copy(&away, &here).unwrap();
            }
            let unavailable = LedgerError::unavailable;
            assert_eq!(ledger.commit(&lease, None).await, Err(unavailable()), "{taken}");
            assert_eq!(ledger.reserve(&claim(3, 3)).await, Err(unavailable()), "{taken}");
            assert_eq!(ledger.health().await, Err(unavailable()), "{taken}");
            if taken == "0.db" {
                assert_eq!(
                    ledger.consumed(IntentKey::new(1_u128.to_be_bytes())).await.map(|sale| sale.is_some()),
                    Err(unavailable())
                );
            }
            std::fs::rename(&away, &here).unwrap();
            assert_eq!(ledger.health().await.is_ok(), comes_back, "{taken}");
        }
    }
}

/// A file that holds other tables, two ledgers with names of their own, and the caller's pool.
#[tokio::test]
async fn a_pool_of_the_callers_serves() {
    let files = Files::new(0);
    let path = files.path(0);
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let pool = sqlx::sqlite::SqlitePoolOptions::new().max_connections(1).connect_with(options).await.unwrap();
    sqlx::raw_sql("CREATE TABLE orders (id INTEGER)").execute(&pool).await.unwrap();
    let mut ledgers = Vec::new();
    for prefix in ["shop1_", "shop2_"] {
        let ledger = SqliteLedger::builder().table_prefix(prefix).unwrap().time_limit(PATIENT);
        let ledger = ledger.on(pool.clone()).await.unwrap();
        assert!(ledger.health().await.is_err(), "nothing is made unasked");
        ledger.migrate().await.unwrap();
        ledger.migrate().await.unwrap();
        ledger.begin(Network::BASE, time(MARK)).await.unwrap();
        ledgers.push(ledger);
    }
    for ledger in &ledgers {
        sell(ledger, &claim(1, 1)).await;
        assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK))));
        assert_eq!(ledger.health().await, Ok(()));
    }
    let third = SqliteLedger::builder().table_prefix("shop3_").unwrap().run_migrations(true).on(pool.clone()).await;
    assert_eq!(third.unwrap().low_water_mark(Network::BASE).await, Ok(None), "its tables were made");
    let bare = SqliteLedger::builder().run_migrations(false).open(&path).await.unwrap();
    assert!(bare.low_water_mark(Network::BASE).await.is_err(), "its tables were not made");
    let sold: (i64, i64) =
        sqlx::query_as("SELECT (SELECT count(*) FROM shop1_sold), (SELECT count(*) FROM shop2_sold)")
            .fetch_one(&pool)
            .await
            .unwrap();
    assert_eq!(sold, (1, 1));
    for wrong in ["", "1shop_", "Shop_", "a b", "sqlite_a", &"a".repeat(33)] {
        assert!(SqliteLedger::builder().table_prefix(wrong).is_err(), "{wrong}");
    }
    let memory = sqlx::SqlitePool::connect("sqlite::memory:").await.unwrap();
    assert_eq!(SqliteLedger::from(memory.clone()).migrate().await, Err(LedgerError::unavailable()));
    let migrated = SqliteLedger::builder().run_migrations(true).on(memory).await;
    assert_eq!(migrated.unwrap_err(), LedgerError::unavailable());
}

/// A full disk, as a limit on how large the process's files may be.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_full_disk_is_told_and_got_over() {
    let files = Files::new(0);
    elsewhere("has a full disk", &files.path(0));
}

/// Of this process.
#[cfg(target_os = "linux")]
fn largest_file(bytes: &str) {
    let process = std::process::id().to_string();
    let done = Command::new("prlimit").args(["--pid", &process, &format!("--fsize={bytes}:unlimited")]).status();
    assert!(done.expect("prlimit, of util-linux").success());
}

#[cfg(target_os = "linux")]
async fn has_a_full_disk(path: &Path) {
    let ledger = begun(path).await;
    let lease = hold(&ledger, &claim(1, 1)).await;
    for _ in 0..2 {
        largest_file("4096");
        assert_eq!(ledger.health().await, Err(LedgerError::unavailable()));
        assert_eq!(ledger.commit(&lease, None).await, Err(LedgerError::unavailable()));
        assert_eq!(ledger.reserve(&claim(2, 2)).await, Err(LedgerError::unavailable()));
    }
    largest_file("unlimited");
    assert_eq!(ledger.health().await, Ok(()));
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    sell(&ledger, &claim(2, 2)).await;
    trusts_no_log_after_a_failure(&ledger, path).await;
}

/// After a failed write the log may lack on the disk what the system shows of it, and no later flush would tell. So the log is
/// written into the database before anything is sold, and nothing is sold where that cannot be done.
#[cfg(target_os = "linux")]
async fn trusts_no_log_after_a_failure(ledger: &SqliteLedger, path: &Path) {
    let log = || std::fs::metadata(path.with_extension("db-wal")).unwrap().len();
    // Its lock keeps SQLite from doing the same when the ledger closes its own connection.
    let mut reader = raw(path).await;
    sqlx::raw_sql("SELECT count(*) FROM ledger_sales").execute(&mut reader).await.unwrap();
    for name in 10..40 {
        sell(ledger, &claim(name, name)).await;
    }
    let before = log();
    largest_file("4096");
    assert_eq!(ledger.health().await, Err(LedgerError::unavailable()));
    largest_file("unlimited");
    sqlx::raw_sql("BEGIN; SELECT count(*) FROM ledger_sales").execute(&mut reader).await.unwrap();
    assert_eq!(ledger.reserve(&claim(3, 3)).await, Err(LedgerError::unavailable()), "the log is in use");
    sqlx::raw_sql("COMMIT").execute(&mut reader).await.unwrap();
    sell(ledger, &claim(3, 3)).await;
    assert!(log() < before / 2, "the log had {before} bytes, and has {}", log());
}

#[tokio::test]
async fn what_hangs_is_unavailable_within_two_seconds() {
    let files = Files::new(0);
    let path = files.path(0);
    begun(&path).await;
    let ledger = SqliteLedger::open(&path).await.unwrap();
    let lease = hold(&ledger, &claim(1, 1)).await;
    let mut other = raw(&path).await;
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    let start = Instant::now();
    let rival = claim(2, 2);
    let (reserved, committed, healthy) =
        tokio::join!(ledger.reserve(&rival), ledger.commit(&lease, None), ledger.health());
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(reserved, Err(LedgerError::unavailable()));
    assert_eq!(committed, Err(LedgerError::unavailable()));
    assert_eq!(healthy, Err(LedgerError::unavailable()));
    assert_eq!(
        ledger.consumed(IntentKey::new(1_u128.to_be_bytes())).await.map(|sale| sale.is_some()),
        Ok(false),
        "reading goes on"
    );
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    let patient = ledger.time_limit(PATIENT);
    assert_eq!(patient.commit(&lease, None).await, Ok(CommitOutcome::Done));
    assert_eq!(patient.health().await, Ok(()));
}

#[tokio::test]
async fn what_is_no_ledger_is_refused() {
    let files = Files::new(0);
    let nowhere = files.folder.path().join("canary-folder").join("ledger.db");
    let error = SqliteLedger::open(&nowhere).await.unwrap_err();
    assert_eq!(error, LedgerError::unavailable());
    assert!(!format!("{error} {error:?}").contains("canary"));

    let text = files.path(1);
    std::fs::write(&text, "this is no database, it is a letter to the editor; ".repeat(100)).unwrap();
    assert_eq!(SqliteLedger::open(&text).await.unwrap_err(), LedgerError::unavailable());

    let path = files.path(2);
    let ledger = begun(&path).await;
    assert!(!format!("{ledger:?}").contains("2.db"));
    sqlx::raw_sql("UPDATE ledger_memory SET version = 1").execute(&mut raw(&path).await).await.unwrap();
    let incompatible = Err(LedgerError::incompatible());
    assert_eq!(ledger.health().await, incompatible);
    assert_eq!(ledger.begin(Network::BASE, time(MARK)).await.map(drop), incompatible);
    assert_eq!(ledger.reserve(&claim(1, 1)).await, Err(LedgerError::incompatible()));
    assert_eq!(SqliteLedger::open(&path).await.unwrap_err(), LedgerError::incompatible());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_may_open_it_at_once() {
    let files = Files::new(0);
    let path = files.path(0);
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let path = path.clone();
            tokio::spawn(async move { SqliteLedger::open(path).await.map(drop) })
        })
        .collect();
    for opened in opening {
        assert_eq!(opened.await.unwrap(), Ok(()));
    }
    let odd = files.folder.path().join("a ?mode=memory#%41.db");
    begun(&odd).await;
    assert!(odd.exists(), "a path is a path");
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let files = Files::new(0);
    let ledger = begun(&files.path(0)).await;
    sell(&ledger, &claim(1, 1)).await;
    for name in ["0.db", "0.db-wal", "0.db-shm"] {
        let mode = std::fs::metadata(files.folder.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}
