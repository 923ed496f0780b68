//! The boxed twin of [`Journal`], so that the layer is not generic over it.

use std::{future::Future, pin::Pin};

use super::{Entry, Journal, JournalError};

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, JournalError>> + Send + 'a>>;

pub(in crate::client) trait ErasedJournal: Send + Sync + 'static {
    fn load(&self) -> Boxed<'_, Vec<Entry>>;
    fn record<'a>(&'a self, entry: &'a Entry) -> Boxed<'a, ()>;
}

impl<J: Journal> ErasedJournal for J {
    fn load(&self) -> Boxed<'_, Vec<Entry>> {
        Box::pin(Journal::load(self))
    }

    fn record<'a>(&'a self, entry: &'a Entry) -> Boxed<'a, ()> {
        Box::pin(Journal::record(self, entry))
    }
}
