//! `PostgresLedger`: a handle on the tables of one database.

use std::{fmt, sync::Arc, time::Duration};

use sqlx::PgPool;

use super::{
    super::{account::turns::Turns, last_sale::LastSales},
    line::{Committed, Line, ReservedColumns},
    shares::Shares,
    space::AnswerSpace,
    statements::Statements,
};

/// A ledger in PostgreSQL 13 or later, for any number of replicas.
///
/// All replicas use one database. Its unique indexes keep intents and payments apart, its clock measures leases, and a
/// sale is flushed to its disk before it is confirmed. A lease is not flushed: if a crash undoes it, its holder finds
/// it lost and does not answer, and its fencing token, made of the clock and random bits, is not issued again.
///
/// If a standby is to take over, the flush must include it (`synchronous_standby_names`). After a fail-over without
/// that, and after restoring a backup, call [`raise_mark_to`](crate::ledger::Maintenance::raise_mark_to). With each
/// reservation, a process checks that the server knows the last sales that the process recorded. If one is missing, it
/// sells nothing until the mark has reached that payment. It cannot notice the loss of another process's sales, nor of
/// calls by [pass](crate::Pass), whose charges are no sales.
///
/// [`migrate`](Self::migrate) creates the tables and functions. It may be called at every start, by all replicas at once, or only
/// during a deployment, under a role that may create them. The replicas' own role needs to select, insert, update and delete, and to
/// execute the functions and procedures.
///
/// Every question is one message that holds a whole transaction, read committed and read-write whatever the server's
/// defaults are. Reservations that wait at the same time share a transaction, and so do commits: each is confirmed once
/// the whole transaction is. It sets nothing on the session and names no statement, so a pooler may lend a connection
/// for one transaction at a time. pgbouncer needs `ignore_startup_parameters = extra_float_digits`. To keep the tables
/// in a schema behind pgbouncer, name it by [`schema`](crate::ledger::PostgresLedgerBuilder::schema) and not by the
/// `search_path`, which pgbouncer does not pass on.
///
/// ```no_run
/// use tower_x402::ledger::PostgresLedger;
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let ledger = PostgresLedger::connect("postgres://seller:secret@db.internal/shop").await?;
/// ledger.migrate().await?;
/// # Ok(()) }
/// ```
///
/// # Answers
///
/// The table `ledger_answers` has the answers that routes [keep](crate::Redelivery): `intent` (16 bytes), `content`
/// (the response as the buyer got it, unencrypted) and `kept_until`. The transaction that records the sale writes the
/// answer and flushes both. An answer is not delivered after its time by the server's clock, and is deleted within
/// about a minute after that, or with its sale. A commit that keeps an answer takes three more round trips. The content
/// goes to the server as a parameter: no statement contains it, and sqlx does not log it. A server that logs parameters
/// (`log_statement`, or a `log_min_duration_statement` that is exceeded) does, unless its `log_parameter_max_length` is
/// 0. Backups and the server's write-ahead log contain it.
///
/// # The book of sales
///
/// The view `ledger_sold` has a row for every sale: `payment` (the receipt's payment id); `resource`; `payer`,
/// `recipient`, `token`, `tx_hash` and `intent` (as `0x…`); `amount` (base units); `chain_id`, `log_position`,
/// `block_number`, `block_time` (Unix seconds), `fence`, `reserved_at` and `consumed_at`. It stays complete when a sale
/// is forgotten: the row moves from `ledger_sales` to `ledger_book`. A payment in the book is not sold again, whenever
/// a reorganisation brings it back. You may delete rows that you have booked elsewhere once no reorganisation can bring
/// their payments back, for example after a month. [`SalesBook`](crate::ledger::SalesBook) reads it in Rust, with the
/// refunds from the table `ledger_refunds` (`payment`, `tx_hash`, `noted_at`). Sales that wait for their
/// [announcement](crate::ledger::Announcements) are in `ledger_unannounced` (`payment`, `sold_at`), too. What was sold
/// today:
///
/// ```sql
/// SELECT resource, chain_id, token, count(*) AS sales, sum(amount) AS base_units
/// FROM ledger_sold
/// WHERE consumed_at >= date_trunc('day', now())
/// GROUP BY resource, chain_id, token
/// ORDER BY resource, chain_id, token;
/// ```
#[derive(Clone)]
pub struct PostgresLedger {
    pub(super) pool: PgPool,
    pub(super) statements: Arc<Statements>,
    pub(super) last_sales: Arc<LastSales>,
    pub(super) shares: Arc<Shares>,
    pub(super) turns: Arc<Turns>,
    pub(super) answers: Arc<AnswerSpace>,
    pub(super) proven: Arc<Line<ReservedColumns>>,
    pub(super) unproven: Arc<Line<ReservedColumns>>,
    pub(super) commits: Arc<Line<Committed>>,
    pub(super) time_limit: Duration,
}

impl PostgresLedger {
    /// Returns this handle with another time limit for a question. A question that takes longer fails as
    /// [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable). Other clones keep their limits.
    #[must_use]
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }
}

/// Does not show the server.
impl fmt::Debug for PostgresLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLedger").field("table_prefix", &self.statements.prefix).finish_non_exhaustive()
    }
}
