//! `Opening`, `Draw` and `DrawLease`: requests to an account, and the grant.

use std::time::Duration;

use super::id::{AccountId, AccountMemo};
use crate::protocol::Amount;

/// A request to open an account.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::{ledger::{AccountId, Opening}, protocol::Amount};
/// let opening = Opening::new(AccountId::new([7; 16]), Amount::from_base_units(100))
///     .lasting(Duration::from_secs(3600));
/// assert_eq!(opening.limit(), Amount::from_base_units(100));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    id: AccountId,
    limit: Amount,
    lasts: Option<Duration>,
    memo: AccountMemo,
    spent: Amount,
    claimable: bool,
}

impl Opening {
    /// Returns a request for an account that never expires. `limit` is its total: calls, or base units of a token.
    #[must_use]
    pub fn new(id: AccountId, limit: Amount) -> Self {
        Self { id, limit, lasts: None, memo: AccountMemo::default(), spent: Amount::ZERO, claimable: false }
    }

    /// Sets the account's lifetime, from now on by the ledger's own clock.
    #[must_use]
    pub fn lasting(self, lasts: Duration) -> Self {
        Self { lasts: Some(lasts), ..self }
    }

    /// Sets the memo.
    #[must_use]
    pub fn with_memo(self, memo: AccountMemo) -> Self {
        Self { memo, ..self }
    }

    /// Sets the amount that was spent before the ledger knew the account. It counts only if the account is new.
    #[must_use]
    pub fn with_spent(self, spent: Amount) -> Self {
        Self { spent, ..self }
    }

    /// Opens a claimable account, the seller's side of a payment channel: the seller claims its spent amounts
    /// elsewhere, and [`reflect`](super::AccountLedger::reflect) records the claims. An amount that was spent before
    /// counts as claimed. An existing account does not become claimable.
    #[must_use]
    pub fn claimable(self) -> Self {
        Self { claimable: true, ..self }
    }

    /// Returns the account's id.
    #[must_use]
    pub const fn id(&self) -> AccountId {
        self.id
    }

    /// Returns the total that can be spent.
    #[must_use]
    pub const fn limit(&self) -> Amount {
        self.limit
    }

    /// Returns the account's lifetime; `None` if it never expires.
    #[must_use]
    pub const fn lasts(&self) -> Option<Duration> {
        self.lasts
    }

    /// Returns the memo.
    #[must_use]
    pub const fn memo(&self) -> &AccountMemo {
        &self.memo
    }

    /// Returns the amount that was spent before the ledger knew the account.
    #[must_use]
    pub const fn spent(&self) -> Amount {
        self.spent
    }

    /// Returns whether the account is claimable.
    #[must_use]
    pub const fn is_claimable(&self) -> bool {
        self.claimable
    }
}

/// A request to reserve an amount of an account.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::{ledger::{AccountId, Draw}, protocol::Amount};
/// let one_call = Draw::new(AccountId::new([7; 16]), Amount::from_base_units(1), Duration::from_secs(60));
/// assert_eq!(one_call.expected(), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    account: AccountId,
    amount: Amount,
    lease: Duration,
    expected: Option<Amount>,
    is_for_upkeep: bool,
}

impl Draw {
    /// Returns the request for `amount`. A grant holds for the length of `lease` unless it is renewed.
    #[must_use]
    pub const fn new(account: AccountId, amount: Amount, lease: Duration) -> Self {
        Self { account, amount, lease, expected: None, is_for_upkeep: false }
    }

    /// Grants the draw only if exactly `spent` was spent so far, and no other reservation is under way. For the next
    /// step of a payment channel, whose voucher names the whole sum.
    #[must_use]
    pub const fn expecting(self, spent: Amount) -> Self {
        Self { expected: Some(spent), ..self }
    }

    /// Marks a draw that neither serves a payer nor gives money back: with it the seller claims earlier sales, or
    /// records a note. A ledger that may have lost its last records grants only such draws, and only of amount zero.
    #[must_use]
    pub const fn for_upkeep(self) -> Self {
        Self { is_for_upkeep: true, ..self }
    }

    /// Returns whether the draw is [for upkeep](Self::for_upkeep) alone.
    #[must_use]
    pub const fn is_for_upkeep(&self) -> bool {
        self.is_for_upkeep
    }

    /// Returns the account.
    #[must_use]
    pub const fn account(&self) -> AccountId {
        self.account
    }

    /// Returns the amount.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        self.amount
    }

    /// Returns the length of the lease.
    #[must_use]
    pub const fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns the [expected](Self::expecting) spent amount, if the draw states one.
    #[must_use]
    pub const fn expected(&self) -> Option<Amount> {
        self.expected
    }
}

/// An amount of an account, held for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a lease that is neither charged nor released blocks its amount until it runs out"]
pub struct DrawLease {
    account: AccountId,
    amount: Amount,
    fence: u64,
    length: Duration,
    number: u64,
    memo: AccountMemo,
    note: AccountMemo,
}

impl DrawLease {
    /// Returns the lease for a ledger that grants `draw`. No two grants of one account have the same `fence`, nor the
    /// same `number`; numbers count up from 1. `memo` is the account's memo.
    pub fn new(draw: &Draw, fence: u64, number: u64, memo: AccountMemo) -> Self {
        let Draw { account, amount, lease, .. } = *draw;
        Self { account, amount, fence, length: lease, number, memo, note: AccountMemo::default() }
    }

    /// Sets the note of a claimable account.
    pub fn with_note(self, note: AccountMemo) -> Self {
        Self { note, ..self }
    }

    /// Returns the account.
    #[must_use]
    pub const fn account(&self) -> AccountId {
        self.account
    }

    /// Returns the amount that is held.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        self.amount
    }

    /// Returns the number that distinguishes this holder from every other of the account, earlier or later.
    #[must_use]
    pub const fn fencing_token(&self) -> u64 {
        self.fence
    }

    /// Returns how long the lease lasts from its grant or its last renewal.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// Returns how many reservations of the account were granted up to this one, whatever their fate.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the account's memo, as of the grant.
    #[must_use]
    pub const fn memo(&self) -> &AccountMemo {
        &self.memo
    }
    /// Returns the note of the last reflection, as of the grant; empty if there is none.
    #[must_use]
    pub const fn note(&self) -> &AccountMemo {
        &self.note
    }
}
