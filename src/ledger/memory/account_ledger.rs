//! `AccountLedger` for a memory ledger.

use std::time::Duration;

use super::MemoryLedger;
use crate::ledger::{
    LedgerError,
    account::{Account, AccountAnswer, AccountId, AccountList, AccountQuestion, AccountTime, account_ledger},
};

impl MemoryLedger {
    async fn ask_account(&self, question: AccountQuestion) -> Result<AccountAnswer, LedgerError> {
        let now = self.moment();
        Ok(self.state()?.accounts.ask(&question, now))
    }

    async fn list_accounts(
        &self,
        list: AccountList,
        after: Option<AccountId>,
        most: usize,
    ) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        let now = self.moment();
        Ok(self.state()?.accounts.list(list, after, most, now))
    }

    async fn forget_accounts(&self, expired_for: Duration) -> Result<u64, LedgerError> {
        let now = self.moment();
        Ok(u64::try_from(self.state()?.accounts.forget(expired_for, now)).unwrap_or(u64::MAX))
    }

    /// Reads the clock before the lock is taken, as [`now`](Self::now) does.
    fn moment(&self) -> AccountTime {
        let wall = self.shared.clock.unix().saturating_mul(1_000_000);
        AccountTime { wall, lease: u64::try_from(self.now().as_micros()).unwrap_or(u64::MAX) }
    }
}

account_ledger!(MemoryLedger);
