//! `PostgresLedger`: what was sold, shared by replicas.

mod connection;
mod statements;

use std::{fmt, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions as _, Connection as _, PgPool, Postgres, Transaction,
    postgres::{PgArguments, PgConnectOptions, PgPoolOptions},
    query::QueryAs,
};

use connection::{Borrowed, ask};
use statements::{BEGIN, PREFIX, STEPS, Statements, Text};

use super::{
    Claim, Commit, Handler, Lease, Ledger, LedgerError, Renewal, Reservation,
    sql::{
        self, BATCH, KEPT, Look, SCHEMA, Shelf, TIME_LIMIT, TablePrefixError, Try, Written, compatible, failed,
        in_time, micros, seconds, tell,
    },
};
use crate::protocol::{ChainTime, IntentKey, Transfer};

const _: () = assert!(STEPS.len() == SCHEMA as usize);

/// How long a migration may take.
const MIGRATION: Duration = Duration::from_secs(60);
/// A connection that was idle for longer is tried before it is used.
const IDLE: Duration = Duration::from_secs(1);
/// For our own connections: how long a client that hangs or went away can hold up others.
const SESSION: &str = "SET statement_timeout = '2s'; SET idle_in_transaction_session_timeout = '5s'";

/// A ledger in PostgreSQL 13 or later, for any number of replicas.
///
/// All replicas use one database. Its unique indexes keep intents and payments apart, its clock measures leases,
/// and a sale is flushed to its disk before it is confirmed. Where a standby is to take over, the flush must include it
/// (`synchronous_standby_names`); after a fail-over without that, as after restoring a backup, call
/// [`raise_mark_to`](Self::raise_mark_to).
///
/// [`migrate`](Self::migrate) creates the tables. It may be called at every start, by all replicas at once, or only in
/// a deployment, under a role that may create tables; the replicas' own role needs to select, insert, update and
/// delete.
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
/// The view `ledger_sold` has a row for every sale: `resource`, `payer`, `recipient` and `token` (bytes), `amount` (base
/// units), `chain_id`, `tx_hash`, `log_position`, `block_number`, `block_time` (Unix seconds), `intent`, `fence`, `reserved_at`
/// and `consumed_at`. It stays complete when a sale is forgotten: the row moves from `ledger_sales` to `ledger_book`, from
/// which you may delete what you have booked elsewhere. What was sold today:
///
/// ```sql
/// SELECT resource, chain_id, encode(token, 'hex') AS token, count(*) AS sales, sum(amount) AS base_units
/// FROM ledger_sold
/// WHERE consumed_at >= date_trunc('day', now())
/// GROUP BY resource, chain_id, token
/// ORDER BY resource, chain_id, token;
/// ```
#[derive(Clone)]
pub struct PostgresLedger {
    pool: PgPool,
    statements: Arc<Statements>,
    time_limit: Duration,
}

impl PostgresLedger {
    /// Connects, with ten connections at most. Creates nothing.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when this is no URL, or no server answers there within two seconds.
    pub async fn connect(url: &str) -> Result<Self, LedgerError> {
        let options: PgConnectOptions = url.parse().map_err(|error| failed(&error))?;
        let pool = PgPoolOptions::new()
            .max_connections(10)
            .acquire_timeout(TIME_LIMIT)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move { Ok(meta.idle_for <= IDLE || connection.ping().await.is_ok()) })
            })
            .after_connect(|connection, _| {
                // The pool would log what a server says that refuses; the next question finds out anyway.
                Box::pin(async move {
                    let _ = sqlx::raw_sql(SESSION).execute(connection).await;
                    Ok(())
                })
            });
        let ledger = Self::with_pool(pool.connect_lazy_with(options.disable_statement_logging()));
        let first = ask(|| async { Borrowed::from(&ledger.pool).await.map(Borrowed::give_back) });
        in_time(TIME_LIMIT, first).await?;
        Ok(ledger)
    }

    /// On a pool of the caller's, which decides about TLS, connections, time-outs of the server, and the logging of
    /// statements.
    ///
    /// Behind a pooler that lends a connection for one transaction, set `statement_cache_capacity(0)`.
    #[must_use]
    pub fn with_pool(pool: PgPool) -> Self {
        Self { pool, statements: Arc::new(Statements::new(PREFIX)), time_limit: TIME_LIMIT }
    }

    /// Puts this before the name of every table, instead of `ledger_`.
    ///
    /// # Errors
    /// [`TablePrefixError`] unless it is 1 to 32 of `a` to `z`, `0` to `9` and `_`, and begins with no digit.
    pub fn table_prefix(self, prefix: &str) -> Result<Self, TablePrefixError> {
        Ok(Self { statements: Arc::new(Statements::new(sql::table_prefix(prefix)?)), ..self })
    }

    /// How long one question may take before it is given up as [`LedgerError::Unavailable`]: 1.9 s unless set here. On
    /// connections made by [`connect`](Self::connect) the server gives up a statement after 2 s in any case.
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

    /// Raises the low-water mark to `time`, if it is lower: for an operator who restored a backup, or lost a server whose
    /// last sales no standby had. Give it the head's present time. What was sold since the backup is then refused, and
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

