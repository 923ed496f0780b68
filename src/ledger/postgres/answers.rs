//! `AnswerSpace`, and the commit that keeps an answer: in the transaction that consumes, and as a parameter, not as part of a statement.

use std::sync::atomic::{AtomicUsize, Ordering};

use sqlx::AssertSqlSafe;

use super::{
    super::{KeptAnswer, Lease, answer_space, answer_space::OVERHEAD, sql::micros},
    connection::Borrowed,
    handle::PostgresLedger,
    statements::{Flush, Literal, Text},
};

/// How much space answers take, as far as this process knows: what it measured last, and what it has kept since. A row that every commit
/// counts in would let all commits wait for each other.
#[derive(Debug)]
pub(super) struct AnswerSpace {
    taken: AtomicUsize,
    all: usize,
}

impl AnswerSpace {
    pub(super) const fn new(all: usize) -> Self {
        Self { taken: AtomicUsize::new(0), all }
    }

    pub(super) const fn space(&self) -> usize {
        self.all
    }

    /// All answers take so much.
    pub(super) fn measured(&self, bytes: usize) {
        self.taken.store(bytes, Ordering::Relaxed);
    }

    /// Takes the space of an answer, if there is enough.
    pub(super) fn take(&self, answer: &KeptAnswer) -> bool {
        let size = answer.content().len().saturating_add(OVERHEAD);
        let add = |taken: usize| taken.checked_add(size).filter(|taken| *taken <= self.all);
        let is_taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok();
        if !is_taken {
            answer_space::is_short();
        }
        is_taken
    }
}

impl PostgresLedger {
    /// Consumes by this statement what `values` name, and keeps the answer if it is sold only now; tells as `ledger_commit` does. Whatever fails
    /// undoes both.
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
