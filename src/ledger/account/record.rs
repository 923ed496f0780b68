//! `AccountRecord`: an account as a ledger stores it.

use std::{collections::VecDeque, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{id::AccountMemo, time::AccountTime};
use crate::protocol::Amount;

/// The number of charges that are remembered, so that each can be repeated.
pub(super) const REMEMBERED: usize = 128;
/// The number of them that is kept after a draw that expects a sum was granted: only the holders of the last charges
/// may still repeat theirs.
pub(super) const REMEMBERED_ALONE: usize = 8;

/// An account as a ledger stores it: the state that [`decide_account`](crate::ledger::rules::decide_account) reads and writes. Its text is
/// JSON.
///
/// The sum of spent and held amounts never exceeds the limit, unless a reflection has lowered the limit.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRecord {
    pub(super) limit: Amount,
    pub(super) spent: Amount,
    /// By the wall clock, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) closed: bool,
    /// The greatest fence so far.
    pub(super) fence: u64,
    pub(super) drawn: u64,
    #[serde(with = "hex", default, skip_serializing_if = "is_empty")]
    pub(super) memo: AccountMemo,
    /// Includes expired reservations, until their amount is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) held: Vec<Held>,
    /// The fences of the last charges, in order; the latest is last.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(super) charged: VecDeque<u64>,
    /// Only for a claimable account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claims: Option<Box<ClaimRecord>>,
}

/// The claims of an account. The claimed amount never exceeds the spent amount.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClaimRecord {
    pub(super) claimed: Amount,
    /// Since when there is a debt, by the wall clock, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<u64>,
    /// The block of the last reflection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) as_of: Option<u64>,
    #[serde(with = "hex", default, skip_serializing_if = "is_empty")]
    pub(super) note: AccountMemo,
}

/// A reservation: its fence, its amount, and its end in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held(pub(super) u64, pub(super) Amount, pub(super) u64);

impl AccountRecord {
    /// Parses the text of a record; `None` if it is not valid.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(Self::is_sound)
    }

    /// Returns when the account expires, in microseconds of the ledger's wall clock. It may be forgotten from then on.
    /// `None` if it never expires, and as long as there is a debt.
    #[must_use]
    pub fn expires(&self) -> Option<u64> {
        self.expires.filter(|_| !self.is_owed())
    }

    /// Returns whether [`owed`](super::AccountLedger::owed) lists the account.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        self.claims.as_ref().is_some_and(|claims| claims.claimed < self.spent)
    }

    /// Returns whether the account is claimable. This is set by its opening and never changes.
    #[must_use]
    pub const fn is_claimable(&self) -> bool {
        self.claims.is_some()
    }

    /// Returns whether [`claimable`](super::AccountLedger::claimable) lists the account.
    #[must_use]
    pub const fn is_open_to_claims(&self) -> bool {
        self.claims.is_some() && !self.closed
    }

    /// Returns whether the account expired longer ago than `expired_for`, so that it may be forgotten.
    #[must_use]
    pub fn is_forgettable(&self, expired_for: Duration, now: AccountTime) -> bool {
        let after = u64::try_from(expired_for.as_micros()).unwrap_or(u64::MAX);
        self.expires().is_some_and(|end| end.saturating_add(after) < now.wall)
    }

    /// Whether spent and held amounts fit into the limit.
    pub(super) fn is_covered(&self) -> bool {
        self.taken().is_some_and(|taken| taken <= self.limit)
    }

    /// Whether the numbers are consistent.
    fn is_sound(&self) -> bool {
        match &self.claims {
            // A reflection may have lowered the limit.
            Some(claims) => claims.claimed <= self.spent && self.taken().is_some(),
            None => self.is_covered(),
        }
    }

    /// The sum of spent and held amounts, including expired leases.
    fn taken(&self) -> Option<Amount> {
        self.held.iter().try_fold(self.spent, |sum, held| sum.checked_add(held.1))
    }

    /// Forgets all but the last `most` charges.
    pub(super) fn remember_the_last(&mut self, most: usize) {
        let more = self.charged.len().saturating_sub(most);
        self.charged.drain(..more);
    }

    /// Remembers a charge.
    pub(super) fn remember(&mut self, fence: u64) {
        self.charged.push_back(fence);
        self.remember_the_last(REMEMBERED);
    }
}

/// Formats the record as JSON.
impl fmt::Display for AccountRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// Shows the sums, not the memo.
impl fmt::Debug for AccountRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { limit, spent, held, .. } = self;
        f.debug_struct("AccountRecord")
            .field("limit", limit)
            .field("spent", spent)
            .field("held", held)
            .finish_non_exhaustive()
    }
}

fn is_empty(memo: &AccountMemo) -> bool {
    memo.as_bytes().is_empty()
}

mod hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    use super::AccountMemo;

    pub(super) fn serialize<S: Serializer>(memo: &AccountMemo, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&const_hex::encode(memo.as_bytes()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<AccountMemo, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        let bytes = const_hex::decode(&*text).map_err(D::Error::custom)?;
        AccountMemo::new(bytes).ok_or_else(|| D::Error::custom("the memo is too long"))
    }
}
