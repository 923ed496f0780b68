//! What is asked of who writes, and what is answered.

use tokio::sync::oneshot;

use super::{
    super::{Claim, Handler, Lease, LedgerError, Reservation},
    statements::{Statements, Text},
};
use crate::protocol::ChainTime;

#[derive(Debug)]
pub(super) enum Question {
    Reserve(Claim),
    Renew(Lease),
    Commit(Lease),
    Release(Lease, Handler),
    Memory(Word, ChainTime),
    Sweep(ChainTime),
}

/// What the ledger's own row is told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    /// To change, so that it is known that it can be written.
    Beat,
    Start,
    Raise,
    Lower,
}

#[derive(Debug)]
pub(super) enum Answer {
    Reserved(Reservation),
    /// Whether the lease was held.
    Renewed(bool),
    /// Whether it is sold, and whether only now.
    Sold {
        sold: bool,
        only_now: bool,
    },
    /// Whether the lease was held.
    Released(bool),
    /// It was told; the mark as it is now.
    Memory(Option<ChainTime>),
    /// How many sales were forgotten.
    Swept(i64),
}

/// A question that waits, and who asked it.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) answer: Option<Result<Answer, LedgerError>>,
    reply: oneshot::Sender<Result<Answer, LedgerError>>,
}

impl Asked {
    pub(super) fn new(question: Question) -> (Self, oneshot::Receiver<Result<Answer, LedgerError>>) {
        let (reply, answer) = oneshot::channel();
        (Self { question, answer: None, reply }, answer)
    }

    /// Nobody waits for the answer any more.
    pub(super) fn is_dropped(&self) -> bool {
        self.reply.is_closed()
    }

    pub(super) fn reply(self) {
        // Whoever went away meanwhile does not hear it.
        let _ = self.reply.send(self.answer.unwrap_or(Err(LedgerError::Unavailable)));
    }
}

impl Question {
    /// Whether what it writes must outlive a power cut. A lease need not: nobody who held it does.
    pub(super) const fn must_last(&self) -> bool {
        matches!(self, Self::Commit(_) | Self::Memory(..))
    }
}

impl Word {
    pub(super) const fn text(self, say: &Statements) -> &Text {
        match self {
            Self::Beat => &say.beat,
            Self::Start => &say.start,
            Self::Raise => &say.raise,
            Self::Lower => &say.lower,
        }
    }
}
