//! Questions to the writer, and their answers.

use super::{
    super::{AttemptOutcome, Claim, KeptAnswer, Lease, RefundOutcome, ReserveOutcome},
    statements::{Statements, Text},
};
use crate::protocol::{ChainTime, PaymentId, TxHash};

#[derive(Debug)]
pub(super) enum Question {
    Reserve(Claim),
    Renew(Lease),
    /// With what is kept of the answer.
    Commit(Lease, Option<KeptAnswer>),
    Release(Lease, AttemptOutcome),
    Memory(Word, ChainTime),
    Sweep(ChainTime),
    /// A payment was given back by this transaction.
    Refund(PaymentId, TxHash),
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
    /// How many sales were forgotten, and whether there may be more to forget.
    Swept {
        sales: i64,
        more: bool,
    },
    Refunded(RefundOutcome),
}

impl Question {
    /// Whether what it writes must outlive a power cut. A lease need not, since its holder does not, unless it keeps for its
    /// intent what is about to be settled.
    pub(super) fn must_last(&self) -> bool {
        match self {
            Self::Commit(..) | Self::Memory(..) | Self::Refund(..) => true,
            Self::Reserve(claim) => claim.must_last(),
            Self::Renew(_) | Self::Release(..) | Self::Sweep(_) => false,
        }
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
