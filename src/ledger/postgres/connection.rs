//! A connection that returns to the pool only in a clean state; an interrupted one is closed.
//!
//! The pool would first test an interrupted connection, for as long as the server hangs, and log the driver's message.

use std::{
    future::poll_fn,
    ops::{Deref, DerefMut},
};

use sqlx::{AssertSqlSafe, Either, FromRow, PgConnection, PgPool, Postgres, pool::PoolConnection, postgres::PgRow};

use super::super::{LedgerError, sql::failed};

/// A type that can be read from a row.
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

    /// Sends one message, of which one statement returns rows, and reads its answer to the end.
    pub(super) async fn rows<T: Row>(&mut self, message: AssertSqlSafe<String>) -> sqlx::Result<Vec<T>> {
        let rows = sqlx::raw_sql(message).fetch_all(&mut **self).await?;
        rows.iter().map(T::from_row).collect()
    }

    /// Sends one message of a whole transaction, which ends with this many statements and a `COMMIT`. Returns the rows
    /// of each statement.
    pub(super) async fn each<T: Row>(
        &mut self,
        message: AssertSqlSafe<String>,
        statements: usize,
    ) -> sqlx::Result<Vec<Vec<T>>> {
        let mut told = sqlx::raw_sql(message).fetch_many(&mut **self);
        let (mut each, mut rows) = (Vec::new(), Vec::new());
        while let Some(next) = poll_fn(|cx| told.as_mut().poll_next(cx)).await {
            match next? {
                Either::Right(row) => rows.push(T::from_row(&row)?),
                Either::Left(_) => each.push(std::mem::take(&mut rows)),
            }
        }
        each.pop();
        match each.len().checked_sub(statements) {
            Some(opening) => Ok(each.split_off(opening)),
            None => Err(sqlx::Error::RowNotFound),
        }
    }

    /// Sends one message that returns one row.
    pub(super) async fn ask<T: Row>(&mut self, message: AssertSqlSafe<String>) -> sqlx::Result<T> {
        self.rows(message).await?.into_iter().next().ok_or(sqlx::Error::RowNotFound)
    }

    /// Returns the connection to the pool. No message is under way on it.
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

/// Asks, and asks once more if the database undid the transaction in favour of another one.
pub(super) async fn ask<T, F: Future<Output = sqlx::Result<T>>>(question: impl Fn() -> F) -> Result<T, LedgerError> {
    let answer = match question().await {
        Err(error) if is_undone(&error) => question().await,
        answer => answer,
    };
    answer.map_err(|error| failed(&error))
}

/// Serialization failure, or deadlock.
pub(super) fn is_undone(error: &sqlx::Error) -> bool {
    has_code(error, &["40001", "40P01"])
}

/// Whether the server reported one of these codes.
pub(super) fn has_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| codes.contains(&&*code))
}
