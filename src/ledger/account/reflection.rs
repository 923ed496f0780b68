//! `Reflection`: the state of a claimable account where it is claimed.

use super::id::{AccountId, AccountMemo};
use crate::protocol::Amount;

/// The state of a claimable account where it is claimed; for a payment channel, on the chain. Values that are not set
/// stay as they are.
///
/// ```
/// use tower_x402::{ledger::{AccountId, Reflection}, protocol::Amount};
/// let units = Amount::from_base_units;
/// let read = Reflection::new(AccountId::new([7; 16])).limit(units(90_000)).claimed(units(10_000)).as_of(23_000_000);
/// assert_eq!(read.account(), AccountId::new([7; 16]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reflection {
    account: AccountId,
    pub(super) limit: Option<Amount>,
    pub(super) claimed: Option<Amount>,
    pub(super) note: Option<AccountMemo>,
    pub(super) as_of: Option<u64>,
}

impl Reflection {
    /// Returns a reflection without any values.
    #[must_use]
    pub const fn new(account: AccountId) -> Self {
        Self { account, limit: None, claimed: None, note: None, as_of: None }
    }

    /// Sets the limit: the total that the account is good for, claimed or not. It may be lower than before, even lower
    /// than the spent amount.
    #[must_use]
    pub fn limit(self, limit: Amount) -> Self {
        Self { limit: Some(limit), ..self }
    }

    /// Sets the total that was claimed so far.
    #[must_use]
    pub fn claimed(self, claimed: Amount) -> Self {
        Self { claimed: Some(claimed), ..self }
    }

    /// Sets the note, for example the time of a withdrawal request and the time of this reading.
    #[must_use]
    pub fn note(self, note: AccountMemo) -> Self {
        Self { note: Some(note), ..self }
    }

    /// Sets the number of the block at which the state was read. By it the ledger knows the later of two reflections.
    #[must_use]
    pub fn as_of(self, block: u64) -> Self {
        Self { as_of: Some(block), ..self }
    }

    /// Returns the account.
    #[must_use]
    pub const fn account(&self) -> AccountId {
        self.account
    }
}
