//! `PostgresLedgerBuilder`: the database, the names of the tables, and the number of connections.

use std::{fmt, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions as _, Connection as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use super::{
    super::{
        LedgerError,
        answer_space::ANSWER_SPACE,
        sql::{self, TIME_LIMIT, failed, in_time},
    },
    connection::{Borrowed, ask},
    handle::PostgresLedger,
    line::{Kind, Line},
    shares::Shares,
    space::AnswerSpace,
    statements::{PREFIX, Statements},
};

/// A connection that was idle for longer is tested before it is used.
const IDLE: Duration = Duration::from_secs(1);
/// The number of connections by default.
const CONNECTIONS: u32 = 10;

/// Configures a [`PostgresLedger`].
///
/// ```no_run
/// use tower_x402::ledger::PostgresLedger;
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let ledger = PostgresLedger::builder()
///     .schema("payments")?
///     .pool_size(4)
///     .run_migrations(true)
///     .connect("postgres://seller:secret@db.internal/shop")
///     .await?;
/// # Ok(()) }
/// ```
#[must_use]
pub struct PostgresLedgerBuilder {
    prefix: String,
    schema: Option<String>,
    connections: u32,
    migrates: bool,
    time_limit: Duration,
    answer_space: usize,
}

impl PostgresLedger {
    /// Connects to `postgres://user:password@host:port/database` with the default settings. Creates no tables: see
    /// [`migrate`](Self::migrate).
    ///
    /// # Errors
    /// As [`PostgresLedgerBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self, LedgerError> {
        Self::builder().connect(url).await
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> PostgresLedgerBuilder {
        PostgresLedgerBuilder::new()
    }
}

/// Uses the caller's pool with the default settings, as [`PostgresLedgerBuilder::on`] does. Sends nothing to the
/// database, and does not [migrate](PostgresLedger::migrate) it.
impl From<PgPool> for PostgresLedger {
    fn from(pool: PgPool) -> Self {
        PostgresLedger::builder().with_pool(pool)
    }
}

impl PostgresLedgerBuilder {
    fn new() -> Self {
        Self {
            prefix: PREFIX.to_owned(),
            schema: None,
            connections: CONNECTIONS,
            migrates: false,
            time_limit: TIME_LIMIT,
            answer_space: ANSWER_SPACE,
        }
    }

    /// Sets the prefix of every table's and function's name, `ledger_` by default.
    ///
    /// # Errors
    /// [`Setting`](crate::ledger::LedgerErrorKind::Setting) unless the prefix is 1 to 32 of the characters `a` to `z`, `0` to `9` and `_`, and does not begin
    /// with a digit.
    pub fn table_prefix(self, prefix: &str) -> Result<Self, LedgerError> {
        Ok(Self { prefix: sql::table_prefix(prefix)?.to_owned(), ..self })
    }

    /// Keeps the tables in this schema, which [`migrate`](PostgresLedger::migrate) creates if it does not exist. By default the
    /// connection's `search_path` decides.
    ///
    /// # Errors
    /// [`Setting`](crate::ledger::LedgerErrorKind::Setting) unless the name is 1 to 32 of the characters `a` to `z`, `0` to `9` and `_`, and does not begin with
    /// a digit.
    pub fn schema(self, name: &str) -> Result<Self, LedgerError> {
        Ok(Self { schema: Some(sql::table_prefix(name)?.to_owned()), ..self })
    }

    /// Sets the largest number of connections: 10 by default, at least 1. Each connection carries one question, or one
    /// batch of questions, at a time, for as long as the server's disk takes. A pool of the caller's keeps its own
    /// size. With three connections or more, reservations leave some to sales: reservations of settled payments use
    /// half of the connections, and those of signed payments that are not settled a tenth more, at least one.
    pub fn pool_size(self, connections: u32) -> Self {
        Self { connections: connections.max(1), ..self }
    }

    /// Sets whether the tables are created or [migrated](PostgresLedger::migrate) before the ledger is returned. By
    /// default they are not, since in many deployments another role does it.
    pub fn run_migrations(self, run: bool) -> Self {
        Self { migrates: run, ..self }
    }

    /// Sets how many bytes all kept answers may take, each with 256 beside its content: 64 MiB by default. An answer
    /// for which there is no space is delivered once, and not kept. Each replica counts what it keeps and measures the
    /// table once a minute, so that replicas can exceed the limit for a minute. All replicas should have the same
    /// limit.
    pub fn answers_up_to(self, bytes: usize) -> Self {
        Self { answer_space: bytes, ..self }
    }

    /// Sets how long one question may take before it fails as
    /// [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable): 1.9 s by default. The server also cancels each
    /// statement after that time.
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Connects to `postgres://user:password@host:port/database`.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable) if this is not a URL, or no server answers there within the
    /// [time limit](Self::time_limit); otherwise as [`on`](Self::on).
    pub async fn connect(self, url: &str) -> Result<PostgresLedger, LedgerError> {
        let options: PgConnectOptions = url.parse().map_err(|error| failed(&error))?;
        let pool = PgPoolOptions::new()
            .max_connections(self.connections)
            .acquire_timeout(self.time_limit)
            .test_before_acquire(false)
            .before_acquire(|connection, meta| {
                Box::pin(async move { Ok(meta.idle_for <= IDLE || connection.ping().await.is_ok()) })
            });
        let pool = pool.connect_lazy_with(options.disable_statement_logging());
        let first = ask(|| async { Borrowed::from(&pool).await.map(Borrowed::give_back) });
        in_time(self.time_limit, first).await?;
        self.on(pool).await
    }

    /// Uses the caller's pool, which decides about TLS, connections, and the logging of statements. Statements contain
    /// transactions, payers and amounts, and only the short name of an intent.
    ///
    /// # Errors
    /// None unless [`run_migrations`](Self::run_migrations) is set; then as [`PostgresLedger::migrate`].
    pub async fn on(self, pool: PgPool) -> Result<PostgresLedger, LedgerError> {
        let migrates = self.migrates;
        let ledger = self.with_pool(pool);
        if migrates {
            ledger.migrate().await?;
        }
        Ok(ledger)
    }

    fn with_pool(self, pool: PgPool) -> PostgresLedger {
        let statements = Arc::new(Statements::new(&self.prefix, self.schema.as_deref()));
        let shares = Arc::new(Shares::of(pool.options().get_max_connections()));
        let answers = Arc::new(AnswerSpace::new(self.answer_space));
        PostgresLedger {
            pool,
            statements,
            last_sales: Arc::default(),
            shares,
            turns: Arc::default(),
            answers,
            proven: Arc::new(Line::of(Kind::Proven)),
            unproven: Arc::new(Line::of(Kind::Unproven)),
            commits: Arc::new(Line::of(Kind::Commit)),
            time_limit: self.time_limit,
        }
    }
}

impl fmt::Debug for PostgresLedgerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, schema, connections, migrates, time_limit, answer_space } = self;
        let mut builder = f.debug_struct("PostgresLedgerBuilder");
        builder.field("table_prefix", prefix).field("schema", schema).field("pool_size", connections);
        builder.field("run_migrations", migrates).field("time_limit", time_limit);
        builder.field("answers_up_to", answer_space).finish()
    }
}
