//! Batches questions that wait at the same time: one message, one transaction, one flush.
//!
//! The number of batches of a kind that run at once is limited; later questions join the next batch. A batch that fails
//! is undone as a whole, and each of its callers then asks alone: so only the failing question fails.

use std::sync::Arc;

use tokio::{
    runtime::Handle,
    sync::{SemaphorePermit, oneshot},
};

use super::{
    super::{
        LedgerError,
        last_sale::is_unknown,
        sql::{failed, in_time},
    },
    connection::{Borrowed, Row, ask, has_code, is_undone},
    handle::PostgresLedger,
    line::{BatchRows, Kind, Line, Question, Waiting},
    statements::UNKNOWN,
};

impl PostgresLedger {
    /// Asks in a batch with the other questions of this line, or alone if the batch failed. The caller sets the time
    /// limit. If the returned future is dropped, the question is still answered or passed over.
    pub(super) async fn together<T: Row + 'static>(
        &self,
        line: &Arc<Line<T>>,
        question: &Arc<Question>,
    ) -> Result<Vec<T>, LedgerError> {
        let told = self.join(line, Arc::clone(question))?;
        match told.await.map_err(|_| LedgerError::unavailable())?? {
            Some(rows) => Ok(rows),
            None => {
                let _permit = self.permit(line.kind).await?;
                let mut told = ask(|| self.batch(line.kind, std::slice::from_ref(question))).await?;
                told.pop().ok_or(LedgerError::unavailable())
            }
        }
    }

    fn join<T: Row + 'static>(
        &self,
        line: &Arc<Line<T>>,
        question: Arc<Question>,
    ) -> Result<oneshot::Receiver<BatchRows<T>>, LedgerError> {
        let runtime = Handle::try_current().map_err(|_| LedgerError::unavailable())?;
        let (reply, told) = oneshot::channel();
        let mut state = line.state();
        state.waiting.push_back(Waiting { question, reply });
        if state.batches < line.kind.batches() {
            state.batches += 1;
            // If the runtime is ending, it drops the task at once, and the task's drop locks the line.
            drop(state);
            let turn = Turn { line: Arc::clone(line), ledger: self.clone(), is_over: false };
            drop(runtime.spawn(turn.work()));
        }
        Ok(told)
    }

    /// Waits for a permit to reserve. Commits need none.
    async fn permit(&self, kind: Kind) -> Result<Option<SemaphorePermit<'_>>, LedgerError> {
        match kind {
            Kind::Proven => self.shares.enter(false).await.map(Some),
            Kind::Unproven => self.shares.enter(true).await.map(Some),
            Kind::Commit => Ok(None),
        }
    }

    /// Asks the questions in one transaction, and returns the rows of each. For reservations the server must know the
    /// last sales of this process.
    async fn batch<T: Row>(&self, kind: Kind, questions: &[Arc<Question>]) -> sqlx::Result<Vec<Vec<T>>> {
        let mut connection = Borrowed::from(&self.pool).await?;
        let time_limit = questions.iter().map(|question| question.time_limit).max().unwrap_or(self.time_limit);
        let last = if kind == Kind::Commit { Vec::new() } else { self.last_sales.get() };
        let asked: Vec<_> = questions.iter().map(|each| ((each.text)(&self.statements), &each.values[..])).collect();
        let message = self.statements.questions(kind.flush(), time_limit, &last, &asked);
        let rows = connection.each(message, questions.len()).await.inspect_err(|error| {
            if has_code(error, &[UNKNOWN]) {
                is_unknown();
            }
        })?;
        connection.give_back();
        Ok(rows)
    }

    /// The same for waiting questions. Returns `None` if each has to be asked alone.
    async fn try_batch<T: Row>(
        &self,
        kind: Kind,
        questions: &[Arc<Question>],
    ) -> Result<Option<Vec<Vec<T>>>, LedgerError> {
        let _permit = self.permit(kind).await?;
        match self.batch(kind, questions).await {
            Ok(rows) => Ok(Some(rows)),
            // The whole batch is undone: perhaps because of one question, or of another transaction.
            Err(error) if is_refused(&error) && (questions.len() > 1 || is_undone(&error)) => Ok(None),
            Err(error) => Err(failed(&error)),
        }
    }
}

/// Whether the server refused for a reason that may differ between questions.
fn is_refused(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some() && !has_code(error, &[UNKNOWN])
}

/// A task that asks waiting questions until none is left.
struct Turn<T> {
    line: Arc<Line<T>>,
    ledger: PostgresLedger,
    is_over: bool,
}

impl<T: Row + 'static> Turn<T> {
    async fn work(mut self) {
        loop {
            // A caller that just got its answer may ask again, and join the next batch.
            tokio::task::yield_now().await;
            let batch = self.next();
            let limit = batch.iter().map(|asked| asked.question.time_limit).max();
            let Some(limit) = limit else { return };
            let questions: Vec<_> = batch.iter().map(|asked| Arc::clone(&asked.question)).collect();
            let told = in_time(limit, self.ledger.try_batch(self.line.kind, &questions)).await;
            let mut rows = told.map(|told| told.map(Vec::into_iter));
            for asked in batch {
                let told = match &mut rows {
                    Ok(Some(rows)) => rows.next().map(Some).ok_or(LedgerError::unavailable()),
                    Ok(None) => Ok(None),
                    Err(error) => Err(error.clone()),
                };
                // If the caller left meanwhile, its lease expires; it learns the outcome when it asks again.
                let _ = asked.reply.send(told);
            }
        }
    }

    /// The next batch, ordered by payment. If it is empty, the turn is over.
    fn next(&mut self) -> Vec<Waiting<T>> {
        let (kind, mut state) = (self.line.kind, self.line.state());
        let mut next = state.take(kind.together());
        if next.is_empty() {
            state.batches = state.batches.saturating_sub(1);
            self.is_over = true;
        }
        drop(state);
        next.sort_by_key(|asked| asked.question.payment);
        next
    }
}

impl<T> Drop for Turn<T> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut state = self.line.state();
            state.batches = state.batches.saturating_sub(1);
        }
    }
}
