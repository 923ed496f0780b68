//! A connection that returns to the pool only in order: one that was interrupted is closed.
//!
//! The pool would try it first, for as long as a server that hangs likes, and log what the driver says.

use std::{
    future::poll_fn,
    ops::{Deref, DerefMut},
};

use sqlx::{AssertSqlSafe, Either, FromRow, PgConnection, PgPool, Postgres, pool::PoolConnection, postgres::PgRow};

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

    /// One message of a whole transaction, which ends with so many statements and its `COMMIT`; the rows of each.
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

    /// One message that tells one row.
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
pub(super) fn is_undone(error: &sqlx::Error) -> bool {
    has_code(error, &["40001", "40P01"])
}

/// The server says so, by one of these codes.
pub(super) fn has_code(error: &sqlx::Error, codes: &[&str]) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    code.is_some_and(|code| codes.contains(&&*code))
}
