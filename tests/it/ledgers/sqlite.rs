//! `SqliteLedger`: conformance, several handles on one file, restarts, backups, and a file that does not work.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use tempfile::TempDir;
use tower_x402::{
    ledger::{
        Commit, Handler, Ledger, LedgerError, Reservation, SqliteLedger,
        conformance::{self, CHECKS, Harness},
        sqlx::{self, Connection as _, SqliteConnection},
    },
    protocol::IntentKey,
};

use super::{HEAD, MARK, PATIENT, Sold, claim, claim_for, documented_query, hold, sell, time};

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
             UPDATE ledger_attempts SET ended_at = ended_at - {ago}"
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
    let mut program = Command::new(std::env::current_exe().unwrap());
    program.args(["--exact", "ledgers::sqlite::as_another_program", "--test-threads=1"]);
    program.env("SQLITE_FILE", path).env("SQLITE_DOES", does);
    let output = program.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
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
            assert_eq!(ledger.reserve(&claim(1, 1)).await, Ok(Reservation::IntentConsumed));
            assert_eq!(ledger.reserve(&claim(2, 1)).await, Ok(Reservation::PaymentUsed));
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
    ledger.begin(time(MARK)).await.unwrap();
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
    assert_eq!(before.commit(&sold).await, Ok(Commit::Done));
    let held = hold(&before, &claim(2, 2)).await;
    for _ in 0..16 {
        let lease = hold(&before, &claim(3, 3)).await;
        before.release(&lease, Handler::Started).await.unwrap();
    }
    drop(before);

    let after = SqliteLedger::open(&path).await.unwrap();
    after.begin(time(MARK + 10_000)).await.unwrap();
    assert_eq!(after.low_water_mark().await, Ok(Some(time(MARK))), "it had begun");
    assert_eq!(after.reserve(&claim(1, 9)).await, Ok(Reservation::IntentConsumed));
    assert_eq!(after.reserve(&claim(9, 1)).await, Ok(Reservation::PaymentUsed));
    assert!(matches!(after.reserve(&claim(9, 2)).await, Ok(Reservation::Busy { .. })));
    assert!(matches!(after.reserve(&claim(3, 3)).await, Ok(Reservation::TooManyAttempts { .. })));
    assert_eq!(after.commit(&sold).await, Ok(Commit::Done));
    assert_eq!(after.commit(&held).await, Ok(Commit::Done), "the lease outlives the process too");
    assert!(hold(&after, &claim(4, 4)).await.fence() > held.fence());
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
    restored.raise_mark_to(time(HEAD)).await.unwrap();
    restored.raise_mark_to(time(MARK)).await.unwrap();
    assert_eq!(restored.low_water_mark().await, Ok(Some(time(HEAD))));
    assert_eq!(restored.reserve(&claim(1, 1)).await, Ok(Reservation::IntentConsumed));
    assert_eq!(restored.reserve(&claim(2, 2)).await, Ok(Reservation::BeforeMemory));
    restored.lower_mark_to(time(MARK + 99)).await.unwrap();
    restored.lower_mark_to(time(HEAD)).await.unwrap();
    assert_eq!(restored.low_water_mark().await, Ok(Some(time(MARK + 99))));
    sell(&restored, &claim(3, 3)).await;
}

#[tokio::test]
async fn the_book_has_every_sale_and_forgets_none() {
    let files = Files::new(0);
    let path = files.path(0);
    let ledger = begun(&path).await;
    // More than one sweep forgets.
    for name in 1..=20 {
        sell(&ledger, &claim(name, name)).await;
    }
    let _held = hold(&ledger, &claim(30, 30)).await;
    let mut connection = raw(&path).await;
    let query = sqlx::AssertSqlSafe(documented_query(include_str!("../../../src/ledger/sqlite/mod.rs")));
    let today: Vec<Sold> = sqlx::query_as(query).fetch_all(&mut connection).await.unwrap();
    let line = ("demand-insights".to_owned(), 8453, "55".repeat(20), 20, 20 * 490_000);
    assert_eq!(today, [line]);

    let beyond = HEAD + 2 * 86_400 + 180 + 240 + 3_600 + 1;
    let swept = claim_for(1, 1, Duration::from_secs(60), beyond);
    for _ in 0..3 {
        let _ = ledger.reserve(&swept).await.unwrap();
    }
    assert_eq!(ledger.reserve(&swept).await, Ok(Reservation::BeforeMemory));
    assert_eq!(ledger.low_water_mark().await, Ok(Some(time(MARK + 100))));
    let rows = async |connection: &mut SqliteConnection| -> (i64, i64, i64) {
        let count = "SELECT (SELECT count(*) FROM ledger_sales), (SELECT count(*) FROM ledger_book), (SELECT count(*) FROM ledger_sold)";
        sqlx::query_as(count).fetch_one(connection).await.unwrap()
    };
    assert_eq!(rows(&mut connection).await, (1, 20, 20), "the lease stays");
    let sale: (Vec<u8>, String, Vec<u8>, i64, Vec<u8>, i64, bool) = sqlx::query_as(
        "SELECT payer, amount, tx_hash, log_position, intent, block_time, reserved_at <= consumed_at FROM ledger_sold WHERE fence = 2",
    )
    .fetch_one(&mut connection)
    .await
    .unwrap();
    let transfer = super::paid(2);
    let hash = transfer.transaction.as_bytes().to_vec();
    let intent = 2_u128.to_be_bytes().to_vec();
    assert_eq!(sale, (vec![0x66; 20], "490000".to_owned(), hash, 3, intent, (MARK + 100) as i64, true));
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
    let (reserved, committed, healthy) = tokio::join!(ledger.reserve(&rival), ledger.commit(&lease), ledger.health());
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    assert_eq!(reserved, Err(LedgerError::Unavailable));
    assert_eq!(committed, Err(LedgerError::Unavailable));
    assert_eq!(healthy, Err(LedgerError::Unavailable));
    assert_eq!(ledger.is_consumed(IntentKey::new(1_u128.to_be_bytes())).await, Ok(false), "reading goes on");
    sqlx::raw_sql("COMMIT").execute(&mut other).await.unwrap();
    let patient = ledger.time_limit(PATIENT);
    assert_eq!(patient.commit(&lease).await, Ok(Commit::Done));
    assert_eq!(patient.health().await, Ok(()));
}

#[tokio::test]
async fn what_is_no_ledger_is_refused() {
    let files = Files::new(0);
    let nowhere = files.folder.path().join("canary-folder").join("ledger.db");
    let error = SqliteLedger::open(&nowhere).await.unwrap_err();
    assert_eq!(error, LedgerError::Unavailable);
    assert!(!format!("{error} {error:?}").contains("canary"));

    let text = files.path(1);
    std::fs::write(&text, "this is no database, it is a letter to the editor; ".repeat(100)).unwrap();
    assert_eq!(SqliteLedger::open(&text).await.unwrap_err(), LedgerError::Unavailable);

    let path = files.path(2);
    let ledger = begun(&path).await;
    assert!(!format!("{ledger:?}").contains("2.db"));
    sqlx::raw_sql("UPDATE ledger_memory SET version = 2").execute(&mut raw(&path).await).await.unwrap();
    let incompatible = Err(LedgerError::Incompatible);
    assert_eq!(ledger.health().await, incompatible);
    assert_eq!(ledger.begin(time(MARK)).await, incompatible);
    assert_eq!(ledger.reserve(&claim(1, 1)).await, Err(LedgerError::Incompatible));
    assert_eq!(SqliteLedger::open(&path).await.unwrap_err(), LedgerError::Incompatible);
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
