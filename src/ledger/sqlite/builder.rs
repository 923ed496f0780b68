//! `SqliteLedgerBuilder`: the file, the names of the tables, and the limits of concurrency.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{
    super::{LedgerError, answer_space::ANSWER_SPACE, sql},
    file::{self, Place},
    handle::SqliteLedger,
    migration::OPENING,
    queue::Queue,
    statements::{PREFIX, Statements},
    writer::Home,
};

/// How long SQLite itself waits for another process before the ledger asks again.
const BUSY: Duration = Duration::from_millis(500);
/// The default number of connections that read. They do not wait for the writer.
const READERS: u32 = 4;
/// The default number of questions that can wait to be written.
const WAITING: usize = 4_096;
/// More rows than any batch returns.
const ROWS: usize = 4_096;

/// Configures a [`SqliteLedger`].
///
/// ```
/// use std::time::Duration;
/// use tower_x402::ledger::SqliteLedger;
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop.db");
/// let ledger = SqliteLedger::builder()
///     .table_prefix("shop2_")?
///     .pool_size(2)
///     .time_limit(Duration::from_secs(1))
///     .open(&path)
///     .await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct SqliteLedgerBuilder {
    prefix: String,
    readers: u32,
    waiting: usize,
    migrates: Option<bool>,
    time_limit: Duration,
    answer_space: usize,
}

impl SqliteLedger {
    /// Opens the file, creates it if it does not exist (on Unix readable by its owner alone), and [migrates](Self::migrate) it.
    /// The folder must exist.
    ///
    /// # Errors
    /// [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable) if the file cannot be read and written, or is not a database;
    /// [`Incompatible`](crate::ledger::LedgerErrorKind::Incompatible) if a later version wrote it;
    /// [`Unsafe`](crate::ledger::LedgerErrorKind::Unsafe) for a device, a pipe or a folder, if the file has a second name (on
    /// Unix), and if the file itself is a mount point (on Linux).
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, LedgerError> {
        Self::builder().open(path).await
    }

    /// Returns a builder with the default settings.
    pub fn builder() -> SqliteLedgerBuilder {
        SqliteLedgerBuilder::new()
    }
}

/// Uses the caller's pool with the default settings, as [`SqliteLedgerBuilder::on`] does. Sends nothing to the
/// database, and does not [migrate](SqliteLedger::migrate) it.
impl From<SqlitePool> for SqliteLedger {
    fn from(pool: SqlitePool) -> Self {
        SqliteLedger::builder().with_pool(pool)
    }
}

impl SqliteLedgerBuilder {
    fn new() -> Self {
        Self {
            prefix: PREFIX.to_owned(),
            readers: READERS,
            waiting: WAITING,
            migrates: None,
            time_limit: sql::TIME_LIMIT,
            answer_space: ANSWER_SPACE,
        }
    }

    /// Sets the prefix of every table's name, `ledger_` by default.
    ///
    /// # Errors
    /// [`Setting`](crate::ledger::LedgerErrorKind::Setting) unless the prefix is 1 to 32 of the characters `a` to `z`, `0` to `9` and `_`, and begins neither
    /// with a digit nor with `sqlite_`, which SQLite reserves.
    pub fn table_prefix(self, prefix: &str) -> Result<Self, LedgerError> {
        match sql::table_prefix(prefix)? {
            own if own.starts_with("sqlite_") => Err(sql::TABLE_PREFIX),
            prefix => Ok(Self { prefix: prefix.to_owned(), ..self }),
        }
    }

    /// Sets the number of connections that read at the same time: 4 by default, at least 1. One more connection writes.
    /// A pool of the caller's keeps its own size.
    pub fn pool_size(self, connections: u32) -> Self {
        Self { readers: connections.max(1), ..self }
    }

