//! `SqliteLedger`: what was sold, in a file that outlives the process.

mod batch;
mod builder;
mod delivery;
mod file;
mod mount;
mod question;
mod queue;
mod record;
mod statements;
mod writer;

use std::{fmt, path::Path, sync::Arc, time::Duration};

use sqlx::{Connection as _, SqliteConnection, SqlitePool};

pub use builder::SqliteLedgerBuilder;
use question::{Answer, Question, Word};
use queue::Queue;
use statements::{STEPS, Statements};

use super::{
    AttemptOutcome, Claim, CommitOutcome, Lease, Ledger, LedgerError, RenewOutcome, ReserveOutcome, events,
    sql::{SCHEMA, compatible, count, failed, in_time, micros},
};
use crate::protocol::{ChainTime, IntentKey};

/// How long opening or migrating may take: longer than another process does it.
const OPENING: Duration = Duration::from_secs(10);

/// A ledger in an SQLite file, for one machine: what was sold survives restarts and crashes.
///
/// Several processes may open the same file; its unique indexes keep intents and payments apart, and its lock lets one
/// write at a time. The file must lie on a local disk: the write-ahead log that stands beside it (`-wal`, `-shm`) does not
/// work over a network, and belongs to it when it is moved. Into a container mount the folder, never the file alone, which
/// is refused as [`LedgerError::MountedAlone`]: containers that share it would each have a log of their own. Back it up
/// with `sqlite3 ledger.db ".backup copy.db"`, and call [`raise_mark_to`](Self::raise_mark_to) after restoring it.
///
/// A running process refuses to sell once its file, or the log beside it, was moved, removed or replaced, and once a backup
/// was restored into the file that lacks what this process had written or seen there. What only another process had sold
/// it cannot miss: stop all of them first. It must not open the file by any other means than SQLite either, for on POSIX
/// systems closing a file drops all locks that the process has on it.
///
/// # What is flushed, and when
///
/// Questions that wait at the same time are written together, in one transaction with one flush. A sale is flushed to disk
/// before it is confirmed, and with it everything that was written before it. A reservation, a renewal and a release are
/// written at once, so they survive the process, but are flushed with the next sale. A power cut can undo the last of
/// them; by then the process that held the lease has ended too. Its fence does not come again: a new one is greater than every one on
/// record, and not less than the clock in microseconds.
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
/// The view `ledger_sold` has a row for every sale: `resource`, `payer`, `recipient` and `token` (text, `0x…`), `amount` (base
/// units, as decimal text), `chain_id`, `tx_hash` (`0x…`), `log_position`, `block_number`, `block_time` (Unix seconds), `intent`
/// (`0x…`), `fence`, `reserved_at` and `consumed_at` (Unix milliseconds). It stays complete when a sale is forgotten: the row
/// moves from `ledger_sales` to `ledger_book`, from which you may delete what you have booked elsewhere. While a row is there,
/// its payment and its intent are refused, whatever their age. What was sold today:
///
/// ```sql
/// SELECT resource, chain_id, token, count(*) AS sales, sum(CAST(amount AS INTEGER)) AS base_units
/// FROM ledger_sold
/// WHERE consumed_at >= unixepoch('now', 'start of day') * 1000
/// GROUP BY resource, chain_id, token
/// ORDER BY resource, chain_id, token;
/// ```
#[derive(Clone)]
pub struct SqliteLedger {
    /// Who writes waits in line.
    queue: Arc<Queue>,
    readers: SqlitePool,
    statements: Arc<Statements>,
    time_limit: Duration,
}

impl SqliteLedger {
    /// Opens the file, which it creates where there is none (on Unix for its owner alone), and [migrates](Self::migrate)
    /// it. The folder must be there.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when the file cannot be read and written, or is no database;
    /// [`LedgerError::Incompatible`] when a later version wrote it; [`LedgerError::MountedAlone`] where the file itself is
    /// a mount point (on Linux).
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, LedgerError> {
        Self::builder().open(path).await
    }

    /// Settings other than the usual ones: table prefix, sizes, a pool of the caller's.
    pub fn builder() -> SqliteLedgerBuilder {
        SqliteLedgerBuilder::new()
    }

