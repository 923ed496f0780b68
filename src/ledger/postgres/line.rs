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

    /// How many questions are asked together at most.
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
