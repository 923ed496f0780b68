//! The purchases of this process: which are open, which call works on which, and what was spent in the last day.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use super::{
    Budget, Declined, Entry, JournalError, PurchaseId, State,
    budget::{DAY, Spent},
    journal::ErasedJournal,
};
use crate::protocol::{Amount, Quote, TxHash};

/// After how long a payment is dropped from memory, in seconds.
const FORGOTTEN_AFTER: u64 = 30 * DAY;

pub(super) struct Book {
    journal: Box<dyn ErasedJournal>,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    open: HashMap<PurchaseId, Page>,
    spent: HashMap<PurchaseId, Spending>,
}

struct Page {
    entry: Entry,
    /// A call is at work on it.
    claimed: bool,
}

struct Spending {
    at: u64,
    host: String,
    amount: Amount,
}

impl Book {
    pub(super) async fn open(journal: Box<dyn ErasedJournal>) -> Result<Self, JournalError> {
        let mut pages = Pages::default();
        for entry in journal.load().await? {
            // A purchase without a transfer of ours was paid elsewhere.
            if entry.state != State::Void && !entry.prepared.is_empty() {
                pages.spent.insert(entry.id, Spending::of(&entry));
            }
            if entry.state.is_open() {
                pages.open.insert(entry.id, Page { entry, claimed: false });
            }
        }
        Ok(Self { journal, pages: Mutex::new(pages) })
    }

    /// A purchase of the same request that nobody is at work on: the oldest. What was left unspent is put to a fresh
    /// quote instead ([`unspent`](Self::unspent)), unless nothing new may be paid.
    pub(super) fn resume(self: &Arc<Self>, fingerprint: &str, unspent_too: bool) -> Option<Claim> {
        self.claim(|entry| entry.fingerprint == fingerprint && (unspent_too || entry.state != State::Unspent))
    }

    /// The purchase of the same request that this transaction paid.
    pub(super) fn paid_with(self: &Arc<Self>, fingerprint: &str, transaction: TxHash) -> Option<Claim> {
        self.claim(|entry| entry.fingerprint == fingerprint && entry.transaction == Some(transaction))
    }

    /// A payment to the same seller that bought nothing, and is what this quote asks for: a larger one would be wasted.
    pub(super) fn unspent(self: &Arc<Self>, host: &str, quote: &Quote) -> Option<Claim> {
        let is_exact = |entry: &Entry| entry.amount == quote.amount && entry.pays(quote);
        self.claim(|entry| entry.state == State::Unspent && entry.host == host && is_exact(entry))
    }

    fn claim(self: &Arc<Self>, fits: impl Fn(&Entry) -> bool) -> Option<Claim> {
        let mut pages = self.pages();
        let free = pages.open.values_mut().filter(|page| !page.claimed && fits(&page.entry));
        let page = free.min_by_key(|page| (page.entry.at, page.entry.id))?;
        page.claimed = true;
        let entry = page.entry.clone();
        Some(Claim { book: Arc::clone(self), entry, recorded: true })
    }

    /// Whether the transfer of another purchase, which may yet move, was made for that intent: of two transfers with one
    /// tag it could not be told which purchase paid for which.
    pub(super) fn holds(&self, intent: &str, except: PurchaseId) -> bool {
        let moves = |entry: &Entry| matches!(entry.state, State::Paying | State::Redeeming);
        let same = |entry: &Entry| entry.secret.as_deref() == Some(intent) && entry.id != except;
        self.pages().open.values().any(|page| moves(&page.entry) && same(&page.entry))
    }

    /// Sets the money of a new purchase aside, in one step with looking at what was spent.
    pub(super) fn reserve(self: &Arc<Self>, entry: Entry, budget: &Budget) -> Result<Claim, Declined> {
        let mut pages = self.pages();
        pages.forget_before(entry.at.saturating_sub(FORGOTTEN_AFTER));
        budget.afford(entry.amount, pages.spent_on(&entry.host, entry.at.saturating_sub(DAY)))?;
        pages.spent.insert(entry.id, Spending::of(&entry));
        Ok(Claim { book: Arc::clone(self), entry, recorded: false })
    }

