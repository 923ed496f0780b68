//! `Spendings`: what counts against the limits of a budget, and for how long.
//!
//! A payment counts from the moment its money is set aside until a day after its transfer was settled, without a gap:
//! one that is approved late, or mined days after it was sent, counts in the day in which its money moves.

use std::{collections::HashMap, time::Duration};

use crate::{
    client::{
        Budget, BudgetDenial, JournalEntry, PurchaseId, PurchaseState,
        flow::{DAY, Spent},
        http::host,
    },
    protocol::{Amount, ChainTime},
};

/// After how long a payment is dropped from memory: long after it no longer counts, so that a clock that
/// goes wrong for a moment does not make the day forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30 * DAY.as_secs());

#[derive(Default)]
pub(super) struct Spendings(HashMap<PurchaseId, Spending>);

struct Spending {
    from: ChainTime,
    /// Its money may move at any time.
    is_under_way: bool,
    /// Without its port.
    host: String,
    amount: Amount,
    /// The most that its transactions cost.
    gas: Amount,
}

impl Spendings {
    /// Counts a purchase from now on, with any outcome.
    pub(super) fn set_aside(&mut self, entry: &JournalEntry) {
        let host = host::of_entry(&entry.host);
        let (from, gas) = (entry.counts_from(), entry.gas());
        let spending = Spending { from, is_under_way: true, host, amount: entry.amount, gas };
        self.0.insert(entry.id, spending);
    }

    /// Takes over the current state of a purchase; one that was paid elsewhere does not count.
    pub(super) fn follow(&mut self, entry: &JournalEntry) {
        if let Some(spending) = self.0.get_mut(&entry.id) {
            spending.is_under_way = entry.state == PurchaseState::Paying && !entry.is_sold();
            spending.from = entry.counts_from();
            spending.gas = spending.gas.max(entry.gas());
        }
    }

    /// Counts the highest cost of a purchase's transactions, one of which is about to be recorded, in one step with the
    /// check of the others.
    pub(super) fn set_gas_aside(
        &mut self,
        id: PurchaseId,
        gas: Amount,
        now: ChainTime,
        budget: &Budget,
    ) -> Result<(), BudgetDenial> {
        let own = self.0.get(&id).map_or(Amount::ZERO, |spending| spending.gas);
        let others = self.at(now, "", budget).gas.checked_sub(own).unwrap_or(Amount::ZERO);
        budget.affords_gas(gas, others)?;
        if let Some(spending) = self.0.get_mut(&id) {
            spending.gas = spending.gas.max(gas);
        }
        Ok(())
    }

    /// Stops counting a purchase without a sent transaction, which can no longer send one.
    pub(super) fn give_back(&mut self, id: PurchaseId) {
        self.0.remove(&id);
    }

    pub(super) fn forget(&mut self, now: ChainTime) {
        let past = before(now, FORGOTTEN_AFTER);
        self.0.retain(|_, spending| spending.is_under_way || spending.from > past);
    }

    pub(super) fn at(&self, now: ChainTime, host: &str, budget: &Budget) -> Spent {
        let host = host::of_entry(host);
        let (day_ago, host) = (before(now, DAY), budget.grouped(&host));
        let mut spent = Spent { by_host: Amount::ZERO, in_all: Amount::ZERO, gas: Amount::ZERO };
        for one in self.0.values().filter(|one| one.is_under_way || one.from > day_ago) {
            let add = |sum: Amount, one| sum.checked_add(one).unwrap_or(Amount::MAX);
            spent.in_all = add(spent.in_all, one.amount);
            spent.gas = add(spent.gas, one.gas);
            if budget.grouped(&one.host) == host {
                spent.by_host = add(spent.by_host, one.amount);
            }
        }
        spent
    }
}

/// That much earlier.
const fn before(moment: ChainTime, span: Duration) -> ChainTime {
    ChainTime::from_unix(moment.unix().saturating_sub(span.as_secs()))
}
