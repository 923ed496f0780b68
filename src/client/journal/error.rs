//! `JournalError`: why a journal cannot be relied on.

/// Why a journal cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process has it.
    #[error("another process uses this journal: wait for it, or name another journal")]
    Locked,
    /// Something in it is no entry.
    #[error(
        "line {line} of the journal cannot be read: move the file away only after looking at what it says was paid"
    )]
    Corrupt {
        /// The line, from 1.
        line: usize,
    },
    /// A record is damaged, or was written by a later version of this crate.
    #[error(
        "a journal record cannot be read: it is damaged, or a later version wrote it; look at it before paying again"
    )]
    Record,
    /// An earlier write failed half-way and could not be undone.
    #[error("an earlier write to the journal failed: open it again")]
    Broken,
    /// The file system refused.
    #[error("the journal's file cannot be used")]
    Io(#[from] std::io::Error),
    /// Anything else, for journals of your own.
    #[error("the journal failed")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}
