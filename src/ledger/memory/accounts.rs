//! The accounts of a memory ledger.

use std::time::Duration;

use foldhash::HashMap;

use crate::ledger::account::{AccountAnswer, AccountId, AccountQuestion, AccountRecord, AccountTime, decide_account};

/// All accounts.
#[derive(Debug, Default)]
pub(super) struct Accounts(HashMap<AccountId, AccountRecord>);

impl Accounts {
    pub(super) fn ask(&mut self, question: &AccountQuestion, now: AccountTime) -> AccountAnswer {
        if let Some(record) = self.0.get_mut(&question.account()) {
            return record.decide(question, now).0;
        }
        let verdict = decide_account(None, question, now);
        if let Some(record) = verdict.write {
            self.0.insert(question.account(), record);
        }
        verdict.answer
    }

    pub(super) fn forget(&mut self, expired_for: Duration, now: AccountTime) -> usize {
        let before = self.0.len();
        self.0.retain(|_, record| !record.is_forgettable(expired_for, now));
        before - self.0.len()
    }
}
