//! Migrations of the schema from one version to the next.

use std::time::Duration;

use super::{
    super::{
        LedgerError,
        sql::{SCHEMA, compatible, in_time},
    },
    connection::{Borrowed, ask},
    handle::PostgresLedger,
    statements::{Flush, STEPS, text, whole},
};

/// How long a migration may take.
const MIGRATION: Duration = Duration::from_secs(60);

impl PostgresLedger {
    /// Creates the tables, or brings them up to date. Repeatable, also by several replicas at once.
    ///
    /// # Errors
    /// [`Incompatible`](crate::ledger::LedgerErrorKind::Incompatible) if another version wrote them;
    /// [`Unavailable`](crate::ledger::LedgerErrorKind::Unavailable) if the database refuses, or takes more than a minute.
    pub async fn migrate(&self) -> Result<(), LedgerError> {
        let version = in_time(MIGRATION, ask(|| self.try_migrate())).await?;
        compatible(Some(version))
    }

    /// Returns the version that it leaves behind.
    async fn try_migrate(&self) -> sqlx::Result<i64> {
        let (statements, mut connection) = (&self.statements, Borrowed::from(&self.pool).await?);
        // Any failure from here on closes the connection, which undoes everything.
        let mut opening = statements.opening(Flush::Now, MIGRATION);
        let schema = statements.schema.as_deref().unwrap_or_default();
        opening += &format!("SELECT pg_advisory_xact_lock(402, hashtext('{}'))", statements.prefix);
        sqlx::raw_sql(sqlx::AssertSqlSafe(opening)).execute(&mut *connection).await?;
        if !schema.is_empty() {
            let is_there = format!("SELECT to_regnamespace('\"{schema}\"') IS NOT NULL");
            if !connection.ask::<(bool,)>(sqlx::AssertSqlSafe(is_there)).await?.0 {
                let create = format!("CREATE SCHEMA \"{schema}\"");
                sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&mut *connection).await?;
            }
        }
        let first = text(&format!("{}memory", statements.prefix));
        let (is_there,) = connection.ask::<(bool,)>(statements.part(&statements.is_there, &[first])).await?;
        let version = match is_there {
            true => connection.ask::<(i64,)>(statements.part(&statements.version, &[])).await?.0,
            false => SCHEMA,
        };
        let revision = match is_there && version == SCHEMA {
            true => connection.ask::<(i64,)>(statements.part(&statements.revision, &[])).await?.0,
            false => 0,
        };
        let steps = STEPS.iter().skip(usize::try_from(revision).unwrap_or(usize::MAX));
        if version == SCHEMA && steps.len() > 0 {
            for step in steps {
                sqlx::raw_sql(statements.step(step)).execute(&mut *connection).await?;
            }
            let reached = [whole(SCHEMA), whole(i64::try_from(STEPS.len()).unwrap_or(i64::MAX))];
            sqlx::raw_sql(statements.part(&statements.reached, &reached)).execute(&mut *connection).await?;
        }
        sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
        connection.give_back();
        Ok(version)
    }
}
