//! `SqliteLedger`: what was sold, in a file that outlives the process.

mod statements;

use std::{fmt, fs, path::Path, time::Duration};

use sqlx::{
    ConnectOptions as _, Row as _, Sqlite, SqliteConnection, SqlitePool, Transaction,
    query::Query,
    sqlite::{SqliteArguments, SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use statements as say;

use super::{
    Claim, Commit, Handler, Lease, Ledger, LedgerError, Renewal, Reservation,
    sql::{
        self, BATCH, KEPT, Look, SCHEMA, Shelf, TIME_LIMIT, Try, Written, compatible, failed, in_time, micros, seconds,
        tell,
    },
};
use crate::protocol::{ChainTime, IntentKey, Transfer};

const _: () = assert!(say::STEPS.len() == SCHEMA as usize);

/// How long opening or migrating may take: longer than another process does it.
const OPENING: Duration = Duration::from_secs(10);
/// How long SQLite itself waits for another process before it is asked again.
const BUSY: Duration = Duration::from_millis(500);
/// How many can look at once; they do not wait for who writes.
const READERS: u32 = 4;

/// A ledger in an SQLite file, for one machine: what was sold survives restarts and crashes.
///
/// Several processes may open the same file; its unique indexes keep intents and payments apart, and its lock lets one
/// write at a time. A sale is flushed to disk before it is confirmed. The file must lie on a local disk: the write-ahead log that
/// stands beside it (`-wal`, `-shm`) does not work over a network, and belongs to it when it is moved. Back it up
/// with `sqlite3 ledger.db ".backup copy.db"`, and call [`raise_mark_to`](Self::raise_mark_to) after restoring it.
///
/// ```
/// use tower_x402::{ledger::{Ledger as _, SqliteLedger}, protocol::ChainTime};
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ledger.db");
/// let ledger = SqliteLedger::open(&path).await?;
/// ledger.begin(ChainTime::from_unix(1_795_280_400)).await?;          // payments up to here are refused
///
/// let again = SqliteLedger::open(&path).await?;                      // another process, or the next one
/// again.begin(ChainTime::from_unix(1_795_290_000)).await?;           // changes nothing: it has begun
/// assert_eq!(again.low_water_mark().await?, Some(ChainTime::from_unix(1_795_280_400)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # The seller's book
///
/// The view `ledger_sold` has a row for every sale: `resource`, `payer`, `recipient` and `token` (bytes), `amount` (base
/// units, as text), `chain_id`, `tx_hash`, `log_position`, `block_number`, `block_time` (Unix seconds), `intent`, `fence`, `reserved_at`
/// and `consumed_at` (Unix milliseconds). It stays complete when a sale is forgotten: the row moves from `ledger_sales` to
/// `ledger_book`, from which you may delete what you have booked elsewhere. What was sold today:
///
/// ```sql
/// SELECT resource, chain_id, hex(token) AS token, count(*) AS sales, sum(CAST(amount AS INTEGER)) AS base_units
/// FROM ledger_sold
/// WHERE consumed_at >= unixepoch('now', 'start of day') * 1000
/// GROUP BY resource, chain_id, token
/// ORDER BY resource, chain_id, token;
/// ```
#[derive(Clone)]
pub struct SqliteLedger {
    /// One connection: within a process, who writes waits in line.
    writer: SqlitePool,
    readers: SqlitePool,
    time_limit: Duration,
}

impl SqliteLedger {
    /// Opens the file, which it creates where there is none (on Unix for its owner alone), and [migrates](Self::migrate)
    /// it. The folder must be there.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when the file cannot be read and written, or is no database;
    /// [`LedgerError::Incompatible`] when a later version wrote it.
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, LedgerError> {
        let path = create(path.as_ref()).map_err(|error| {
            tracing::warn!(kind = %error.kind(), "the ledger's file cannot be opened");
            LedgerError::Unavailable
        })?;
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(false)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .pragma("fullfsync", "ON")
            .busy_timeout(BUSY)
            .disable_statement_logging();
        let pool = |connections| {
            SqlitePoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(OPENING)
                .idle_timeout(None)
                .max_lifetime(None)
                .test_before_acquire(false)
                .connect_lazy_with(options.clone())
        };
        let ledger = Self { writer: pool(1), readers: pool(READERS), time_limit: TIME_LIMIT };
        ledger.migrate().await?;
        Ok(ledger)
    }

    /// How long one question may take before it is given up as [`LedgerError::Unavailable`]: 1.9 s unless set here.
    #[must_use]
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Creates the tables, or brings them up to date. Repeatable, also by several processes at once.
    ///
    /// # Errors
    /// [`LedgerError::Incompatible`] when a later version wrote them; [`LedgerError::Unavailable`] when the file cannot be
    /// written, or does not keep a write-ahead log.
    pub async fn migrate(&self) -> Result<(), LedgerError> {
        let version = in_time(OPENING, ask(|| self.try_migrate())).await?;
        compatible(Some(version))
    }

    /// The low-water mark: payments up to this block time are refused. `None` until the ledger is begun.
    ///
    /// # Errors
    /// [`LedgerError`] when the file cannot be read, or was not migrated.
    pub async fn low_water_mark(&self) -> Result<Option<ChainTime>, LedgerError> {
        self.memory(&self.readers, say::MARK, None).await
    }

    /// Raises the low-water mark to `time`, if it is lower: for an operator who restored a backup. Give it the head's
    /// present time. What was sold since the backup is then refused, and so is every payment up to `time` that was not
    /// redeemed yet.
    ///
    /// # Errors
    /// [`LedgerError`] when the file cannot be written, or was not migrated.
    pub async fn raise_mark_to(&self, time: ChainTime) -> Result<(), LedgerError> {
        self.memory(&self.writer, say::RAISE, Some(time)).await.map(drop)
    }

    /// Lowers the low-water mark to `time`, if it is higher: for an operator who imported the records of every sale of a
    /// payment later than `time`. Any that is missing can be sold once more.
    ///
    /// # Errors
    /// [`LedgerError`] when the file cannot be written, or was not migrated.
    pub async fn lower_mark_to(&self, time: ChainTime) -> Result<(), LedgerError> {
        self.memory(&self.writer, say::LOWER, Some(time)).await.map(drop)
    }
}

/// Says nothing of the file.
impl fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteLedger").finish_non_exhaustive()
    }
}

