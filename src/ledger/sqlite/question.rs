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

/// The order in the queue: the first of these first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Ends or prolongs a lease; there are at most as many of these as leases.
    Holder,
    Reservation,
    /// The reservation of a payment that has not happened yet. It costs its author nothing: few are let in at once.
    Unproven,
}

#[derive(Debug)]
pub(super) enum Question {
    Reserve(Claim),
    Renew(Lease),
    /// Renews, and records that the payment is about to be settled.
    Settling(Lease, Settling),
    NotSettled(Lease),
    /// With the answer to keep, and how many bytes all of them may take.
    Commit(Lease, Option<(KeptAnswer, usize)>),
    Release(Lease),
    Memory(Word),
    /// At the chain's head.
    Sweep(Network, ChainTime),
    /// A payment was given back by this transaction.
    Refund(PaymentId, TxHash),
    /// A sale was announced.
    Announced(PaymentId),
    Account(AccountQuestion),
    /// Those that expired longer ago than this.
    ForgetAccounts(Duration),
}

/// What the ledger's own rows are told.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    /// To change, so that it is known that it can be written.
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
    /// The record of a settlement is not there any more, if the lease was held.
    NotSettled,
    /// Whether it is sold, and whether only now.
    Sold {
        sold: bool,
        only_now: bool,
    },
    /// Whether the lease was held.
    Released(bool),
    /// It was told; the chain's mark as it is now.
    Memory(Option<ChainTime>),
    /// How many sales were forgotten, and whether there may be more to forget.
    Swept {
        sales: i64,
        more: bool,
    },
    Refunded(RefundOutcome),
    /// Its mark is gone.
    Announced,
    Account(AccountAnswer),
    /// How many accounts were forgotten, and whether there may be more to forget.
    Forgotten {
        accounts: u64,
        more: bool,
    },
}

impl Question {
    /// How long it waits behind others.
    pub(super) fn rank(&self) -> Rank {
        match self {
            Self::Reserve(claim) if claim.is_unproven() => Rank::Unproven,
            Self::Account(question) if question.begins() => Rank::Reservation,
            Self::Reserve(_) | Self::Sweep(..) | Self::ForgetAccounts(_) => Rank::Reservation,
            _ => Rank::Holder,
        }
    }

    /// For how many questions it counts in a batch, which keeps all of them waiting. Each candidate is looked at.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Reserve(claim) => claim.payments().len().max(1),
            _ => 1,
        }
    }

    /// Whether what it writes must outlive a power cut. A lease need not, since its holder does not.
    pub(super) fn must_last(&self) -> bool {
        match self {
            Self::Settling(..) | Self::Commit(..) | Self::Memory(..) | Self::Refund(..) => true,
            Self::Reserve(_) | Self::Renew(_) | Self::NotSettled(_) | Self::Release(_) => false,
            // A sale whose mark comes back is announced again.
            Self::Sweep(..) | Self::ForgetAccounts(_) | Self::Announced(_) => false,
            Self::Account(question) => question.must_last(),
        }
    }
}

impl Word {
    pub(super) const fn text(self, say: &Statements) -> &Text {
        match self {
            Self::Beat => &say.beat,
            Self::Start(..) => &say.start,
            Self::Raise(..) => &say.raise,
            Self::Lower(..) => &say.lower,
        }
    }

    /// The chain, and the time that its mark is told.
    pub(super) const fn mark(self) -> Option<(Network, ChainTime)> {
        match self {
            Self::Beat => None,
            Self::Start(network, time) | Self::Raise(network, time) | Self::Lower(network, time) => {
                Some((network, time))
            }
        }
    }
}
