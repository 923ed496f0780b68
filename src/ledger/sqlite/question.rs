//! Questions to the writer, and their answers.

use std::time::Duration;

use super::{
    super::{
        Claim, KeptAnswer, Lease, RefundOutcome, ReserveOutcome, Settling,
        account::{AccountAnswer, AccountQuestion},
    },
    statements::{Statements, Text},
};
use crate::protocol::{ChainTime, Network, PaymentId, TxHash};

/// The order in the queue, the first variant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Ends or renews a lease. There are at most as many of these as leases.
    Holder,
    Reservation,
    /// Reserves an unsettled payment. That costs its author nothing, so few are let in at once.
    Unproven,
}

#[derive(Debug)]
pub(super) enum Question {
    Reserve(Claim),
    Renew(Lease),
    /// Renews, and records that the payment is about to be settled.
    Settling(Lease, Settling),
    NotSettled(Lease),
    /// With the answer to keep, and the limit for all answers in bytes.
    Commit(Lease, Option<(KeptAnswer, usize)>),
    Release(Lease),
    Memory(MemoryChange),
    /// With the time of the chain's head.
    Sweep(Network, ChainTime),
    /// Notes that this transaction refunded the payment.
    Refund(PaymentId, TxHash),
    /// Removes the mark of an announced sale.
    Announced(PaymentId),
    Account(AccountQuestion),
    /// Forgets accounts that expired longer ago than this.
    ForgetAccounts(Duration),
}

/// A change of the ledger's own rows.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemoryChange {
    /// Writes a row, to prove that the file can be written.
    Beat,
    Start(Network, ChainTime),
    Raise(Network, ChainTime),
    Lower(Network, ChainTime),
}

#[derive(Debug)]
pub(super) enum Answer {
    Reserved(ReserveOutcome),
    /// Whether the lease was held.
    Renewed(bool),
    /// The record of the settlement is gone, if the lease was held.
    NotSettled,
    /// Whether the intent is sold, and whether it was sold by this question.
    Sold {
        sold: bool,
        only_now: bool,
    },
    /// Whether the lease was held.
    Released(bool),
    /// The change was made; the chain's mark afterwards.
    Memory(Option<ChainTime>),
    /// The number of forgotten sales, and whether there may be more to forget.
    Swept {
        sales: i64,
        more: bool,
    },
    Refunded(RefundOutcome),
    /// The mark is removed.
    Announced,
    Account(AccountAnswer),
    /// The number of forgotten accounts, and whether there may be more to forget.
    Forgotten {
        accounts: u64,
        more: bool,
    },
}

impl Question {
    /// Its place in the order of the queue.
    pub(super) fn rank(&self) -> Rank {
        match self {
            Self::Reserve(claim) if claim.is_unproven() => Rank::Unproven,
            Self::Account(question) if question.begins() => Rank::Reservation,
            Self::Reserve(_) | Self::Sweep(..) | Self::ForgetAccounts(_) => Rank::Reservation,
            _ => Rank::Holder,
        }
    }

    /// How many questions it counts for in a batch: the number of its candidates, since each is examined while the
    /// whole batch waits.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Reserve(claim) => claim.payments().len().max(1),
            _ => 1,
        }
    }

    /// Whether the write must survive a power failure. A lease need not, since its holder does not survive either.
    pub(super) fn must_be_durable(&self) -> bool {
        match self {
            Self::Settling(..) | Self::Commit(..) | Self::Memory(..) | Self::Refund(..) => true,
            Self::Reserve(_) | Self::Renew(_) | Self::NotSettled(_) | Self::Release(_) => false,
            // If the mark of an announced sale comes back, the sale is only announced again.
            Self::Sweep(..) | Self::ForgetAccounts(_) | Self::Announced(_) => false,
            Self::Account(question) => question.must_be_durable(),
        }
    }
}

impl MemoryChange {
    pub(super) const fn text(self, say: &Statements) -> &Text {
        match self {
            Self::Beat => &say.beat,
            Self::Start(..) => &say.start,
            Self::Raise(..) => &say.raise,
            Self::Lower(..) => &say.lower,
        }
    }

    /// The chain, and the time for its mark.
    pub(super) const fn mark(self) -> Option<(Network, ChainTime)> {
        match self {
            Self::Beat => None,
            Self::Start(network, time) | Self::Raise(network, time) | Self::Lower(network, time) => {
                Some((network, time))
            }
        }
    }
}
