//! A connection that returns to the pool only in order: one that was interrupted is closed.
//!
//! The pool would try it first, for as long as a server that hangs likes, and log what the driver says.

use std::ops::{Deref, DerefMut};

use sqlx::{AssertSqlSafe, FromRow, PgConnection, PgPool, Postgres, pool::PoolConnection, postgres::PgRow};

use super::super::{LedgerError, sql::failed};

/// What is read from a row.
pub(super) trait Row: for<'r> FromRow<'r, PgRow> + Send {}

impl<T: for<'r> FromRow<'r, PgRow> + Send> Row for T {}

pub(super) struct Borrowed {
    connection: PoolConnection<Postgres>,
    in_order: bool,
}

impl Borrowed {
    pub(super) async fn from(pool: &PgPool) -> sqlx::Result<Self> {
        Ok(Self { connection: pool.acquire().await?, in_order: false })
    }

    /// One message, of whose statements one tells something; read to its end, where it is done.
    pub(super) async fn rows<T: Row>(&mut self, message: AssertSqlSafe<String>) -> sqlx::Result<Vec<T>> {
        let rows = sqlx::raw_sql(message).fetch_all(&mut **self).await?;
        rows.iter().map(T::from_row).collect()
    }

    /// The same, where it tells one row.
    pub(super) async fn ask<T: Row>(&mut self, message: AssertSqlSafe<String>) -> sqlx::Result<T> {
        self.rows(message).await?.into_iter().next().ok_or(sqlx::Error::RowNotFound)
    }

    /// Nothing is under way on it.
    pub(super) fn give_back(mut self) {
        self.in_order = true;
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if !self.in_order {
            self.connection.close_on_drop();
        }
    }
}

impl Deref for Borrowed {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        &self.connection
    }
}

impl DerefMut for Borrowed {
    fn deref_mut(&mut self) -> &mut PgConnection {
        &mut self.connection
    }
}

/// Asks, and asks once more where the database undid the transaction for the sake of another one.
pub(super) async fn ask<T, F: Future<Output = sqlx::Result<T>>>(question: impl Fn() -> F) -> Result<T, LedgerError> {
    let answer = match question().await {
        Err(error) if is_undone(&error) => question().await,
        answer => answer,
    };
    answer.map_err(|error| failed(&error))
}

/// Serialization failure, or deadlock.
fn is_undone(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("40001" | "40P01"))
}
