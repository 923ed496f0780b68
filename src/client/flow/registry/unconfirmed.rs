//! `UnconfirmedCharges`: finished purchases whose charge only the seller states. The budget counts their maximum.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    client::{JournalEntry, PurchaseId, PurchaseState},
    protocol::ChainTime,
};

/// How often the chain is asked about one charge. A charge that is never confirmed counts as the maximum for its day.
const QUESTIONS_MAX: u32 = 8;
/// How long after its end an unused permit is deep enough in the chain to be known as unused.
const DEEP: Duration = Duration::from_secs(60);
/// How many charges are checked before one purchase.
const AT_ONCE: usize = 4;
/// How many charges are kept. The oldest is dropped first.
const KEPT_MAX: usize = 1_000;

#[derive(Default)]
pub(super) struct UnconfirmedCharges(BTreeMap<(ChainTime, PurchaseId), Unconfirmed>);

struct Unconfirmed {
    entry: JournalEntry,
    questions: u32,
}

impl UnconfirmedCharges {
    /// Adds a purchase, if its charge is unconfirmed.
    pub(super) fn add(&mut self, entry: &JournalEntry) {
        let is_one = entry.state == PurchaseState::Answered && entry.charged.is_some_and(|charged| !charged.is_certain);
        if !is_one {
            return;
        }
        if self.0.len() >= KEPT_MAX {
            self.0.pop_first();
        }
        self.0.insert((entry.at, entry.id), Unconfirmed { entry: entry.clone(), questions: 0 });
    }

    /// Returns the next purchases to check: those checked least often. A permit without a transaction can be used until
    /// it ends, so the chain is not asked before.
    pub(super) fn next(&mut self, now: ChainTime) -> Vec<JournalEntry> {
        let is_due = |entry: &JournalEntry| {
            entry.transaction.is_some() || entry.valid_before().is_some_and(|end| end.after(DEEP) <= now)
        };
        let mut due: Vec<_> = self.0.values_mut().filter(|one| is_due(&one.entry)).collect();
        due.sort_by_key(|one| one.questions);
        due.truncate(AT_ONCE);
        let next = due.into_iter().map(|one| {
            one.questions += 1;
            one.entry.clone()
        });
        let next = next.collect();
        self.0.retain(|_, one| one.questions < QUESTIONS_MAX);
        next
    }

    pub(super) fn confirmed(&mut self, id: PurchaseId) {
        self.0.retain(|(_, other), _| *other != id);
    }
}
