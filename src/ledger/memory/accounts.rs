//! The accounts of a memory ledger.

use std::{
    collections::BTreeSet,
    ops::Bound::{Excluded, Unbounded},
    time::Duration,
};

use foldhash::HashMap;

use crate::ledger::account::{
    Account, AccountAnswer, AccountId, AccountList, AccountQuestion, AccountRecord, AccountTime, decide_account,
};

/// All accounts, and the lists of those that are claimable.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    all: HashMap<AccountId, AccountRecord>,
    owed: BTreeSet<AccountId>,
    claimable: BTreeSet<AccountId>,
}

impl Accounts {
    pub(super) fn ask(&mut self, question: &AccountQuestion, now: AccountTime) -> AccountAnswer {
        let id = question.account();
        if let Some(record) = self.all.get_mut(&id) {
            let answer = record.decide(question, now).0;
            if record.is_claimable() {
                let (is_owed, is_open) = (record.is_owed(), record.is_open_to_claims());
                self.enlist(id, is_owed, is_open);
            }
            return answer;
        }
        let verdict = decide_account(None, question, now);
        if let Some(record) = verdict.write {
            self.enlist(id, record.is_owed(), record.is_open_to_claims());
            self.all.insert(id, record);
        }
        verdict.answer
    }

    fn enlist(&mut self, id: AccountId, is_owed: bool, is_open: bool) {
        for (list, is_on) in [(&mut self.owed, is_owed), (&mut self.claimable, is_open)] {
            if is_on {
                list.insert(id)
            } else {
                list.remove(&id)
            };
        }
    }

    pub(super) fn list(
        &self,
        list: AccountList,
        after: Option<AccountId>,
        most: usize,
        now: AccountTime,
    ) -> Vec<(AccountId, Account)> {
        let list = match list {
            AccountList::Owed => &self.owed,
            AccountList::Claimable => &self.claimable,
        };
        let behind = list.range((after.map_or(Unbounded, Excluded), Unbounded)).take(most);
        behind.filter_map(|id| Some((*id, self.all.get(id)?.at(now)))).collect()
    }

    pub(super) fn forget(&mut self, expired_for: Duration, now: AccountTime) -> usize {
        let before = self.all.len();
        let Self { all, claimable, .. } = self;
        all.retain(|id, record| {
            let is_kept = !record.is_forgettable(expired_for, now);
            if !is_kept {
                claimable.remove(id);
            }
            is_kept
        });
        before - self.all.len()
    }
}
