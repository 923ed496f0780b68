//! `SqliteLedger`: a handle on the tables of one file.

use std::{fmt, sync::Arc, time::Duration};

use sqlx::SqlitePool;

use super::{
    super::{LedgerError, sql::in_time},
    question::{Answer, MemoryChange, Question},
    queue::Queue,
    statements::Statements,
};
use crate::protocol::ChainTime;

/// A ledger in an SQLite file, for one machine. Sales survive restarts and crashes.
///
/// Several processes may open the same file: its unique indexes keep intents and payments apart, and its lock lets one
/// write at a time. The file must be on a local disk, since its write-ahead log (`-wal`, `-shm`) does not work over a
/// network; move the log together with the file. In a container, mount the folder, never the file alone: two containers
/// would then have a log each. A file that is mounted alone, or has a second name, is refused as
/// [`Unsafe`](crate::ledger::LedgerErrorKind::Unsafe). Back the file up with
/// `(umask 077; sqlite3 ledger.db ".backup copy.db")`, and call
/// [`raise_mark_to`](crate::ledger::Maintenance::raise_mark_to) after restoring it.
///
/// A running process refuses to sell once its file, or the log beside it, was moved, removed, replaced or hard-linked.
/// It also refuses once a restored backup in the file lacks a record that this process had written or seen. It cannot
/// notice the loss of another process's sales: stop all processes before restoring. The process must open the file only
/// through SQLite, since on POSIX systems closing a file releases all locks that the process has on it.
///
/// `VACUUM` locks the file for as long as it takes, so that every question fails meanwhile: close all ledgers on the file first.
///
/// # Durability
///
/// Questions that wait at the same time are written together, in one transaction with one flush. A sale is flushed to disk before it
/// is confirmed, and with it everything that was written earlier. A reservation, a renewal and a release are written at once, so
/// they survive the process, but are flushed with the next sale. A power failure can undo the last of them; by then the process that
/// held the lease has ended too. Its fencing token is not issued again: a new one is greater than every one on record, and at least
/// the clock in microseconds.
///
/// The ledger writes on one of tokio's threads for blocking work, so that other tasks of a busy runtime do not delay a
/// sale. A runtime that shuts down waits for the write under way.
///
/// ```
/// use tower_x402::{ledger::{Ledger as _, Maintenance as _, SqliteLedger}, protocol::{ChainTime, Network}};
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ledger.db");
/// let ledger = SqliteLedger::open(&path).await?;
/// ledger.begin(Network::BASE, ChainTime::from_unix(1_795_280_400)).await?; // payments up to here are refused
///
/// let again = SqliteLedger::open(&path).await?;                      // another process, or the next one
/// again.begin(Network::BASE, ChainTime::from_unix(1_795_290_000)).await?;  // changes nothing: it has begun
/// assert_eq!(again.low_water_mark(Network::BASE).await?, Some(ChainTime::from_unix(1_795_280_400)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Answers
///
/// The table `ledger_answers` has the answers that routes [keep](crate::Redelivery): `intent` (16 bytes), `content`
/// (the response as the buyer got it, unencrypted) and `kept_until` (Unix milliseconds). The transaction that records
/// the sale writes the answer. It is not delivered after its time, and is deleted soon after that, or with its sale.
/// All answers together take 64 MiB at most, unless [`answers_up_to`](super::SqliteLedgerBuilder::answers_up_to) says otherwise:
/// an answer for which there is no space is delivered once, with a warning in the log; its sale is recorded all the same.
/// The file does not shrink: SQLite uses the space again. Every reader of the file, its log or a backup can read the
/// answers.
///
/// # The book of sales
///
/// The view `ledger_sold` has a row for every sale: `payment` (the receipt's payment id), `resource`, `payer`,
/// `recipient` and `token` (text, `0x…`), `amount` (base units, as decimal text), `chain_id`, `tx_hash` (`0x…`),
/// `log_position`, `block_number`, `block_time` (Unix seconds), `intent` (`0x…`), `fence`, `reserved_at` and
/// `consumed_at` (Unix milliseconds). It stays complete when a sale is forgotten: the row moves from `ledger_sales` to
/// `ledger_book`, from which you may delete rows that you have booked elsewhere. As long as a row is there, its payment
/// and its intent are refused, whatever their age. [`SalesBook`](crate::ledger::SalesBook) reads it in Rust, with the
/// refunds from the table `ledger_refunds` (`payment`, `tx_hash`, `noted_at`). Sales that wait for their
/// [announcement](crate::ledger::Announcements) are in `ledger_unannounced` (`payment`, `sold_at`), too. What was sold
/// today:
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
    /// The queue of writes.
    pub(super) queue: Arc<Queue>,
    pub(super) readers: SqlitePool,
    pub(super) statements: Arc<Statements>,
    pub(super) time_limit: Duration,
    /// The limit for all kept answers, in bytes.
    pub(super) answer_space: usize,
}

impl SqliteLedger {
    /// Returns this handle with another time limit for a question. A question that takes longer fails as
    /// [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable). Other clones keep their limits.
    #[must_use]
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Closes the file, for every clone of this ledger, after the writes under way. Await this before you move, remove
    /// or replace the file. A later question that writes opens the file again; one that reads fails.
    pub async fn close(&self) {
        self.queue.close().await;
        self.readers.close().await;
    }

    /// Asks the writer.
    pub(super) async fn ask(&self, question: Question) -> Result<Answer, LedgerError> {
        in_time(self.time_limit, self.queue.ask(question)).await
    }

    /// Changes the ledger's own rows, and returns the resulting mark of the chain.
    pub(super) async fn tell(&self, word: MemoryChange) -> Result<Option<ChainTime>, LedgerError> {
        match self.ask(Question::Memory(word)).await? {
            Answer::Memory(mark) => Ok(mark),
            _ => Err(LedgerError::unavailable()),
        }
    }
}

/// Does not show the path.
impl fmt::Debug for SqliteLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteLedger").field("table_prefix", &self.statements.prefix).finish_non_exhaustive()
    }
}
