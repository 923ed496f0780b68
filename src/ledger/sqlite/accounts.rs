//! The accounts of an SQLite ledger, put to the writer.

use std::time::Duration;

use super::{
    super::{
        LedgerError,
        account::{AccountAnswer, AccountQuestion, account_ledger},
    },
    handle::SqliteLedger,
    question::{Answer, Question},
};

impl SqliteLedger {
    async fn ask_account(&self, question: AccountQuestion) -> Result<AccountAnswer, LedgerError> {
        match self.ask(Question::Account(question)).await? {
            Answer::Account(answer) => Ok(answer),
            _ => Err(LedgerError::unavailable()),
        }
    }

    async fn forget_accounts(&self, expired_for: Duration) -> Result<u64, LedgerError> {
        let mut forgotten = 0;
        loop {
            let Answer::Forgotten { accounts, more } = self.ask(Question::ForgetAccounts(expired_for)).await? else {
                return Err(LedgerError::unavailable());
            };
            forgotten += accounts;
            if !more {
                return Ok(forgotten);
            }
        }
    }
}

account_ledger!(SqliteLedger);