/// The questions.
impl PostgresLedger {
    /// Asks one thing in a transaction of its own.
    async fn one<'q, T>(&self, question: QueryAs<'q, Postgres, T, PgArguments>) -> sqlx::Result<Option<T>>
    where
        T: for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow> + Send + Unpin,
    {
        let mut connection = Borrowed::from(&self.pool).await?;
        let answer = question.fetch_optional(&mut *connection).await?;
        connection.give_back();
        Ok(answer)
    }

    /// Asks the ledger's own row.
    async fn memory(&self, text: &Text, time: Option<ChainTime>) -> Result<Option<ChainTime>, LedgerError> {
        let question = || {
            let question = sqlx::query_as::<_, (i64, Option<i64>)>(text.sql()).bind(SCHEMA);
            self.one(match time {
                Some(time) => question.bind(seconds(time)),
                None => question,
            })
        };
        let told = in_time(self.time_limit, ask(question)).await?;
        compatible(told.map(|(version, _)| version))?;
        let mark = told.and_then(|(_, mark)| mark).and_then(|mark| u64::try_from(mark).ok());
        Ok(mark.map(ChainTime::from_unix))
    }

    /// Tells the version that it leaves behind.
    async fn try_migrate(&self) -> sqlx::Result<i64> {
        let mut connection = Borrowed::from(&self.pool).await?;
        let mut work = connection.begin_with(BEGIN).await?;
        sqlx::raw_sql("SET LOCAL statement_timeout = '60s'").execute(&mut *work).await?;
        let prefix = &*self.statements.prefix;
        sqlx::query("SELECT pg_advisory_xact_lock(402, hashtext($1))").bind(prefix).execute(&mut *work).await?;
        let is_there: (bool,) = sqlx::query_as("SELECT to_regclass($1) IS NOT NULL")
            .bind(format!("{prefix}memory"))
            .fetch_one(&mut *work)
            .await?;
        let version = if is_there.0 { self.version(&mut work).await? } else { 0 };
        for step in STEPS.iter().skip(usize::try_from(version).unwrap_or(usize::MAX)) {
            sqlx::raw_sql(self.statements.step(step)).execute(&mut *work).await?;
        }
        let version = version.max(SCHEMA);
        let reached = self.statements.step("UPDATE ledger_memory SET version = $1");
        sqlx::query(reached).bind(version).execute(&mut *work).await?;
        work.commit().await?;
        connection.give_back();
        Ok(version)
    }

    async fn version(&self, work: &mut Transaction<'_, Postgres>) -> sqlx::Result<i64> {
        let version: (i64,) =
            sqlx::query_as(self.statements.step("SELECT version FROM ledger_memory")).fetch_one(&mut **work).await?;
        Ok(version.0)
    }

    async fn try_look(&self, claim: &Claim) -> sqlx::Result<Option<Look>> {
        let transfers = claim.transfers().iter();
        let hashes: Vec<_> = transfers.clone().map(|transfer| transfer.transaction.as_bytes().to_vec()).collect();
        let positions: Vec<_> = transfers.clone().map(|transfer| i64::from(transfer.position)).collect();
        let chains: Vec<_> = transfers.map(|transfer| transfer.network.chain_id().cast_signed()).collect();
        let mut connection = Borrowed::from(&self.pool).await?;
        let lines: Vec<sql::Line> = sqlx::query_as(self.statements.look.sql())
            .bind(claim.intent().as_bytes().to_vec())
            .bind(hashes)
            .bind(positions)
            .bind(chains)
            .bind(seconds(claim.head()))
            .bind(micros(KEPT))
            .fetch_all(&mut *connection)
            .await?;
        connection.give_back();
        Ok(Look::new(&lines))
    }

    async fn try_grant(&self, claim: &Claim, wish: Try<'_>) -> sqlx::Result<Option<(Written, i64)>> {
        let transfer = wish.transfer;
        let mut connection = Borrowed::from(&self.pool).await?;
        let mut work = connection.begin_with(BEGIN).await?;
        let expired: i64 = match wish.takes_over {
            true => pair::<(i64,)>(&self.statements.expire, claim.intent(), transfer).fetch_one(&mut *work).await?.0,
            false => 0,
        };
        let inserted: Option<(i64,)> = pair(&self.statements.reserve, claim.intent(), transfer)
            .bind(claim.resource())
            .bind(transfer.payer.as_bytes().to_vec())
            .bind(transfer.recipient.as_bytes().to_vec())
            .bind(transfer.token.as_bytes().to_vec())
            .bind(transfer.amount.to_string())
            .bind(transfer.block_number.cast_signed())
            .bind(seconds(transfer.block_time))
            .bind(seconds(claim.keep_until(transfer)))
            .bind(micros(claim.lease()))
            .fetch_optional(&mut *work)
            .await?;
        let mut written = None;
        if let Some((fence,)) = inserted {
            let (times, since, mark) =
                pair(&self.statements.attempt, claim.intent(), transfer).fetch_one(&mut *work).await?;
            written = Some(Written { fence, times, since, mark }).filter(|written| written.holds(transfer));
        }
        match written {
            Some(_) => work.commit().await?,
            None => work.rollback().await?,
        }
        connection.give_back();
        Ok(written.map(|written| (written, expired)))
    }

    async fn forget(&self, text: &Text, bound: i64) -> Result<i64, LedgerError> {
        let gone = ask(|| self.one(sqlx::query_as::<_, (i64,)>(text.sql()).bind(bound).bind(BATCH))).await?;
        Ok(gone.map_or(0, |(gone,)| gone))
    }
}

