//! Waiting questions of one kind, and the rows of their answers.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{
    super::LedgerError,
    statements::{Flush, Literal, Statements, Text},
};
use crate::protocol::PaymentId;

/// A row of a look, or a grant: version and mark; whether the intent is sold, and its lease's remaining time; the same
/// of the payment, and its block time on record; the fence of a grant, whether the book has the pair, and whether a
/// begun settlement bars it. Then the purchase for the grant, whether another payment bought it, the remaining time of
/// another payment's lease on it, and whether another payment is being settled for it.
pub(super) type ReservedColumns = (
    i64,
    Option<i64>,
    bool,
    Option<i64>,
    bool,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    bool,
    bool,
    Option<String>,
    bool,
    Option<i64>,
    bool,
);
/// The result of `ledger_commit`.
pub(super) type Committed = (Option<bool>,);
/// A question about one claim or lease.
pub(super) struct Question {
    pub(super) text: fn(&Statements) -> &Text,
    pub(super) values: Vec<Literal>,
    /// Every batch locks its rows in this order, in all processes.
    pub(super) payment: Option<PaymentId>,
    /// How many questions it counts for in a batch: the number of its candidates, since each is examined while the
    /// whole batch waits.
    pub(super) weight: usize,
    pub(super) time_limit: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reservations of settled payments.
    Proven,
    /// Reservations of other payments, which cost their authors nothing.
    Unproven,
    Commit,
}

impl Kind {
    /// The most batches that are under way at once. With more, each would have fewer questions.
    pub(super) const fn batches(self) -> usize {
        match self {
            Self::Proven | Self::Commit => 2,
            Self::Unproven => 1,
        }
    }

    /// The most questions in a batch, by their weight.
    pub(super) const fn together(self) -> usize {
        match self {
            Self::Proven | Self::Commit => 64,
            Self::Unproven => 4,
        }
    }

    pub(super) const fn flush(self) -> Flush {
        match self {
            Self::Proven | Self::Unproven => Flush::Later,
            Self::Commit => Flush::Now,
        }
    }
}

/// The rows of a question's answer; `None` if the question has to be asked alone.
pub(super) type BatchRows<T> = Result<Option<Vec<T>>, LedgerError>;

pub(super) struct Waiting<T> {
    pub(super) question: Arc<Question>,
    pub(super) reply: oneshot::Sender<BatchRows<T>>,
}

/// The waiting questions of one kind.
pub(super) struct Line<T> {
    pub(super) kind: Kind,
    state: Mutex<State<T>>,
}

pub(super) struct State<T> {
    pub(super) waiting: VecDeque<Waiting<T>>,
    /// The number of batches under way.
    pub(super) batches: usize,
}

impl<T> Line<T> {
    pub(super) const fn of(kind: Kind) -> Self {
        Self { kind, state: Mutex::new(State { waiting: VecDeque::new(), batches: 0 }) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<T>> {
        // No code under this lock can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// Takes the questions of the next batch, up to a weight of `most`; the first one whatever its weight.
    pub(super) fn take(&mut self, most: usize) -> Vec<Waiting<T>> {
        self.waiting.retain(|asked| !asked.reply.is_closed());
        let mut weight = 0;
        let fits = |asked: &&Waiting<T>| {
            weight += asked.question.weight;
            weight <= most
        };
        let next = self.waiting.iter().take_while(fits).count().max(1).min(self.waiting.len());
        self.waiting.drain(..next).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_few_candidates() {
        let line = Line::<Committed>::of(Kind::Proven);
        let mut replies = Vec::new();
        for weight in [1, 1, 32, 32, 31, 3_000, 1, 2] {
            let question = Question {
                text: |say| &say.commit,
                values: Vec::new(),
                payment: None,
                weight,
                time_limit: Duration::from_secs(1),
            };
            let (reply, told) = oneshot::channel();
            replies.push(told);
            line.state().waiting.push_back(Waiting { question: Arc::new(question), reply });
        }
        // Its caller has left.
        drop(replies.pop());
        let sizes = std::iter::from_fn(|| Some(line.state().take(64).len()).filter(|size| *size > 0));
        assert_eq!(sizes.collect::<Vec<_>>(), [3, 2, 1, 1]);
    }
}
