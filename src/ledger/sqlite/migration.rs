//! Migrations of the schema from one version to the next.

use std::time::Duration;

use sqlx::{Connection as _, SqliteConnection};

use super::{
    super::{
        LedgerError,
        sql::{SCHEMA, compatible, in_time},
    },
    codes::ask,
    handle::SqliteLedger,
    statements::STEPS,
};

/// The time limit of opening and migrating: longer than another process takes for it.
pub(super) const OPENING: Duration = Duration::from_secs(10);

impl SqliteLedger {
    /// Creates the tables, or brings them up to date. Repeatable, also by several processes at once.
    ///
    /// # Errors
    /// [`Incompatible`](crate::ledger::LedgerErrorKind::Incompatible) if another version wrote the tables, and this one cannot read them;
    /// [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable) if the file cannot be written, or keeps no write-ahead log;
    /// [`Unsafe`](crate::ledger::LedgerErrorKind::Unsafe) for a device, a pipe or a folder, if the file has a second name (on
    /// Unix), and if the file itself is a mount point (on Linux).
    pub async fn migrate(&self) -> Result<(), LedgerError> {
        if let Some(fault) = self.queue.home().place.fault() {
            return Err(fault);
        }
        let version = in_time(OPENING, ask(|| self.try_migrate())).await?;
        compatible(Some(version))
    }

    /// Returns the version that it leaves behind.
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
        let is_there: bool = sqlx::query_scalar(say.is_there.sql()).fetch_one(&mut *work).await?;
        let version: i64 = match is_there {
            true => sqlx::query_scalar(say.version.sql()).fetch_one(&mut *work).await?,
            false => SCHEMA,
        };
        if version == SCHEMA {
            let revision: i64 = match is_there {
                true => sqlx::query_scalar(say.revision.sql()).fetch_one(&mut *work).await?,
                false => 0,
            };
            let steps = STEPS.into_iter().skip(usize::try_from(revision).unwrap_or(usize::MAX));
            if steps.len() > 0 {
                for step in steps {
                    sqlx::raw_sql(say.step(step)).execute(&mut *work).await?;
                }
                let reached = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
                sqlx::query(say.reached.sql()).bind(SCHEMA).bind(reached).execute(&mut *work).await?;
            }
        }
        work.commit().await?;
        Ok(version)
    }
}
