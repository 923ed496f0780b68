//! The questions about accounts, sent to the writer of an SQLite ledger.

use std::time::Duration;

use sqlx::Row as _;

use super::{
    super::{
        LedgerError,
        account::{
            Account, AccountAnswer, AccountId, AccountList, AccountQuestion, AccountRecord, AccountTime, account_ledger,
        },
        sql::{BOOK_TIME, failed, in_time},
    },
    codes::ask,
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

    async fn list_accounts(
        &self,
        list: AccountList,
        after: Option<AccountId>,
        most: usize,
    ) -> Result<Vec<(AccountId, Account)>, LedgerError> {
        self.is_current().await?;
        let say = match list {
            AccountList::Owed => &self.statements.owed,
            AccountList::Claimable => &self.statements.claimable,
        };
        let behind = after.map(|id| id.as_bytes().to_vec()).unwrap_or_default();
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let question = || sqlx::query(say.sql()).bind(behind.clone()).bind(most).fetch_all(&self.readers);
        let rows = in_time(self.time_limit.max(BOOK_TIME), ask(question)).await?;
        rows.iter().map(listed).collect()
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

/// Decodes a row: the clock, an id, and its record.
fn listed(row: &sqlx::sqlite::SqliteRow) -> Result<(AccountId, Account), LedgerError> {
    let read = || Ok((row.try_get::<i64, _>(0)?, row.try_get::<Vec<u8>, _>(1)?, row.try_get::<String, _>(2)?));
    let (now, id, record) = read().map_err(|error| failed(&error))?;
    let id = <[u8; 16]>::try_from(id).map_err(|_| LedgerError::incompatible())?;
    let record = AccountRecord::parse(&record).ok_or(LedgerError::incompatible())?;
    Ok((AccountId::new(id), record.at(AccountTime::at(u64::try_from(now).unwrap_or(0)))))
}

account_ledger!(SqliteLedger);
