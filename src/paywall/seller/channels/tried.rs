//! `Tried`: the channels whose last claim did not succeed, and how much of each was counted as claimed.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, PoisonError},
    time::SystemTime,
};

use crate::ledger::AccountId;

/// The outcomes of the claims that this process tried.
#[derive(Default)]
pub(crate) struct Tried(Mutex<Outcomes>);

#[derive(Default)]
struct Outcomes {
    /// The accounts whose last claim did not succeed.
    failed: HashSet<AccountId>,
    /// The total up to which each account is counted as claimed.
    counted: HashMap<AccountId, u128>,
    last: HashMap<AccountId, LastClaim>,
}

/// The last claim of a channel that was tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LastClaim {
    /// The total up to which it claims.
    pub(crate) total: u128,
    /// When a transaction was last sent for it, if one was. Each costs its gas.
    pub(crate) sent: Option<SystemTime>,
    /// The total up to which it is claimed, by the settler's word. The ledger may not know of that, if too few nodes answer.
    pub(crate) claimed: u128,
}

impl Tried {
    /// Notes which accounts are about to be claimed up to these totals. A claim that hangs ends with its turn, and reports nothing.
    pub(crate) fn begin(&self, totals: impl Iterator<Item = (AccountId, u128)>) {
        self.with(|tried| {
            for (account, total) in totals {
                tried.failed.insert(account);
                tried.last.entry(account).or_default().total = total;
            }
        });
    }

    /// Notes that these accounts are about to be claimed. What was reported of earlier claims no longer counts.
    pub(crate) fn claims(&self, accounts: impl Iterator<Item = AccountId>) {
        self.with(|tried| accounts.for_each(|account| tried.last.entry(account).or_default().claimed = 0));
    }

    /// Notes that a transaction was sent for a claim up to this total, or was not needed. If it is known to be made, the total is claimed.
    pub(crate) fn sent(&self, account: AccountId, total: u128, at: SystemTime, is_claimed: bool) {
        self.with(|tried| {
            let last = tried.last.entry(account).or_default();
            last.sent = Some(at);
            last.claimed = if is_claimed { total } else { 0 };
        });
    }

    pub(crate) fn last(&self, account: AccountId) -> LastClaim {
        self.with(|tried| tried.last.get(&account).copied().unwrap_or_default())
    }

    /// Notes that the account is claimed.
    pub(crate) fn end(&self, account: AccountId) {
        self.with(|tried| tried.failed.remove(&account));
    }

    pub(crate) fn contains(&self, account: AccountId) -> bool {
        self.with(|tried| tried.failed.contains(&account))
    }

    /// Forgets the accounts that owe nothing any more.
    pub(crate) fn keep(&self, owing: &HashSet<AccountId>) {
        self.with(|tried| {
            tried.failed.retain(|account| owing.contains(account));
            tried.counted.retain(|account, _| owing.contains(account));
            tried.last.retain(|account, _| owing.contains(account));
        });
    }

    /// Counts a claim from one total to another. Returns how much of it was not counted before.
    pub(crate) fn counts(&self, account: AccountId, (from, to): (u128, u128)) -> u128 {
        self.with(|tried| {
            let counted = tried.counted.entry(account).or_insert(from);
            let before = from.max(*counted);
            *counted = to.max(*counted);
            to.saturating_sub(before)
        })
    }

    fn with<T>(&self, change: impl FnOnce(&mut Outcomes) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
