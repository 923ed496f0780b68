//! `PostgresLedger`: what was sold, shared by replicas.

mod commands;
mod connection;
mod migration;
mod statements;
mod sweeps;

use std::{fmt, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions as _, Connection as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use connection::{Borrowed, ask};
use statements::{PREFIX, Statements};
use sweeps::{Sweep, Sweeps};

use super::{
    LedgerError, events,
    sql::{self, TIME_LIMIT, TablePrefixError, compatible, count, failed, in_time, seconds},
};
use crate::protocol::ChainTime;

/// How long a migration may take.
const MIGRATION: Duration = Duration::from_secs(60);
/// A connection that was idle for longer is tried before it is used.
const IDLE: Duration = Duration::from_secs(1);
/// How many connections there are at most, unless told otherwise.
const CONNECTIONS: u32 = 10;
/// How many records one step of an explicit sweep forgets.
const STRIDE: i64 = 1_000;

/// A ledger in PostgreSQL 13 or later, for any number of replicas.
///
/// All replicas use one database. Its unique indexes keep intents and payments apart, its clock measures leases,
/// and a sale is flushed to its disk before it is confirmed. A lease is not: where a crash takes one back, its holder finds
/// it lost and answers nothing, and its fence, which is made of the clock and chance, does not come again. Where a standby is to take over, the flush must include it
/// (`synchronous_standby_names`); after a fail-over without that, as after restoring a backup, call
/// [`raise_mark_to`](Self::raise_mark_to).
///
/// [`migrate`](Self::migrate) creates the tables and functions. It may be called at every start, by all replicas at once, or
/// only in a deployment, under a role that may create them; the replicas' own role needs to select, insert, update and
/// delete, and to execute the functions. The replicas of the version before work on while those of this one start.
///
/// Every question is one message that holds a whole transaction, read committed and read-write whatever the server's
/// defaults are. It sets nothing on the session and names no statement, so that a pooler may lend a connection for one
/// transaction at a time. pgbouncer needs `ignore_startup_parameters = extra_float_digits`; where it is to find the tables in a
/// schema, name it by [`schema`](Self::schema) and not by the `search_path`, which pgbouncer does not pass on.
///
/// ```no_run
/// use tower_x402::ledger::PostgresLedger;
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let ledger = PostgresLedger::connect("postgres://seller:secret@db.internal/shop").await?;
/// ledger.migrate().await?;
/// # Ok(()) }
/// ```
///
/// # The seller's book
///
/// The view `ledger_sold` has a row for every sale: `resource`; `payer`, `recipient`, `token`, `tx_hash` and `intent` (as
/// `0x…`); `amount` (base units); `chain_id`, `log_position`, `block_number`, `block_time` (Unix seconds), `fence`, `reserved_at`
/// and `consumed_at`. It stays complete when a sale is forgotten: the row moves from `ledger_sales` to `ledger_book`. A
/// payment in the book is not sold again, whenever a reorganisation brings it back; what you have booked elsewhere you may
/// delete from there once no chain can bring it back, after a month, say. What was sold today:
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
    pool: PgPool,
    statements: Arc<Statements>,
    sweeps: Arc<Sweeps>,
    time_limit: Duration,
}

impl PostgresLedger {
    /// Connects, with ten connections at most. Creates nothing.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when this is no URL, or no server answers there within two seconds.
    pub async fn connect(url: &str) -> Result<Self, LedgerError> {
        Self::connect_sized(url, CONNECTIONS).await
    }

