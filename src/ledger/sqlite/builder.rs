//! `SqliteLedgerBuilder`: which file, under which names, and how many at once.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use sqlx::{
    ConnectOptions as _, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

use super::{
    super::{LedgerError, TablePrefixError, sql},
    file::{self, Place},
    handle::SqliteLedger,
    migration::OPENING,
    queue::Queue,
    statements::{PREFIX, Statements},
    writer::Home,
};

/// How long SQLite itself waits for another process before it is asked again.
const BUSY: Duration = Duration::from_millis(500);
/// How many can look at once; they do not wait for who writes.
const READERS: u32 = 4;
/// How many can wait to write.
const WAITING: usize = 4_096;
/// More rows than a batch tells.
const ROWS: usize = 4_096;

/// How a [`SqliteLedger`] is opened.
///
/// ```
/// use tower_x402::ledger::SqliteLedger;
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("shop.db");
/// let ledger = SqliteLedger::builder().table_prefix("shop2_")?.readers(2).open(&path).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub struct SqliteLedgerBuilder {
    prefix: String,
    readers: u32,
    waiting: usize,
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
}

impl SqliteLedgerBuilder {
    fn new() -> Self {
        Self { prefix: PREFIX.to_owned(), readers: READERS, waiting: WAITING }
    }

    /// Puts this before the name of every table, instead of `ledger_`.
    ///
    /// # Errors
    /// [`TablePrefixError`] unless it is 1 to 32 of `a` to `z`, `0` to `9` and `_`, and begins with no digit; nor may it
    /// begin with `sqlite_`, which SQLite keeps for itself.
    pub fn table_prefix(self, prefix: &str) -> Result<Self, TablePrefixError> {
        match sql::table_prefix(prefix)? {
            own if own.starts_with("sqlite_") => Err(TablePrefixError),
            prefix => Ok(Self { prefix: prefix.to_owned(), ..self }),
        }
    }

    /// How many connections read at once: 4 unless set here, and 1 at least. One more writes.
    pub fn readers(self, readers: u32) -> Self {
        Self { readers: readers.max(1), ..self }
    }

    /// How many questions may wait to be written; any more is [`LedgerError::Unavailable`] at once: 4,096 unless set here,
    /// and 1 at least.
    pub fn queue(self, waiting: usize) -> Self {
        Self { waiting: waiting.max(1), ..self }
    }

    /// Opens the file, as [`SqliteLedger::open`] does.
    ///
    /// # Errors
    /// As [`SqliteLedger::open`].
    pub async fn open(self, path: impl AsRef<Path>) -> Result<SqliteLedger, LedgerError> {
        let path = file::create(path.as_ref()).map_err(|error| {
            tracing::warn!(kind = %error.kind(), "the ledger's file cannot be opened");
            LedgerError::Unavailable
        })?;
        let options = SqliteConnectOptions::new().filename(path).create_if_missing(false);
        let pool = SqlitePoolOptions::new()
            .max_connections(self.readers)
            .acquire_timeout(OPENING)
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false)
            .connect_lazy_with(written(options.clone()));
        let ledger = self.on(pool);
        ledger.migrate().await?;
        Ok(ledger)
    }

    /// On a pool of the caller's, for a file that holds other tables too, or needs options of its own. The pool is read
    /// from. What is written goes over one connection more, which is made with the pool's options: with a write-ahead log,
    /// and flushes as the ledger needs them.
    ///
    /// Creates nothing: see [`SqliteLedger::migrate`]. The file must be there by the first question, and no transaction of the
    /// caller's may last longer than the ledger's time limit.
    #[must_use]
    pub fn on(self, pool: SqlitePool) -> SqliteLedger {
        let options = written((*pool.connect_options()).clone());
        let statements = Arc::new(Statements::new(&self.prefix));
        let home = Home::new(Place::new(options.get_filename()), options, Arc::clone(&statements));
        let queue = Arc::new(Queue::new(home, self.waiting));
        SqliteLedger { queue, readers: pool, statements, time_limit: sql::TIME_LIMIT }
    }
}

/// What a connection that writes needs. Each transaction says whether it is flushed; this is for any other.
fn written(options: SqliteConnectOptions) -> SqliteConnectOptions {
    options
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .pragma("fullfsync", "ON")
        // What a statement of many rows keeps for the case that it fails, which would else be written to a file.
        .pragma("temp_store", "MEMORY")
        .busy_timeout(BUSY)
        .row_buffer_size(ROWS)
        .disable_statement_logging()
}

impl fmt::Debug for SqliteLedgerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, readers, waiting } = self;
        let mut builder = f.debug_struct("SqliteLedgerBuilder");
        builder.field("table_prefix", prefix).field("readers", readers).field("queue", waiting).finish()
    }
}
