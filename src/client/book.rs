//! The purchases of this process: which are open, which call works on which, and what was spent in the last day.

mod claim;
mod open;
mod spent;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

pub(super) use self::claim::Claim;
use self::{open::Open, spent::Spendings};
use super::{Budget, Declined, Entry, JournalError, PurchaseId, State, budget::Spent, journal::ErasedJournal};
use crate::{
    clock::Clock,
    protocol::{Quote, TxHash},
};

/// How many purchases that are too old one call closes: each is a write to the journal.
const CLOSED_AT_ONCE: usize = 4;

pub(super) struct Book {
    journal: Box<dyn ErasedJournal>,
    clock: Arc<dyn Clock>,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    open: Open,
    spent: Spendings,
}

impl Book {
    pub(super) async fn open(journal: Box<dyn ErasedJournal>, clock: Arc<dyn Clock>) -> Result<Self, JournalError> {
        let mut pages = Pages::default();
        for entry in journal.load().await? {
            // A purchase without a transfer of ours was paid elsewhere. One whose transfer came to nothing counts all
            // the same: that it did is a node's word.
            if !entry.prepared.is_empty() {
                pages.spent.set_aside(&entry);
                pages.spent.follow(&entry);
            }
            if entry.state.is_open() {
                pages.open.enter(entry, false);
            }
        }
        Ok(Self { journal, clock, pages: Mutex::new(pages) })
    }

    /// A purchase of the same request that nobody is at work on: the oldest. What was left unspent is put to a fresh
    /// quote instead ([`left_over`](Self::left_over)), unless nothing new may be paid.
    pub(super) fn resume(self: &Arc<Self>, fingerprint: &str, unspent_too: bool) -> Option<Claim> {
        self.of_request(fingerprint, |entry| unspent_too || entry.state != State::Unspent)
    }

    /// The purchase of the same request that this transaction paid.
    pub(super) fn paid_with(self: &Arc<Self>, fingerprint: &str, transaction: TxHash) -> Option<Claim> {
        self.of_request(fingerprint, |entry| entry.transaction == Some(transaction))
    }

    /// A payment for the same request that bought nothing: one that covers this quote, else one that does not.
    pub(super) fn left_over(self: &Arc<Self>, fingerprint: &str, quote: &Quote) -> Option<Claim> {
        let left = |entry: &Entry| entry.state == State::Unspent;
        self.of_request(fingerprint, |entry| left(entry) && entry.covers(quote))
            .or_else(|| self.of_request(fingerprint, left))
    }

    /// A payment for another request to the same seller that bought nothing, and is what this quote asks for: a larger
    /// one would be wasted.
    pub(super) fn adoptable(self: &Arc<Self>, host: &str, quote: &Quote) -> Option<Claim> {
        self.claimed(|open| open.first_unspent(host, quote, |entry| entry.pays(quote)))
    }

    fn of_request(self: &Arc<Self>, fingerprint: &str, fits: impl Fn(&Entry) -> bool) -> Option<Claim> {
        self.claimed(|open| open.first_of_request(fingerprint, fits))
    }

    fn claimed(self: &Arc<Self>, find: impl FnOnce(&Open) -> Option<PurchaseId>) -> Option<Claim> {
        let mut pages = self.pages();
        let found = find(&pages.open)?;
        let entry = pages.open.claim(found)?;
        Some(Claim::resumed(self, entry))
    }

    /// Closes payments that bought nothing and that no seller accepts any more: those settled before `accepted_since`.
    pub(super) async fn close_unspent(self: &Arc<Self>, accepted_since: u64) {
        for _ in 0..CLOSED_AT_ONCE {
            let Some(mut old) = self.claimed(|open| open.unspent_before(accepted_since)) else { return };
            tracing::info!(purchase = %old.entry().id, "a payment that bought nothing is too old for any seller");
            old.note(|entry| entry.state = State::Refused).await;
        }
    }

    /// Whether the transfer of another purchase, which may yet move, was made for that intent: of two transfers with one
    /// tag it could not be told which purchase paid for which.
    pub(super) fn holds(&self, intent: &str, except: PurchaseId) -> bool {
        self.pages().open.is_paid_for(intent, except)
    }

    /// Sets the money of a new purchase aside, in one step with looking at what was spent.
    pub(super) fn reserve(self: &Arc<Self>, entry: Entry, budget: &Budget) -> Result<Claim, Declined> {
        let mut pages = self.pages();
        pages.spent.forget(entry.at);
        budget.afford(entry.amount, pages.spent.at(entry.at, &entry.host, budget))?;
        pages.spent.set_aside(&entry);
        Ok(Claim::new(self, entry))
    }

    /// A purchase that moves no money: it was paid elsewhere.
    pub(super) fn paid_elsewhere(self: &Arc<Self>, entry: Entry) -> Claim {
        Claim::new(self, entry)
    }

    /// What counts against the budget now.
    pub(super) fn spent(&self, host: &str, budget: &Budget) -> Spent {
        self.pages().spent.at(self.clock.unix(), host, budget)
    }

    /// The purchases that are open, oldest first.
    pub(super) fn unfinished(&self) -> Vec<Entry> {
        self.pages().open.entries()
    }

    /// Gives an open purchase up; `false` where there is none of that name, or a call is at work on it.
    pub(super) async fn abandon(self: &Arc<Self>, id: PurchaseId) -> Result<bool, JournalError> {
        let Some(mut claim) = self.claimed(|open| open.free(id)) else { return Ok(false) };
        claim.record(|entry| entry.state = State::Refused).await?;
        Ok(true)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Book")
    }
}