    /// Sets the number of questions that may wait to be written: 4,096 by default, at least 1. Further reservations
    /// fail at once as [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable); those of signed, unsettled
    /// payments already at half of this number. A question that ends or renews a lease always finds a place, and is
    /// written first.
    pub fn queue(self, waiting: usize) -> Self {
        Self { waiting: waiting.max(1), ..self }
    }

    /// Sets whether the tables are created or [migrated](SqliteLedger::migrate) before the ledger is returned. By default
    /// [`open`](Self::open) migrates its file, and [`on`](Self::on) leaves the caller's database as it is.
    pub fn run_migrations(self, run: bool) -> Self {
        Self { migrates: Some(run), ..self }
    }

    /// Sets how many bytes all kept answers may take, each with 256 beside its content: 64 MiB by default. An answer for which there
    /// is no space is delivered once, and not kept.
    pub fn answers_up_to(self, bytes: usize) -> Self {
        Self { answer_space: bytes, ..self }
    }

    /// Sets how long one question may take before it fails as [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable): 1.9 s by default.
    pub fn time_limit(self, time_limit: Duration) -> Self {
        Self { time_limit, ..self }
    }

    /// Opens the file, as [`SqliteLedger::open`] does.
    ///
    /// # Errors
    /// As [`SqliteLedger::open`].
    pub async fn open(self, path: impl AsRef<Path>) -> Result<SqliteLedger, LedgerError> {
        let path = file::create(path.as_ref()).map_err(|error| {
            tracing::warn!(reason = %error, "the ledger's file cannot be opened");
            LedgerError::unavailable()
        })?;
        let options = SqliteConnectOptions::new().filename(path).create_if_missing(false);
        let pool = SqlitePoolOptions::new()
            .max_connections(self.readers)
            .acquire_timeout(OPENING)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_lazy_with(written(options.clone()));
        Self { migrates: Some(self.migrates.unwrap_or(true)), ..self }.on(pool).await
    }

    /// Uses the caller's pool: for a file that also holds other tables, or needs options of its own.
    ///
    /// The ledger reads from the pool. It writes over one more connection, made with the pool's options, with a
    /// write-ahead log, and with the flushes that the ledger needs. The file must exist by the first question, and no
    /// transaction of the caller may last longer than the ledger's [time limit](Self::time_limit).
    ///
    /// # Errors
    /// None unless [`run_migrations`](Self::run_migrations) is set; then as [`SqliteLedger::migrate`].
    pub async fn on(self, pool: SqlitePool) -> Result<SqliteLedger, LedgerError> {
        let migrates = self.migrates == Some(true);
        let ledger = self.with_pool(pool);
        if migrates {
            ledger.migrate().await?;
        }
        Ok(ledger)
    }

    fn with_pool(self, pool: SqlitePool) -> SqliteLedger {
        let options = written((*pool.connect_options()).clone());
        let statements = Arc::new(Statements::new(&self.prefix));
        let home = Home::new(Place::new(options.get_filename()), options, Arc::clone(&statements));
        let queue = Arc::new(Queue::new(home, self.waiting));
        SqliteLedger { queue, readers: pool, statements, time_limit: self.time_limit, answer_space: self.answer_space }
    }
}

/// The options of the writing connection. Each transaction sets whether it is flushed; this is for any other statement.
fn written(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("fullfsync", "ON")
        // Keeps the undo data of a many-row statement in memory; SQLite would otherwise write it to a file.
        .pragma("temp_store", "MEMORY")
        .busy_timeout(BUSY)
        .row_buffer_size(ROWS)
        .disable_statement_logging()
}

impl fmt::Debug for SqliteLedgerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, readers, waiting, migrates, time_limit, answer_space } = self;
        let mut builder = f.debug_struct("SqliteLedgerBuilder");
        builder.field("table_prefix", prefix).field("pool_size", readers).field("queue", waiting);
        builder.field("run_migrations", migrates).field("time_limit", time_limit);
        builder.field("answers_up_to", answer_space).finish()
    }
}