/// Makes sure that the file is there, and that its path cannot be taken for anything else than a path. SQLite gives its
/// companions the same permissions.
///
/// Whoever closes a file on a POSIX system drops all locks that its process has on it, SQLite's too, and another program
/// that then closes it takes the write-ahead log away. So an existing file is never opened here, and a new one never
/// closed.
fn create(path: &Path) -> std::io::Result<std::path::PathBuf> {
    let path = std::path::absolute(path)?;
    let mut file = fs::OpenOptions::new();
    file.create_new(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    match file.open(&path) {
        Ok(file) => std::mem::forget(file),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(path)
}

/// Asks, again and again while another process is writing: whoever asks sets the time limit.
async fn ask<T, F: Future<Output = sqlx::Result<T>>>(question: impl Fn() -> F) -> Result<T, LedgerError> {
    loop {
        match question().await {
            Err(error) if is_busy(&error) => {}
            answer => return answer.map_err(|error| failed(&error)),
        }
    }
}

fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    // The low byte of `SQLITE_BUSY` and its variants.
    code.and_then(|code| code.parse::<u32>().ok()).is_some_and(|code| code & 0xff == 5)
}

/// SQLite's unit.
fn millis(span: Duration) -> i64 {
    micros(span).saturating_add(999) / 1000
}

type Ask<'q> = Query<'q, Sqlite, SqliteArguments>;

/// A statement on an intent and a payment.
fn pair<'q>(text: &'static str, intent: IntentKey, transfer: &Transfer) -> Ask<'q> {
    sqlx::query(text)
        .bind(intent.as_bytes().to_vec())
        .bind(transfer.transaction.as_bytes().to_vec())
        .bind(i64::from(transfer.position))
        .bind(transfer.network.chain_id().cast_signed())
}

/// A statement on a lease, which is told by its fence.
fn held<'q>(text: &'static str, lease: &Lease) -> Ask<'q> {
    pair(text, lease.intent(), lease.transfer()).bind(lease.fence().cast_signed())
}

/// How many rows it changed.
async fn change(work: &mut SqliteConnection, statement: Ask<'_>) -> sqlx::Result<i64> {
    let changed = statement.execute(work).await?.rows_affected();
    Ok(i64::try_from(changed).unwrap_or(i64::MAX))
}

