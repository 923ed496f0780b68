//! `AccountLedger`: the trait, and the accounts of a ledger without any.

use std::{future::Future, sync::Arc, time::Duration};

use super::{
    claim::{Draw, DrawLease, Opening},
    id::{AccountId, AccountMemo},
    outcome::{Account, ChargeOutcome, ClosedAccount, DrawOutcome, DrawRenewal, OpenOutcome, ReflectOutcome},
    reflection::Reflection,
};
use crate::{ledger::error::LedgerError, protocol::Amount};

/// The accounts of a [`Ledger`](crate::ledger::Ledger): an optional capability, which [`Ledger::accounts`](crate::ledger::Ledger::accounts) returns.
/// Every ledger of this crate has it.
///
/// An account holds prepaid calls, or a prepaid amount of a token. A reservation takes a part of it under a lease; then
/// a *charge* spends up to that part, or a release gives it back.
///
/// Whatever the order, the number of processes, and the crashes, the sum of spent and reserved amounts never exceeds
/// the account's limit, unless a reflection has lowered that limit.
///
/// A [claimable](Opening::claimable) account is the seller's side of a payment channel: spent amounts are a debt, which
/// the seller claims elsewhere. [`owed`](Self::owed) lists the debts, and [`reflect`](Self::reflect) records the claims
/// and the amount that the account is still good for. Only a reflection lowers a limit, even below the spent amount:
/// then nothing more is granted.
///
/// An expired reservation does not block other draws. Until another draw needs its amount, its holder may still renew,
/// charge or release it. Afterwards the fencing token ensures that it can do none of these.
///
/// Every method is one transaction, or one compare-and-set of the whole account, so a single write decides it. For a
/// ledger of your own, [`rules::decide_account`](crate::ledger::rules::decide_account) has the rule as a pure function,
/// and `conformance::run_accounts` the checks.
///
/// An `Err` means that the backend failed and the outcome is unknown. Dropping a returned future must be harmless.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::{
///     ledger::{AccountId, AccountLedger, ChargeOutcome, Draw, DrawOutcome, MemoryLedger, Opening},
///     protocol::Amount,
/// };
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let (ledger, id, one) = (MemoryLedger::new(), AccountId::new([7; 16]), Amount::from_base_units(1));
/// let _ = ledger.open_account(&Opening::new(id, Amount::from_base_units(3))).await?;
/// let DrawOutcome::Granted(call) = ledger.draw(&Draw::new(id, one, Duration::from_secs(60))).await? else {
///     return Err("three calls are left".into());
/// };
/// let outcome = ledger.charge(&call, one, None).await?;
/// assert_eq!(outcome, ChargeOutcome::Done { left: Amount::from_base_units(2) });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An account is also a lease for a task that one of many replicas should do. No amount is needed:
///
/// ```
/// use std::time::Duration;
/// use tower_x402::{
///     ledger::{AccountId, AccountLedger, Draw, DrawOutcome, DrawRenewal, MemoryLedger, Opening},
///     protocol::Amount,
/// };
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let (ledger, id) = (MemoryLedger::new(), AccountId::new(*b"the claimer's id"));
/// let _ = ledger.open_account(&Opening::new(id, Amount::ZERO)).await?;
/// let turn = Draw::new(id, Amount::ZERO, Duration::from_secs(30)).expecting(Amount::ZERO);
/// let DrawOutcome::Granted(mine) = ledger.draw(&turn).await? else { return Err("it is free".into()) };
/// assert!(matches!(ledger.draw(&turn).await?, DrawOutcome::Busy { .. }));    // another replica
/// assert_eq!(ledger.renew_draw(&mine).await?, DrawRenewal::Held);            // every few seconds, while the task runs
/// ledger.release_draw(&mine).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait AccountLedger: Send + Sync + 'static {
    /// Opens an account, durably. Repeatable. An existing account keeps its spent amount. Its limit and its end become
    /// the larger of both values, and its memo is replaced only if nothing was drawn yet. A closed account stays
    /// closed. To change the limit of a claimable account, prefer a reflection.
    ///
    /// # Errors
    /// [`LedgerError`] if the backend does not answer, or its contents belong to another version.
    fn open_account(&self, opening: &Opening) -> impl Future<Output = Result<OpenOutcome, LedgerError>> + Send;

    /// Reserves an amount of an account. At most 64 reservations of one account are under way at the same time.
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn draw(&self, draw: &Draw) -> impl Future<Output = Result<DrawOutcome, LedgerError>> + Send;

    /// Extends a lease to its full length from now, if it is still held.
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn renew_draw(&self, lease: &DrawLease) -> impl Future<Output = Result<DrawRenewal, LedgerError>> + Send;

    /// Spends `amount`, durably, if the lease is still held, and gives back the rest. A `memo` replaces the account's
    /// memo in the same atomic step. A reservation that was granted in time can be charged even after its account
    /// expired or was closed.
    ///
    /// Repeatable: returns [`ChargeOutcome::Done`] also if this lease was charged before, unless 128 others were
    /// charged since. If one lease is charged several times, the first charge counts.
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn charge(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> impl Future<Output = Result<ChargeOutcome, LedgerError>> + Send;

    /// Takes back `amount` of what was spent under earlier leases, durably, if this lease is still held, and ends the
    /// lease without a charge: for a sale that was never delivered. A `memo` replaces the account's memo in the same
    /// atomic step. Hold a lease that [expects](Draw::expecting) the sum, so that no other reservation is under way.
    ///
    /// Claimed amounts cannot be taken back, nor more than was spent: the outcome is then [`ChargeOutcome::TooMuch`],
    /// and nothing changes. Repeatable, as [`charge`](Self::charge).
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn take_back(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> impl Future<Output = Result<ChargeOutcome, LedgerError>> + Send;

    /// Gives back the amount of a lease. Repeatable; does nothing unless the lease is still held and was not charged.
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn release_draw(&self, lease: &DrawLease) -> impl Future<Output = Result<(), LedgerError>> + Send;

    /// Closes an account, durably and for good, and returns what is left. Live leases may still be charged; expired
    /// ones may not. A claimable account expires when it is closed. Repeatable. Returns `None` if there is no such
    /// account.
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn close_account(&self, id: AccountId) -> impl Future<Output = Result<Option<ClosedAccount>, LedgerError>> + Send;

    /// Returns the state of an account; `None` if there is no such account.
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn account(&self, id: AccountId) -> impl Future<Output = Result<Option<Account>, LedgerError>> + Send;

    /// Records, durably, the state of a claimable account where it is claimed. Repeatable.
    ///
    /// - `claimed` only grows, unless it was read at a later [block](Reflection::as_of) than the last reflection: then
    ///   the chain has dropped a claim. If it exceeds the spent amount, this ledger lacks charges, for example after a
    ///   restored backup. The claimed amount then counts as spent, and all reservations are lost, because they were
    ///   granted against a lower sum.
    /// - `limit` is the new limit, higher or lower. Live reservations stay; expired ones lose the amount that is no
    ///   longer covered.
    /// - `note` replaces the note. The memo stays, since only charges replace it.
    ///
    /// A reflection of an earlier block than the last one changes nothing. One without a block, after one with a block,
    /// can only lower the limit: it does not raise it, records no claim, and leaves the note.
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn reflect(&self, reflection: &Reflection) -> impl Future<Output = Result<ReflectOutcome, LedgerError>> + Send;

    /// Lists claimable accounts with a debt, including closed ones: at most `most`, after the account `after`, in the
    /// order of their ids. Fewer than `most` are the last ones.
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn owed(
        &self,
        after: Option<AccountId>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<(AccountId, Account)>, LedgerError>> + Send;

    /// Lists claimable accounts that are not closed, with or without a debt, in the same way.
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn claimable(
        &self,
        after: Option<AccountId>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<(AccountId, Account)>, LedgerError>> + Send;

    /// Forgets accounts that expired longer ago than `expired_for`, and returns how many. An account that never expires
    /// is kept for good, and an account with a debt until the debt is claimed. Every step must be short; a call may
    /// leave accounts for a later one.
    ///
    /// # Errors
    /// As [`open_account`](Self::open_account).
    fn sweep_accounts(&self, expired_for: Duration) -> impl Future<Output = Result<u64, LedgerError>> + Send;
}

/// A shared handle.
impl<A: AccountLedger> AccountLedger for Arc<A> {
    fn open_account(&self, opening: &Opening) -> impl Future<Output = Result<OpenOutcome, LedgerError>> + Send {
        A::open_account(self, opening)
    }

    fn draw(&self, draw: &Draw) -> impl Future<Output = Result<DrawOutcome, LedgerError>> + Send {
        A::draw(self, draw)
    }

    fn renew_draw(&self, lease: &DrawLease) -> impl Future<Output = Result<DrawRenewal, LedgerError>> + Send {
        A::renew_draw(self, lease)
    }

    fn charge(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> impl Future<Output = Result<ChargeOutcome, LedgerError>> + Send {
        A::charge(self, lease, amount, memo)
    }

    fn take_back(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> impl Future<Output = Result<ChargeOutcome, LedgerError>> + Send {
        A::take_back(self, lease, amount, memo)
    }

    fn release_draw(&self, lease: &DrawLease) -> impl Future<Output = Result<(), LedgerError>> + Send {
        A::release_draw(self, lease)
    }

    fn close_account(&self, id: AccountId) -> impl Future<Output = Result<Option<ClosedAccount>, LedgerError>> + Send {
        A::close_account(self, id)
    }

    fn account(&self, id: AccountId) -> impl Future<Output = Result<Option<Account>, LedgerError>> + Send {
        A::account(self, id)
    }

    fn reflect(&self, reflection: &Reflection) -> impl Future<Output = Result<ReflectOutcome, LedgerError>> + Send {
        A::reflect(self, reflection)
    }

    fn owed(
        &self,
        after: Option<AccountId>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<(AccountId, Account)>, LedgerError>> + Send {
        A::owed(self, after, most)
    }

    fn claimable(
        &self,
        after: Option<AccountId>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<(AccountId, Account)>, LedgerError>> + Send {
        A::claimable(self, after, most)
    }

    fn sweep_accounts(&self, expired_for: Duration) -> impl Future<Output = Result<u64, LedgerError>> + Send {
        A::sweep_accounts(self, expired_for)
    }
}

/// The claimable accounts that a list contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccountList {
    /// [`owed`](AccountLedger::owed)
    Owed,
    /// [`claimable`](AccountLedger::claimable)
    Claimable,
}

/// The uninhabited account type of a ledger without accounts.
#[derive(Debug)]
pub(crate) enum NoAccounts {}

impl AccountLedger for NoAccounts {
    async fn open_account(&self, _: &Opening) -> Result<OpenOutcome, LedgerError> {
        match *self {}
    }

    async fn draw(&self, _: &Draw) -> Result<DrawOutcome, LedgerError> {
        match *self {}
    }

    async fn renew_draw(&self, _: &DrawLease) -> Result<DrawRenewal, LedgerError> {
        match *self {}
    }

    async fn charge(&self, _: &DrawLease, _: Amount, _: Option<&AccountMemo>) -> Result<ChargeOutcome, LedgerError> {
        match *self {}
    }

    async fn take_back(&self, _: &DrawLease, _: Amount, _: Option<&AccountMemo>) -> Result<ChargeOutcome, LedgerError> {
        match *self {}
    }

    async fn release_draw(&self, _: &DrawLease) -> Result<(), LedgerError> {
        match *self {}
    }

    async fn close_account(&self, _: AccountId) -> Result<Option<ClosedAccount>, LedgerError> {
        match *self {}
    }

    async fn account(&self, _: AccountId) -> Result<Option<Account>, LedgerError> {
        match *self {}
    }

    async fn reflect(&self, _: &Reflection) -> Result<ReflectOutcome, LedgerError> {
        match *self {}
    }

    async fn owed(&self, _: Option<AccountId>, _: usize) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        match *self {}
    }

    async fn claimable(&self, _: Option<AccountId>, _: usize) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        match *self {}
    }

    async fn sweep_accounts(&self, _: Duration) -> Result<u64, LedgerError> {
        match *self {}
    }
}