    /// A purchase that moves no money: it was paid elsewhere.
    pub(super) fn paid_elsewhere(self: &Arc<Self>, entry: Entry) -> Claim {
        Claim { book: Arc::clone(self), entry, recorded: false }
    }

    /// The purchases that are open, oldest first.
    pub(super) fn unfinished(&self) -> Vec<Entry> {
        let mut open: Vec<Entry> = self.pages().open.values().map(|page| page.entry.clone()).collect();
        open.sort_by_key(|entry| (entry.at, entry.id));
        open
    }

    /// Gives an open purchase up; `false` where there is none of that name, or a call is at work on it.
    pub(super) async fn abandon(self: &Arc<Self>, id: PurchaseId) -> Result<bool, JournalError> {
        let Some(mut claim) = self.claim(|entry| entry.id == id) else { return Ok(false) };
        claim.record(|entry| entry.state = State::Refused).await?;
        Ok(true)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pages {
    /// Long before it no longer counts: a clock that goes wrong for a moment must not make the day forgotten.
    fn forget_before(&mut self, past: u64) {
        let Self { open, spent } = self;
        spent.retain(|id, spending| spending.at > past || open.contains_key(id));
    }

    /// Payments that are in no block yet count however old they are: their money may move at any time.
    fn spent_on(&self, host: &str, day_ago: u64) -> Spent {
        let is_unsettled = |id: &PurchaseId| self.open.get(id).is_some_and(|page| page.entry.state == State::Paying);
        let counts = |(id, spending): &(&PurchaseId, &Spending)| spending.at > day_ago || is_unsettled(id);
        let counted = || self.spent.iter().filter(counts).map(|(_, spending)| spending);
        let sum = |spendings: &mut dyn Iterator<Item = &Spending>| {
            spendings.fold(Amount::ZERO, |sum, one| sum.checked_add(one.amount).unwrap_or(Amount::MAX))
        };
        Spent { by_host: sum(&mut counted().filter(|spending| spending.host == host)), in_all: sum(&mut counted()) }
    }
}

impl Spending {
    fn of(entry: &Entry) -> Self {
        Self { at: entry.at, host: entry.host.clone(), amount: entry.amount }
    }
}

/// A purchase that this call alone is at work on. Dropped, it leaves the purchase to the next call of the same
/// request; one that was never recorded leaves nothing, for nothing can have been sent.
pub(super) struct Claim {
    book: Arc<Book>,
    entry: Entry,
    recorded: bool,
}

impl Claim {
    pub(super) const fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Changes the purchase, durably. Where this fails the change still holds in this process.
    pub(super) async fn record(&mut self, change: impl FnOnce(&mut Entry)) -> Result<(), JournalError> {
        let mut changed = self.entry.clone();
        change(&mut changed);
        self.recorded = true;
        if changed.state.is_open() {
            // In the book first: dropped while the journal writes, the purchase is open here as it may be there.
            self.entry = changed;
            self.enter(true);
            return self.book.journal.record(&self.entry).await;
        }
        // In the book last: dropped while the journal writes, nobody has the answer yet.
        let written = self.book.journal.record(&changed).await;
        self.entry = changed;
        self.enter(true);
        written
    }

    /// The same where the money has moved already: a journal that fails costs no answer.
    pub(super) async fn note(&mut self, change: impl FnOnce(&mut Entry)) {
        if let Err(error) = self.record(change).await {
            tracing::warn!(%error, purchase = %self.entry.id, "the journal did not take down a purchase's progress");
        }
    }

    /// Forgets a purchase of which nothing was sent, and nothing can be.
    pub(super) fn discard(mut self) {
        self.recorded = false;
        self.book.pages().open.remove(&self.entry.id);
    }

    fn enter(&self, claimed: bool) {
        let mut pages = self.book.pages();
        if self.entry.state == State::Void {
            pages.spent.remove(&self.entry.id);
        }
        if self.entry.state.is_open() {
            pages.open.insert(self.entry.id, Page { entry: self.entry.clone(), claimed });
        } else {
            pages.open.remove(&self.entry.id);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.recorded {
            self.enter(false);
        } else {
            self.book.pages().spent.remove(&self.entry.id);
        }
    }
}

impl fmt::Debug for Book {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Book")
    }
}