    /// How long one question may take before it is given up as [`LedgerError::Unavailable`]: 1.9 s unless set here.
    #[must_use]
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Creates the tables, or brings them up to date. Repeatable, also by several processes at once. Processes of the version
    /// before can go on, and be started again.
    ///
    /// # Errors
    /// [`LedgerError::Incompatible`] when a later version wrote them, and this one cannot; [`LedgerError::Unavailable`]
    /// when the file cannot be written, or does not keep a write-ahead log; [`LedgerError::MountedAlone`] where the file
    /// itself is a mount point (on Linux).
    pub async fn migrate(&self) -> Result<(), LedgerError> {
        if mount::is_mounted_alone(self.queue.home().place.path()) {
            return Err(LedgerError::MountedAlone);
        }
        let version = in_time(OPENING, ask(|| self.try_migrate())).await?;
        compatible(Some(version))
    }

    /// The low-water mark: payments up to this block time are refused. `None` until the ledger is begun.
    ///
    /// # Errors
    /// [`LedgerError`] when the file cannot be read, or was not migrated.
    pub async fn low_water_mark(&self) -> Result<Option<ChainTime>, LedgerError> {
        let question = || {
            let question = sqlx::query_as::<_, (i64, Option<i64>)>(self.statements.mark.sql());
            question.bind(SCHEMA).fetch_optional(&self.readers)
        };
        let told = in_time(self.time_limit, ask(question)).await?;
        compatible(told.map(|(version, _)| version))?;
        let mark = told.and_then(|(_, mark)| mark).and_then(|mark| u64::try_from(mark).ok());
        Ok(mark.map(ChainTime::from_unix))
    }

    /// Raises the low-water mark to `time`, if it is lower: for an operator who restored a backup. Give it the verifier's
    /// [`horizon`](crate::verify::Verifier::horizon). What was sold since the backup is then refused, and so is every payment
    /// up to `time` that was not redeemed yet.
    ///
    /// # Errors
    /// [`LedgerError`] when the file cannot be written, or was not migrated.
    pub async fn raise_mark_to(&self, time: ChainTime) -> Result<(), LedgerError> {
        self.tell(Word::Raise, time).await.map(drop)
    }

    /// Lowers the low-water mark to `time`, if it is higher: for an operator who imported the records of every sale of a
    /// payment later than `time`. Any that is missing can be sold once more.
    ///
    /// # Errors
    /// [`LedgerError`] when the file cannot be written, or was not migrated.
    pub async fn lower_mark_to(&self, time: ChainTime) -> Result<(), LedgerError> {
        self.tell(Word::Lower, time).await.map(drop)
    }

    /// Forgets what may be forgotten at this head, 16 sales at most, and tells how many sales that were. [`reserve`] does
    /// so too; call this, until it tells 0, where nobody buys for long, or before a backup.
    ///
    /// [`reserve`]: Ledger::reserve
    ///
    /// # Errors
    /// [`LedgerError`] when the file cannot be written.
    pub async fn sweep(&self, head: ChainTime) -> Result<u64, LedgerError> {
        match self.ask(Question::Sweep(head)).await? {
            Answer::Swept(sales) => {
                events::forgotten(count(sales));
                Ok(u64::try_from(sales).unwrap_or(0))
            }
            _ => Err(LedgerError::Unavailable),
        }
    }

    /// Closes the file, through every clone of this ledger, when what is being written is written: wait for it before
    /// the file is moved, removed or replaced. Whoever asks afterwards opens it again to write, and cannot read.
    pub async fn close(&self) {
        self.queue.close().await;
        self.readers.close().await;
    }
}

/// Says nothing of the file.
impl fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteLedger").field("table_prefix", &self.statements.prefix).finish_non_exhaustive()
    }
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

/// SQLite's own.
fn code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}

/// `SQLITE_BUSY` and its variants.
fn is_busy(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| code & 0xff == 5)
}

/// SQLite's unit.
fn millis(span: Duration) -> i64 {
    micros(span).saturating_add(999) / 1000
}

/// The questions.
impl SqliteLedger {
    /// Asks who writes.
    async fn ask(&self, question: Question) -> Result<Answer, LedgerError> {
        in_time(self.time_limit, self.queue.ask(question)).await
    }