/// The questions.
impl SqliteLedger {
    async fn begin_work(&self) -> sqlx::Result<Transaction<'static, Sqlite>> {
        self.writer.begin_with(say::BEGIN).await
    }

    /// Asks the ledger's own row.
    async fn memory(
        &self,
        pool: &SqlitePool,
        text: &'static str,
        time: Option<ChainTime>,
    ) -> Result<Option<ChainTime>, LedgerError> {
        let question = || {
            let question = sqlx::query_as::<_, (i64, Option<i64>)>(text).bind(SCHEMA);
            let question = match time {
                Some(time) => question.bind(seconds(time)),
                None => question,
            };
            // To the end: what writes is written for good only there.
            question.fetch_all(pool)
        };
        let told = in_time(self.time_limit, ask(question)).await?.first().copied();
        compatible(told.map(|(version, _)| version))?;
        let mark = told.and_then(|(_, mark)| mark).and_then(|mark| u64::try_from(mark).ok());
        Ok(mark.map(ChainTime::from_unix))
    }

    /// Tells the version that it leaves behind.
    async fn try_migrate(&self) -> sqlx::Result<i64> {
        let mut work = self.begin_work().await?;
        let journal: String = sqlx::query_scalar("PRAGMA journal_mode").fetch_one(&mut *work).await?;
        if !journal.eq_ignore_ascii_case("wal") {
            return Err(sqlx::Error::Configuration("no write-ahead log".into()));
        }
        let version: i64 = match sqlx::query_scalar::<_, bool>(say::IS_THERE).fetch_one(&mut *work).await? {
            true => sqlx::query_scalar("SELECT version FROM ledger_memory").fetch_one(&mut *work).await?,
            false => 0,
        };
        if version < SCHEMA {
            for step in say::STEPS.into_iter().skip(usize::try_from(version).unwrap_or(usize::MAX)) {
                sqlx::raw_sql(step).execute(&mut *work).await?;
            }
            sqlx::query("UPDATE ledger_memory SET version = ?1").bind(SCHEMA).execute(&mut *work).await?;
        }
        work.commit().await?;
        Ok(version.max(SCHEMA))
    }

    async fn try_look(&self, claim: &Claim) -> sqlx::Result<Option<Look>> {
        let wishes = claim.transfers().iter().map(|transfer| {
            let hash = const_hex::encode(transfer.transaction.as_bytes());
            format!(r#"["{hash}",{},{}]"#, transfer.position, transfer.network.chain_id().cast_signed())
        });
        let lines: Vec<sql::Line> = sqlx::query_as(say::LOOK)
            .bind(claim.intent().as_bytes().to_vec())
            .bind(format!("[{}]", wishes.collect::<Vec<_>>().join(",")))
            .bind(seconds(claim.head()))
            .bind(millis(KEPT))
            .fetch_all(&self.readers)
            .await?;
        Ok(Look::new(&lines))
    }

    async fn try_grant(&self, claim: &Claim, wish: Try<'_>) -> sqlx::Result<Option<(Written, i64)>> {
        let (intent, transfer) = (claim.intent(), wish.transfer);
        let mut work = self.begin_work().await?;
        let now: i64 = sqlx::query_scalar(say::NOW).fetch_one(&mut *work).await?;
        let mut expired = 0;
        if wish.takes_over {
            change(&mut work, pair(say::NOTE_EXPIRED, intent, transfer).bind(now)).await?;
            expired = change(&mut work, pair(say::EXPIRE, intent, transfer).bind(now)).await?;
        }
        let reserve = pair(say::RESERVE, intent, transfer)
            .bind(now)
            .bind(claim.resource())
            .bind(transfer.payer.as_bytes().to_vec())
            .bind(transfer.recipient.as_bytes().to_vec())
            .bind(transfer.token.as_bytes().to_vec())
            .bind(transfer.amount.to_string())
            .bind(transfer.block_number.cast_signed())
            .bind(seconds(transfer.block_time))
            .bind(seconds(claim.keep_until(transfer)))
            .bind(millis(claim.lease()));
        let Some(inserted) = reserve.fetch_optional(&mut *work).await? else {
            work.rollback().await?;
            return Ok(None);
        };
        let attempt = pair(say::ATTEMPT, intent, transfer).bind(now).fetch_one(&mut *work).await?;
        let written = Written {
            fence: inserted.try_get(0)?,
            times: attempt.try_get(0)?,
            since: attempt.try_get(1)?,
            mark: attempt.try_get(2)?,
        };
        if !written.holds(transfer) {
            work.rollback().await?;
            return Ok(None);
        }
        work.commit().await?;
        Ok(Some((written, expired)))
    }

    /// Whether it is sold, and whether only now.
    async fn try_commit(&self, lease: &Lease) -> sqlx::Result<(bool, bool)> {
        let mut work = self.begin_work().await?;
        let only_now = change(&mut work, held(say::COMMIT, lease)).await? > 0;
        let sold = match only_now {
            true => {
                change(&mut work, pair(say::SPENT, lease.intent(), lease.transfer())).await?;
                true
            }
            false => held(say::IS_COMMITTED, lease).fetch_one(&mut *work).await?.try_get(0)?,
        };
        work.commit().await?;
        Ok((sold, only_now))
    }

    /// Whether it was held.
    async fn try_release(&self, lease: &Lease, handler: Handler) -> sqlx::Result<bool> {
        let mut work = self.begin_work().await?;
        let freed = change(&mut work, held(say::RELEASE, lease)).await? > 0;
        if freed {
            let note = match handler {
                Handler::Started => say::STARTED,
                Handler::NotStarted => say::NOT_STARTED,
            };
            change(&mut work, pair(note, lease.intent(), lease.transfer())).await?;
        }
        work.commit().await?;
        Ok(freed)
    }

    /// How many sales and how many leases are forgotten.
    async fn try_sweep(&self, head: ChainTime) -> sqlx::Result<(i64, i64)> {
        let mut work = self.begin_work().await?;
        let old = sqlx::query(say::FORGETTABLE).bind(seconds(head)).bind(BATCH).fetch_one(&mut *work).await?;
        let sales: i64 = old.try_get(0)?;
        if sales > 0 {
            let fences: String = old.try_get(1)?;
            change(&mut work, sqlx::query(say::BOOK).bind(fences.clone())).await?;
            change(&mut work, sqlx::query(say::FORGET_SALES).bind(fences)).await?;
            let latest: i64 = old.try_get(2)?;
            change(&mut work, sqlx::query(say::RAISE_OVER).bind(latest)).await?;
        }
        let leases = change(&mut work, sqlx::query(say::FORGET_LEASES).bind(millis(KEPT)).bind(BATCH)).await?;
        change(&mut work, sqlx::query(say::FORGET_ATTEMPTS).bind(millis(KEPT)).bind(BATCH)).await?;
        work.commit().await?;
        Ok((sales, leases))
    }
}

