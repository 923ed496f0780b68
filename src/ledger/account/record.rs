//! `AccountRecord`: an account as a ledger stores it.

use std::{collections::VecDeque, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{id::AccountMemo, time::AccountTime};
use crate::protocol::Amount;

/// How many charges are remembered, so that each can be repeated.
pub(super) const REMEMBERED: usize = 128;
/// How many of those are kept once a reservation alone was granted: only the holder of one of the last charges may still repeat it.
pub(super) const REMEMBERED_ALONE: usize = 8;

/// An account as a ledger stores it: the state that [`decide_account`](crate::ledger::rules::decide_account) reads and writes. Its text is
/// JSON.
///
/// At any time the sum of what was spent and of everything that is held is at most the limit, unless a reflection has lowered that.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountRecord {
    pub(super) limit: Amount,
    pub(super) spent: Amount,
    /// By the clock, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) closed: bool,
    /// The greatest fence.
    pub(super) fence: u64,
    pub(super) drawn: u64,
    #[serde(with = "hex", default, skip_serializing_if = "is_empty")]
    pub(super) memo: AccountMemo,
    /// Those that ran out, too, until their amount is needed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) held: Vec<Held>,
    /// The fences of the last charges, the latest last.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    pub(super) charged: VecDeque<u64>,
    /// Of a claimable account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) claims: Option<Box<ClaimRecord>>,
}

/// What is known of the claims of an account. What was claimed never exceeds what was spent.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClaimRecord {
    pub(super) claimed: Amount,
    /// Since when something is unclaimed, by the clock, in microseconds.
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
    /// Reads the text of a record; `None` if it is none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(Self::is_sound)
    }

    /// Returns when it expires, in microseconds of the ledger's wall clock; `None` if never, and as long as something is owed. From
    /// then on it may be forgotten.
    #[must_use]
    pub fn expires(&self) -> Option<u64> {
        self.expires.filter(|_| !self.is_owed())
    }

    /// Returns whether [`owed`](super::AccountLedger::owed) lists it.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        self.claims.as_ref().is_some_and(|claims| claims.claimed < self.spent)
    }

    /// Returns whether it is claimable. It is so from its opening on, and stays so.
    #[must_use]
    pub const fn is_claimable(&self) -> bool {
        self.claims.is_some()
    }

    /// Returns whether [`claimable`](super::AccountLedger::claimable) lists it.
    #[must_use]
    pub const fn is_open_to_claims(&self) -> bool {
        self.claims.is_some() && !self.closed
    }

    /// Returns whether it expired longer ago than this, so that it may be forgotten.
    #[must_use]
    pub fn is_forgettable(&self, expired_for: Duration, now: AccountTime) -> bool {
        let after = u64::try_from(expired_for.as_micros()).unwrap_or(u64::MAX);
        self.expires().is_some_and(|end| end.saturating_add(after) < now.wall)
    }

    /// What was spent and is held does not exceed the limit.
    pub(super) fn is_covered(&self) -> bool {
        self.taken().is_some_and(|taken| taken <= self.limit)
    }

    /// Its numbers fit together.
    fn is_sound(&self) -> bool {
        match &self.claims {
            // Its limit may have been lowered.
            Some(claims) => claims.claimed <= self.spent && self.taken().is_some(),
            None => self.is_covered(),
        }
    }

    /// What was spent and is held, also by leases that ran out.
    fn taken(&self) -> Option<Amount> {
        self.held.iter().try_fold(self.spent, |sum, held| sum.checked_add(held.1))
    }

    /// Forgets all but the last charges.
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
