//! What an account answers.

use std::time::{Duration, SystemTime};

use super::{claim::DrawLease, id::AccountMemo};
use crate::protocol::Amount;

/// The state of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// How much can be spent in all.
    pub limit: Amount,
    /// How much was spent.
    pub spent: Amount,
    /// How much live leases hold.
    pub held: Amount,
    /// When it expires, by the ledger's clock; `None`: never.
    pub expires: Option<SystemTime>,
    /// Whether it was closed.
    pub closed: bool,
    /// How many reservations were granted.
    pub drawn: u64,
    /// The memo of its opener, or of the last charge that had one.
    pub memo: AccountMemo,
    /// What was claimed, if it is a claimable account.
    pub claims: Option<Box<Claims>>,
}

/// What is known of the claims of a [claimable](super::Opening::claimable) account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claims {
    /// How much was claimed. It never exceeds what was spent.
    pub claimed: Amount,
    /// Since when something is spent and not claimed, by the ledger's clock; `None`: all is claimed. Where calls were charged while the
    /// last claim was under way, since that claim was reflected.
    pub since: Option<SystemTime>,
    /// The note of the last reflection that had one.
    pub note: AccountMemo,
    /// The block of the last reflection that had one.
    pub as_of: Option<u64>,
}

impl Account {
    /// Returns what can still be drawn, or could if it were neither closed nor expired: the limit without what was spent and what is
    /// held.
    #[must_use]
    pub fn left(&self) -> Amount {
        let left = self.limit.checked_sub(self.spent).and_then(|left| left.checked_sub(self.held));
        left.unwrap_or(Amount::ZERO)
    }

    /// Returns what was spent and is not claimed yet; zero if the account is not claimable.
    #[must_use]
    pub fn owed(&self) -> Amount {
        let owed = self.claims.as_ref().and_then(|claims| self.spent.checked_sub(claims.claimed));
        owed.unwrap_or(Amount::ZERO)
    }

    /// Returns by how much what was spent and what is held exceed the limit. Only a reflection of a lower limit makes it more than
    /// zero; nothing is granted then.
    #[must_use]
    pub fn shortfall(&self) -> Amount {
        let taken = self.spent.checked_add(self.held).unwrap_or(Amount::MAX);
        taken.checked_sub(self.limit).unwrap_or(Amount::ZERO)
    }
}

/// The outcome of an opening.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum OpenOutcome {
    /// It is open, now or since before.
    Open(Account),
    /// It was closed before, and stays closed.
    Closed,
}

/// The outcome of a draw. Of several refusals that apply, the ledger returns the first in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum DrawOutcome {
    /// The amount is held.
    Granted(DrawLease),
    /// There is no such account.
    Unknown,
    /// The account is closed.
    Closed,
    /// The account has expired.
    Expired,
    /// A draw that [expects](super::Draw::expecting) another sum to be spent. No reservation is under way.
    Mismatch {
        /// What was spent.
        spent: Amount,
    },
    /// Less than the amount is left, even if every reservation under way fails.
    UsedUp {
        /// The limit without what was spent.
        left: Amount,
    },
    /// Enough is left only if reservations under way fail; or too many are under way, or one beside a draw that tolerates none.
    Busy {
        /// The time until the first of them runs out unless it is renewed. Most end sooner.
        retry_after: Duration,
    },
}

/// The outcome of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum DrawRenewal {
    /// The lease is held, and lasts its full length from now.
    Held,
    /// The lease was released, charged, or its amount was given to another.
    LeaseLost,
}

/// The outcome of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ChargeOutcome {
    /// It is spent, durably, under this lease.
    Done {
        /// What can still be drawn: the limit without what was spent and what is held, as of this answer.
        left: Amount,
    },
    /// The lease was lost, and nothing was spent.
    LeaseLost,
    /// The charge is more than the lease holds. Nothing was spent, and the lease is as it was.
    TooMuch,
}

/// An account that is closed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ClosedAccount {
    /// What was paid for and not used: the limit without what was spent and what live leases hold. A lease that is released later
    /// adds to it: close the account again to learn the final sum.
    pub left: Amount,
    /// What live leases hold, which may still be charged.
    pub held: Amount,
}

/// The outcome of a reflection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ReflectOutcome {
    /// The account as it is now. A reflection of an earlier block than the last one has changed nothing.
    Done(Account),
    /// There is no such account, or it is not claimable.
    Unknown,
}
