//! The object-safe twin of [`Journal`], so that the layer is not generic over the journal.

use std::{future::Future, pin::Pin};

use super::{Journal, JournalEntry, JournalError};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, JournalError>> + Send + 'a>>;

pub(crate) trait ErasedJournal: Send + Sync + 'static {
    fn load(&self) -> Boxed<'_, Vec<JournalEntry>>;
    fn record<'a>(&'a self, entry: &'a JournalEntry) -> Boxed<'a, ()>;
}

impl<J: Journal> ErasedJournal for J {
    fn load(&self) -> Boxed<'_, Vec<JournalEntry>> {
        Box::pin(Journal::load(self))
    }

    fn record<'a>(&'a self, entry: &'a JournalEntry) -> Boxed<'a, ()> {
        Box::pin(Journal::record(self, entry))
    }
}
