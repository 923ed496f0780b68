//! Questions of one kind that wait, and the rows that they are told.

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

/// A line of a look, or a grant: the fence, and whether the book knows of the pair; whether a settlement was begun that bars it. Then
/// the purchase that it would be for, whether it is sold to another payment or held by one, and whether it is being settled by one.
pub(super) type Reserved = (
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
/// As `ledger_commit` tells.
pub(super) type Committed = (Option<bool>,);
/// What is asked of one claim or lease.
pub(super) struct Question {
    pub(super) text: fn(&Statements) -> &Text,
    pub(super) values: Vec<Literal>,
    /// Every batch locks its rows in this order, whichever process asks.
    pub(super) payment: Option<PaymentId>,
    /// For how many questions it counts in a batch, which keeps all of them waiting: for its candidates, each of which is looked at.
    pub(super) weight: usize,
    pub(super) time_limit: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reservations of payments that were mined.
    Proven,
    /// Those of others, which cost their authors nothing.
    Unproven,
    Commit,
}

impl Kind {
    /// How many batches are under way at most. With more, each would have fewer questions.
    pub(super) const fn batches(self) -> usize {
        match self {
            Self::Proven | Self::Commit => 2,
            Self::Unproven => 1,
        }
    }

    /// How many questions are asked together at most, by their weight.
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

/// The rows that a question was told. None: it has to be asked alone.
pub(super) type Told<T> = Result<Option<Vec<T>>, LedgerError>;

pub(super) struct Asked<T> {
    pub(super) question: Arc<Question>,
    pub(super) reply: oneshot::Sender<Told<T>>,
}

/// The questions of one kind that wait.
pub(super) struct Line<T> {
    pub(super) kind: Kind,
    state: Mutex<State<T>>,
}

pub(super) struct State<T> {
    pub(super) waiting: VecDeque<Asked<T>>,
    /// How many batches are under way.
    pub(super) batches: usize,
}

impl<T> Line<T> {
    pub(super) const fn of(kind: Kind) -> Self {
        Self { kind, state: Mutex::new(State { waiting: VecDeque::new(), batches: 0 }) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing in here can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    /// Takes what is asked together next, as long as it weighs no more than `most`; the first one, however much it weighs.
    pub(super) fn take(&mut self, most: usize) -> Vec<Asked<T>> {
        self.waiting.retain(|asked| !asked.reply.is_closed());
        let mut weight = 0;
        let fits = |asked: &&Asked<T>| {
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
            line.state().waiting.push_back(Asked { question: Arc::new(question), reply });
        }
        // Its caller has left.
        drop(replies.pop());
        let sizes = std::iter::from_fn(|| Some(line.state().take(64).len()).filter(|size| *size > 0));
        assert_eq!(sizes.collect::<Vec<_>>(), [3, 2, 1, 1]);
    }
}
