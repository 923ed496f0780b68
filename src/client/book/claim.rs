//! `Claim`: a purchase while one call is at work on it.

use std::sync::Arc;

use super::Book;
use crate::client::{Entry, JournalError, State};

/// A purchase that this call alone is at work on. Dropped, it leaves the purchase to the next call of the same
/// request; one that was never recorded leaves nothing, for nothing can have been sent.
pub(in crate::client) struct Claim {
    book: Arc<Book>,
    entry: Entry,
    recorded: bool,
}

impl Claim {
    /// Of a purchase that is in no journal yet.
    pub(super) fn new(book: &Arc<Book>, entry: Entry) -> Self {
        Self { book: Arc::clone(book), entry, recorded: false }
    }

    /// Of one that was open.
    pub(super) fn resumed(book: &Arc<Book>, entry: Entry) -> Self {
        Self { book: Arc::clone(book), entry, recorded: true }
    }

    pub(in crate::client) const fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Changes the purchase, durably. Where this fails the change still holds in this process.
    pub(in crate::client) async fn record(&mut self, change: impl FnOnce(&mut Entry)) -> Result<(), JournalError> {
        let mut changed = self.entry.clone();
        change(&mut changed);
        if self.entry.state == State::Paying && changed.state != State::Paying {
            // Until now it counted whatever its age: from now on it counts for a day.
            changed.settled = Some(self.book.clock.unix());
        }
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
    pub(in crate::client) async fn note(&mut self, change: impl FnOnce(&mut Entry)) {
        if let Err(error) = self.record(change).await {
            tracing::warn!(%error, purchase = %self.entry.id, "the journal did not take down a purchase's progress");
        }
    }

    /// Forgets a purchase of which nothing was sent, and nothing can be.
    pub(in crate::client) fn discard(mut self) {
        self.recorded = false;
        self.book.pages().open.close(self.entry.id);
    }

    fn enter(&self, claimed: bool) {
        let mut pages = self.book.pages();
        pages.spent.follow(&self.entry);
        if self.entry.state.is_open() {
            pages.open.enter(self.entry.clone(), claimed);
        } else {
            pages.open.close(self.entry.id);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.recorded {
            self.enter(false);
        } else {
            self.book.pages().spent.give_back(self.entry.id);
        }
    }
}