/// A statement on an intent and a payment.
fn pair<'q, T>(text: &Text, intent: IntentKey, transfer: &Transfer) -> QueryAs<'q, Postgres, T, PgArguments>
where
    T: for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>,
{
    sqlx::query_as(text.sql())
        .bind(intent.as_bytes().to_vec())
        .bind(transfer.transaction.as_bytes().to_vec())
        .bind(i64::from(transfer.position))
        .bind(transfer.network.chain_id().cast_signed())
}

/// A statement on a lease, which is told by its fence.
fn held<'q, T>(text: &Text, lease: &Lease) -> QueryAs<'q, Postgres, T, PgArguments>
where
    T: for<'r> sqlx::FromRow<'r, sqlx::postgres::PgRow>,
{
    pair(text, lease.intent(), lease.transfer()).bind(lease.fence().cast_signed())
}

impl Shelf for PostgresLedger {
    async fn look(&self, claim: &Claim) -> Result<Option<Look>, LedgerError> {
        ask(|| self.try_look(claim)).await
    }

    async fn sweep(&self, head: ChainTime) -> Result<(), LedgerError> {
        tell::forgotten(self.forget(&self.statements.forget_sales, seconds(head)).await?);
        tell::expired(self.forget(&self.statements.forget_leases, micros(KEPT)).await?);
        self.forget(&self.statements.forget_attempts, micros(KEPT)).await.map(drop)
    }

    async fn prolong(&self, claim: &Claim, transfer: &Transfer) -> Result<(), LedgerError> {
        let (block_time, keep_until) = (seconds(transfer.block_time), seconds(claim.keep_until(transfer)));
        let question = || {
            let question = pair::<(bool,)>(&self.statements.prolong, claim.intent(), transfer);
            self.one(question.bind(block_time).bind(keep_until))
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

impl Ledger for PostgresLedger {
    async fn begin(&self, head: ChainTime) -> Result<(), LedgerError> {
        self.memory(&self.statements.start, Some(head)).await.map(drop)
    }

    async fn reserve(&self, claim: &Claim) -> Result<Reservation, LedgerError> {
        in_time(self.time_limit, sql::reserve(self, claim)).await
    }

    async fn renew(&self, lease: &Lease) -> Result<Renewal, LedgerError> {
        let question = || self.one(held::<(bool,)>(&self.statements.renew, lease).bind(micros(lease.length())));
        Ok(match in_time(self.time_limit, ask(question)).await? {
            Some(_) => Renewal::Held,
            None => Renewal::LeaseLost,
        })
    }

    async fn commit(&self, lease: &Lease) -> Result<Commit, LedgerError> {
        let question = || self.one(held::<(bool, String)>(&self.statements.commit, lease));
        let Some((only_now, _)) = in_time(self.time_limit, ask(question)).await? else {
            return Ok(Commit::LeaseLost);
        };
        if only_now {
            tell::consumed(lease);
        }
        Ok(Commit::Done)
    }

    async fn release(&self, lease: &Lease, handler: Handler) -> Result<(), LedgerError> {
        let started = handler == Handler::Started;
        let question = || self.one(held::<(i64,)>(&self.statements.release, lease).bind(started));
        if in_time(self.time_limit, ask(question)).await?.is_some_and(|(freed,)| freed > 0) {
            tell::released(lease);
        }
        Ok(())
    }

    async fn is_consumed(&self, intent: IntentKey) -> Result<bool, LedgerError> {
        let question = || {
            let question = sqlx::query_as::<_, (bool,)>(self.statements.is_consumed.sql());
            self.one(question.bind(intent.as_bytes().to_vec()))
        };
        let told = in_time(self.time_limit, ask(question)).await?;
        told.map(|(consumed,)| consumed).ok_or(LedgerError::Unavailable)
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.memory(&self.statements.health, None).await.map(drop)
    }
}