    /// Tells the mark as it is then.
    async fn tell(&self, word: Word, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        match self.ask(Question::Memory(word, time)).await? {
            Answer::Memory(mark) => Ok(mark),
            _ => Err(LedgerError::Unavailable),
        }
    }

    /// Tells the version that it leaves behind.
    async fn try_migrate(&self) -> sqlx::Result<i64> {
        let mut connection = SqliteConnection::connect_with(&self.queue.home().options).await?;
        let version = self.migrate_on(&mut connection).await;
        connection.close().await?;
        version
    }

    async fn migrate_on(&self, connection: &mut SqliteConnection) -> sqlx::Result<i64> {
        let (say, journal) = (&*self.statements, "PRAGMA journal_mode");
        let mut work = connection.begin_with("BEGIN IMMEDIATE").await?;
        let journal: String = sqlx::query_scalar(journal).fetch_one(&mut *work).await?;
        if !journal.eq_ignore_ascii_case("wal") {
            return Err(sqlx::Error::Configuration("no write-ahead log".into()));
        }
        let there: (bool, bool) = sqlx::query_as(say.is_there.sql()).fetch_one(&mut *work).await?;
        let version: i64 = match there {
            (true, _) => sqlx::query_scalar(say.version.sql()).fetch_one(&mut *work).await?,
            (false, _) => 0,
        };
        let revision: i64 = match there {
            (true, true) => sqlx::query_scalar(say.revision.sql()).fetch_one(&mut *work).await?,
            (true, false) => 1,
            (false, _) => 0,
        };
        let steps = STEPS.into_iter().skip(usize::try_from(revision).unwrap_or(usize::MAX));
        if version <= SCHEMA && steps.len() > 0 {
            for step in steps {
                sqlx::raw_sql(say.step(step)).execute(&mut *work).await?;
            }
            let reached = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
            sqlx::query(say.reached.sql()).bind(SCHEMA).bind(reached).execute(&mut *work).await?;
        }
        work.commit().await?;
        Ok(version.max(SCHEMA))
    }
}

impl Ledger for SqliteLedger {
    async fn begin(&self, now: ChainTime) -> Result<ChainTime, LedgerError> {
        self.tell(Word::Start, now).await?.ok_or(LedgerError::Incompatible)
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        let Answer::Reserved(reservation) = self.ask(Question::Reserve(claim.clone())).await? else {
            return Err(LedgerError::Unavailable);
        };
        if let ReserveOutcome::Granted(lease) = &reservation {
            events::reserved(lease);
        }
        Ok(reservation)
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        match self.ask(Question::Renew(lease.clone())).await? {
            Answer::Renewed(true) => Ok(RenewOutcome::Held),
            Answer::Renewed(false) => Ok(RenewOutcome::LeaseLost),
            _ => Err(LedgerError::Unavailable),
        }
    }

    async fn commit(&self, lease: &Lease) -> Result<CommitOutcome, LedgerError> {
        let Answer::Sold { sold, only_now } = self.ask(Question::Commit(lease.clone())).await? else {
            return Err(LedgerError::Unavailable);
        };
        if only_now {
            events::consumed(lease);
        }
        Ok(if sold { CommitOutcome::Done } else { CommitOutcome::LeaseLost })
    }

    async fn release(&self, lease: &Lease, handler: AttemptOutcome) -> Result<(), LedgerError> {
        if let Answer::Released(true) = self.ask(Question::Release(lease.clone(), handler)).await? {
            events::released(lease);
        }
        Ok(())
    }

    async fn is_consumed(&self, intent: IntentKey) -> Result<bool, LedgerError> {
        if !self.queue.home().is_sound() {
            return Err(LedgerError::Unavailable);
        }
        let question = || {
            let question = sqlx::query_scalar(self.statements.is_consumed.sql());
            question.bind(intent.as_bytes().to_vec()).fetch_one(&self.readers)
        };
        in_time(self.time_limit, ask(question)).await
    }

    /// Writes, and flushes.
    async fn health(&self) -> Result<(), LedgerError> {
        self.tell(Word::Beat, ChainTime::from_unix(0)).await.map(drop)
    }
}
