//! What is asked of who writes, and what is answered.

use std::{sync::Arc, time::Instant};

use tokio::sync::oneshot;

use super::{
    super::{AttemptOutcome, Claim, Lease, LedgerError, ReserveOutcome},
    delivery::Delivery,
    queue::Queue,
    statements::{Statements, Text},
};
use crate::protocol::ChainTime;

#[derive(Debug)]
pub(super) enum Question {
    Reserve(Claim),
    Renew(Lease),
    Commit(Lease),
    Release(Lease, AttemptOutcome),
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
    Reserved(ReserveOutcome),
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
    by: By,
}

enum By {
    Caller(oneshot::Sender<Delivery>),
    /// The ledger itself, for whom the answer is of no use any more after this.
    Itself(Instant),
}

impl Asked {
    pub(super) fn new(question: Question) -> (Self, oneshot::Receiver<Delivery>) {
        let (reply, answer) = oneshot::channel();
        (Self { question, answer: None, by: By::Caller(reply) }, answer)
    }

    /// What a lease holds that nobody has; it runs out by itself.
    pub(super) fn give_back(lease: Lease) -> Self {
        let now = Instant::now();
        let until = now.checked_add(lease.length()).unwrap_or(now);
        Self { question: Question::Release(lease, AttemptOutcome::NotStarted), answer: None, by: By::Itself(until) }
    }

    /// Nobody waits for the answer any more.
    pub(super) fn is_dropped(&self) -> bool {
        match &self.by {
            By::Caller(reply) => reply.is_closed(),
            By::Itself(until) => Instant::now() >= *until,
        }
    }

    pub(super) const fn is_the_ledgers_own(&self) -> bool {
        matches!(self.by, By::Itself(_))
    }

    pub(super) fn reply(self, queue: &Arc<Queue>) {
        if let By::Caller(reply) = self.by {
            let answer = self.answer.unwrap_or(Err(LedgerError::Unavailable));
            // Whoever went away meanwhile does not hear it: what then, the delivery knows.
            let _ = reply.send(Delivery::new(self.question, answer, Arc::clone(queue)));
        }
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