    /// The same, with at most so many connections, and one at least. Each asks one question at a time, for as long as the
    /// server's disk takes.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn connect_sized(url: &str, connections: u32) -> Result<Self, LedgerError> {
        let options: PgConnectOptions = url.parse().map_err(|error| failed(&error))?;
        let pool = PgPoolOptions::new()
            .max_connections(connections.max(1))
            .acquire_timeout(TIME_LIMIT)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move { Ok(meta.idle_for <= IDLE || connection.ping().await.is_ok()) })
            });
        let ledger = Self::with_pool(pool.connect_lazy_with(options.disable_statement_logging()));
        let first = ask(|| async { Borrowed::from(&ledger.pool).await.map(Borrowed::give_back) });
        in_time(TIME_LIMIT, first).await?;
        Ok(ledger)
    }

    /// On a pool of the caller's, which decides about TLS, connections, and the logging of statements: these hold
    /// transactions, payers and amounts, and no more than a short name of an intent.
    #[must_use]
    pub fn with_pool(pool: PgPool) -> Self {
        let statements = Arc::new(Statements::new(PREFIX, None));
        Self { pool, statements, sweeps: Arc::default(), time_limit: TIME_LIMIT }
    }

    /// Puts this before the name of every table and function, instead of `ledger_`.
    ///
    /// # Errors
    /// [`TablePrefixError`] unless it is 1 to 32 of `a` to `z`, `0` to `9` and `_`, and begins with no digit.
    pub fn table_prefix(self, prefix: &str) -> Result<Self, TablePrefixError> {
        let statements = Statements::new(sql::table_prefix(prefix)?, self.statements.schema.as_deref());
        Ok(Self { statements: Arc::new(statements), sweeps: Arc::default(), ..self })
    }

    /// Keeps the tables in this schema, which [`migrate`](Self::migrate) creates where there is none, instead of where the
    /// connection's `search_path` leads.
    ///
    /// # Errors
    /// [`TablePrefixError`] unless the name is 1 to 32 of `a` to `z`, `0` to `9` and `_`, and begins with no digit.
    pub fn schema(self, name: &str) -> Result<Self, TablePrefixError> {
        let statements = Statements::new(&self.statements.prefix, Some(sql::table_prefix(name)?));
        Ok(Self { statements: Arc::new(statements), sweeps: Arc::default(), ..self })
    }

    /// How long one question may take before it is given up as [`LedgerError::Unavailable`]: 1.9 s unless set here. The
    /// server gives up each of its statements after that time, too.
    #[must_use]
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Creates the tables, or brings them up to date. Repeatable, also by several replicas at once.
    ///
    /// # Errors
    /// [`LedgerError::Incompatible`] when a later version wrote them; [`LedgerError::Unavailable`] when the database
    /// refuses, or takes more than a minute.
    pub async fn migrate(&self) -> Result<(), LedgerError> {
        let version = in_time(MIGRATION, ask(|| self.try_migrate())).await?;
        compatible(Some(version))
    }

    /// The low-water mark: payments up to this block time are refused. `None` until the ledger is begun.
    ///
    /// # Errors
    /// [`LedgerError`] when the database does not answer, or was not migrated.
    pub async fn low_water_mark(&self) -> Result<Option<ChainTime>, LedgerError> {
        self.memory(&self.statements.mark, None).await
    }

    /// Forgets every sale that may be forgotten when the head is at `head`, and every idle lease and count of attempts; tells
    /// how many sales. Selling does the same, a few at a time: this is for who wants it done at night. It may be broken off.
    ///
    /// # Errors
    /// [`LedgerError`] when the database does not answer, or was not migrated.
    pub async fn sweep(&self, head: ChainTime) -> Result<u64, LedgerError> {
        let mut forgotten = 0;
        loop {
            let sweep = Sweep { low: 0, head: seconds(head), all: true };
            let (sales, leases, attempts) = in_time(self.time_limit, self.forget(sweep, STRIDE)).await?;
            events::forgotten(count(sales));
            events::expired(count(leases));
            forgotten += u64::try_from(sales).unwrap_or(0);
            if sales.max(leases).max(attempts) < STRIDE {
                return Ok(forgotten);
            }
        }
    }

    /// Raises the low-water mark to `time`, if it is lower: for an operator who restored a backup, or lost a server whose
    /// last sales no standby had. Give it the verifier's [`horizon`](crate::verify::Verifier::horizon). What was sold since the backup is then refused, and
    /// so is every payment up to `time` that was not redeemed yet.
    ///
    /// # Errors
    /// [`LedgerError`] when the database does not answer, or was not migrated.
    pub async fn raise_mark_to(&self, time: ChainTime) -> Result<(), LedgerError> {
        self.memory(&self.statements.raise, Some(time)).await.map(drop)
    }

    /// Lowers the low-water mark to `time`, if it is higher: for an operator who imported the records of every sale of a
    /// payment later than `time`. Any that is missing can be sold once more.
    ///
    /// # Errors
    /// [`LedgerError`] when the database does not answer, or was not migrated.
    pub async fn lower_mark_to(&self, time: ChainTime) -> Result<(), LedgerError> {
        self.memory(&self.statements.lower, Some(time)).await.map(drop)
    }
}

/// Says nothing of the server.
impl fmt::Debug for PostgresLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresLedger").field("table_prefix", &self.statements.prefix).finish_non_exhaustive()
    }
}
