//! The accounts of an `AnyLedger`.

use std::time::Duration;

use super::ledger::{AnyLedger, Kind, of_each};
use crate::{
    ledger::{
        Account, AccountId, AccountLedger, AccountMemo, ChargeOutcome, ClosedAccount, Draw, DrawLease, DrawOutcome,
        DrawRenewal, LedgerError, OpenOutcome, Opening, ReflectOutcome, Reflection,
    },
    protocol::Amount,
};

impl AccountLedger for AnyLedger {
    async fn open_account(&self, opening: &Opening) -> Result<OpenOutcome, LedgerError> {
        of_each!(self, ledger => ledger.open_account(opening).await)
    }

    async fn draw(&self, draw: &Draw) -> Result<DrawOutcome, LedgerError> {
        of_each!(self, ledger => ledger.draw(draw).await)
    }

    async fn renew_draw(&self, lease: &DrawLease) -> Result<DrawRenewal, LedgerError> {
        of_each!(self, ledger => ledger.renew_draw(lease).await)
    }

    async fn charge(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        of_each!(self, ledger => ledger.charge(lease, amount, memo).await)
    }

    async fn take_back(
        &self,
        lease: &DrawLease,
        amount: Amount,
        memo: Option<&AccountMemo>,
    ) -> Result<ChargeOutcome, LedgerError> {
        of_each!(self, ledger => ledger.take_back(lease, amount, memo).await)
    }

    async fn release_draw(&self, lease: &DrawLease) -> Result<(), LedgerError> {
        of_each!(self, ledger => ledger.release_draw(lease).await)
    }

    async fn close_account(&self, id: AccountId) -> Result<Option<ClosedAccount>, LedgerError> {
        of_each!(self, ledger => ledger.close_account(id).await)
    }

    async fn account(&self, id: AccountId) -> Result<Option<Account>, LedgerError> {
        of_each!(self, ledger => ledger.account(id).await)
    }

    async fn reflect(&self, reflection: &Reflection) -> Result<ReflectOutcome, LedgerError> {
        of_each!(self, ledger => ledger.reflect(reflection).await)
    }

    async fn owed(&self, after: Option<AccountId>, most: usize) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        of_each!(self, ledger => ledger.owed(after, most).await)
    }

    async fn claimable(&self, after: Option<AccountId>, most: usize) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        of_each!(self, ledger => ledger.claimable(after, most).await)
    }

    async fn sweep_accounts(&self, expired_for: Duration) -> Result<u64, LedgerError> {
        of_each!(self, ledger => ledger.sweep_accounts(expired_for).await)
    }
}
