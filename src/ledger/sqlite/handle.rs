//! `SqliteLedger`: a handle, and what an operator asks of it.

use std::{fmt, sync::Arc, time::Duration};

use sqlx::SqlitePool;

use super::{
    super::{
        LedgerError, events,
        sql::{SCHEMA, compatible, count, in_time},
    },
    codes::ask,
    question::{Answer, Question, Word},
    queue::Queue,
    statements::Statements,
};
use crate::protocol::ChainTime;

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
    pub(super) queue: Arc<Queue>,
    pub(super) readers: SqlitePool,
    pub(super) statements: Arc<Statements>,
    pub(super) time_limit: Duration,
}

impl SqliteLedger {
    /// How long one question may take before it is given up as [`LedgerError::Unavailable`]: 1.9 s unless set here.
    #[must_use]
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
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
    /// [`reserve`]: crate::ledger::Ledger::reserve
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

    /// Asks who writes.
    pub(super) async fn ask(&self, question: Question) -> Result<Answer, LedgerError> {
        in_time(self.time_limit, self.queue.ask(question)).await
    }

    /// Tells the mark as it is then.
    pub(super) async fn tell(&self, word: Word, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        match self.ask(Question::Memory(word, time)).await? {
            Answer::Memory(mark) => Ok(mark),
            _ => Err(LedgerError::Unavailable),
        }
    }
}

/// Says nothing of the file.
impl fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteLedger").field("table_prefix", &self.statements.prefix).finish_non_exhaustive()
    }
}
