//! The outcomes of questions about accounts.

use std::time::{Duration, SystemTime};

use super::{claim::DrawLease, id::AccountMemo};
use crate::protocol::Amount;

/// The state of an account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Account {
    /// The total that can be spent.
    pub limit: Amount,
    /// The amount that was spent.
    pub spent: Amount,
    /// The amount that live leases hold.
    pub held: Amount,
    /// When the account expires, by the ledger's clock; `None` if never.
    pub expires: Option<SystemTime>,
    /// Whether it was closed.
    pub closed: bool,
    /// The number of reservations that were granted.
    pub drawn: u64,
    /// The memo of its opener, or of the last charge that had one.
    pub memo: AccountMemo,
    /// The state of its claims, if the account is claimable.
    pub claims: Option<Box<Claims>>,
}

/// The state of the claims of a [claimable](super::Opening::claimable) account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claims {
    /// The amount that was claimed. It never exceeds the spent amount.
    pub claimed: Amount,
    /// Since when there is a debt, by the ledger's clock; `None` if everything is claimed. If calls were charged while
    /// the last claim was under way: since that claim was reflected.
    pub since: Option<SystemTime>,
    /// The note of the last reflection that had one.
    pub note: AccountMemo,
    /// The block of the last reflection that had one.
    pub as_of: Option<u64>,
}

impl Account {
    /// Returns the amount that can still be drawn: the limit minus spent and held amounts. Ignores whether the account
    /// is closed or expired.
    #[must_use]
    pub fn left(&self) -> Amount {
        let left = self.limit.checked_sub(self.spent).and_then(|left| left.checked_sub(self.held));
        left.unwrap_or(Amount::ZERO)
    }

    /// Returns the spent amount that is not claimed yet; zero if the account is not claimable.
    #[must_use]
    pub fn owed(&self) -> Amount {
        let owed = self.claims.as_ref().and_then(|claims| self.spent.checked_sub(claims.claimed));
        owed.unwrap_or(Amount::ZERO)
    }

    /// Returns by how much spent and held amounts exceed the limit. Only a reflection of a lower limit makes it more
    /// than zero; then nothing is granted.
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
    /// The account is open, newly or already.
    Open(Account),
    /// The account was closed before, and stays closed.
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
    /// The draw [expects](super::Draw::expecting) another spent sum. No reservation is under way.
    Mismatch {
        /// The sum that was spent.
        spent: Amount,
    },
    /// Too little is left, even if every reservation under way fails.
    UsedUp {
        /// The limit minus the spent amount.
        left: Amount,
    },
    /// Enough is left only if reservations under way fail; or too many are under way; or the draw
    /// [expects](super::Draw::expecting) a sum and another reservation is under way.
    Busy {
        /// The time until the first of these reservations runs out unless it is renewed. Most end sooner.
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
    /// The lease was released or charged, or its amount was given to another draw.
    LeaseLost,
}

/// The outcome of a charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ChargeOutcome {
    /// The amount is spent, durably, under this lease.
    Done {
        /// The amount that can still be drawn: the limit minus spent and held amounts, as of this answer.
        left: Amount,
    },
    /// The lease was lost, and nothing was spent.
    LeaseLost,
    /// The charge is more than the lease holds. Nothing was spent, and the lease is as it was.
    TooMuch,
}

/// A closed account.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct ClosedAccount {
    /// The prepaid amount that was not used: the limit minus spent and held amounts. A lease that is released later
    /// adds to it: close the account again to learn the final sum.
    pub left: Amount,
    /// The amount that live leases hold. It may still be charged.
    pub held: Amount,
}

/// The outcome of a reflection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum ReflectOutcome {
    /// The account after the reflection. A reflection of an earlier block than the last one has changed nothing.
    Done(Account),
    /// There is no such account, or it is not claimable.
    Unknown,
}
