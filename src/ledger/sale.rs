//! `Sale` and `KeptAnswer`: a ledger's record of a consumed intent, and the kept answer.

use std::{fmt, time::Duration};

use bytes::Bytes;

/// An answer to keep with its sale, so that it can be delivered again.
///
/// A ledger stores the bytes as they are and returns them for the requested time, by its own clock. They are the
/// buyer's data.
#[derive(Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    content: Bytes,
    keep_for: Duration,
}

impl KeptAnswer {
    /// Returns an answer to keep for that long. Its content is opaque to the ledger.
    #[must_use]
    pub fn new(content: impl Into<Bytes>, keep_for: Duration) -> Self {
        Self { content: content.into(), keep_for }
    }

    /// Returns the bytes to store.
    #[must_use]
    pub const fn content(&self) -> &Bytes {
        &self.content
    }

    /// Returns how long the bytes are kept, from the commit on.
    #[must_use]
    pub const fn keep_for(&self) -> Duration {
        self.keep_for
    }
}

#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
impl KeptAnswer {
    /// Returns the answer, unless it is to be kept for no time.
    pub(super) fn to_keep(answer: Option<&Self>) -> Option<&Self> {
        answer.filter(|answer| !answer.keep_for.is_zero())
    }
}

/// Shows its length, not its content.
impl fmt::Debug for KeptAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeptAnswer({} bytes for {:?})", self.content.len(), self.keep_for)
    }
}

/// A sale, as the record of its intent.
#[derive(Clone, Default, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub struct Sale {
    /// The content of the [`KeptAnswer`] that was committed with the sale, while it is kept.
    pub answer: Option<Bytes>,
}

impl Sale {
    /// Returns a sale without a kept answer.
    pub const fn new() -> Self {
        Self { answer: None }
    }

    /// Sets the answer that is kept.
    pub fn with_answer(mut self, answer: Option<Bytes>) -> Self {
        self.answer = answer;
        self
    }
}

/// Shows whether there is an answer, not its content.
impl fmt::Debug for Sale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sale").field("answer", &self.answer.as_ref().map(Bytes::len)).finish()
    }
}