impl Shelf for SqliteLedger {
    async fn look(&self, claim: &Claim) -> Result<Option<Look>, LedgerError> {
        ask(|| self.try_look(claim)).await
    }

    async fn sweep(&self, head: ChainTime) -> Result<(), LedgerError> {
        let (sales, leases) = ask(|| self.try_sweep(head)).await?;
        tell::forgotten(sales);
        tell::expired(leases);
        Ok(())
    }

    async fn prolong(&self, claim: &Claim, transfer: &Transfer) -> Result<(), LedgerError> {
        let (block_time, keep_until) = (seconds(transfer.block_time), seconds(claim.keep_until(transfer)));
        let question = || {
            let question = pair(say::PROLONG, claim.intent(), transfer).bind(block_time).bind(keep_until);
            question.execute(&self.writer)
        };
        ask(question).await.map(drop)
    }

    async fn grant(&self, claim: &Claim, wish: Try<'_>) -> Result<Option<Lease>, LedgerError> {
        let Some((written, expired)) = ask(|| self.try_grant(claim, wish)).await? else { return Ok(None) };
        let lease = written.lease(claim, wish.transfer)?;
        tell::reserved(&lease, expired);
        Ok(Some(lease))
    }
}

impl Ledger for SqliteLedger {
    async fn begin(&self, head: ChainTime) -> Result<(), LedgerError> {
        self.memory(&self.writer, say::START, Some(head)).await.map(drop)
    }

    async fn reserve(&self, claim: &Claim) -> Result<Reservation, LedgerError> {
        in_time(self.time_limit, sql::reserve(self, claim)).await
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal, LedgerError> {
        let question = || held(say::RENEW, lease).bind(millis(lease.length())).execute(&self.writer);
        Ok(match in_time(self.time_limit, ask(question)).await?.rows_affected() {
            0 => Renewal::LeaseLost,
            _ => Renewal::Held,
        })
    }

    async fn commit(&self, lease: &Lease) -> Result<Commit, LedgerError> {
        let (sold, only_now) = in_time(self.time_limit, ask(|| self.try_commit(lease))).await?;
        if only_now {
            tell::consumed(lease);
        }
        Ok(if sold { Commit::Done } else { Commit::LeaseLost })
    }

    async fn release(&self, lease: &Lease, handler: Handler) -> Result<(), LedgerError> {
        if in_time(self.time_limit, ask(|| self.try_release(lease, handler))).await? {
            tell::released(lease);
        }
        Ok(())
    }

    async fn is_consumed(&self, intent: IntentKey) -> Result<bool, LedgerError> {
        let question =
            || sqlx::query_scalar(say::IS_CONSUMED).bind(intent.as_bytes().to_vec()).fetch_one(&self.readers);
        in_time(self.time_limit, ask(question)).await
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.memory(&self.writer, say::HEALTH, None).await.map(drop)
    }
}
