//! What is asked of who writes, and what is answered.

use super::{
    super::{AttemptOutcome, Claim, Lease, ReserveOutcome},
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
