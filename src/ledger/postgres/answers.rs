//! The commit that keeps an answer: it sends the answer inside the committing transaction, as a parameter and not as
//! part of a statement.

use sqlx::AssertSqlSafe;

use super::{
    super::{KeptAnswer, Lease, sql::micros},
    connection::Borrowed,
    handle::PostgresLedger,
    statements::{Flush, Literal, Text},
};

impl PostgresLedger {
    /// Consumes what `values` name by this statement, and keeps the answer if the sale is new. Returns the result of
    /// `ledger_commit`. Any failure undoes both.
    pub(super) async fn commit_to_keep(
        &self,
        lease: &Lease,
        commit: &Text,
        values: &[Literal],
        answer: &KeptAnswer,
    ) -> sqlx::Result<Option<bool>> {
        let (say, mut connection) = (&self.statements, Borrowed::from(&self.pool).await?);
        let commit = say.beginning(Flush::Now, self.time_limit, commit, values);
        let (sold,) = connection.ask::<(Option<bool>,)>(commit).await?;
        if sold == Some(true) {
            let keep = sqlx::query(AssertSqlSafe(say.keep.as_str().to_owned())).persistent(false);
            let keep = keep.bind(lease.intent().as_bytes().to_vec()).bind(micros(answer.keep_for()));
            keep.bind(answer.content().to_vec()).execute(&mut *connection).await?;
        }
        sqlx::raw_sql("COMMIT").execute(&mut *connection).await?;
        connection.give_back();
        Ok(sold)
    }
}
