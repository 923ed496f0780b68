//! `JournalError`: why a journal cannot be used.

use crate::client::box_error::BoxError;

/// The error of a [`Journal`](crate::client::Journal): it cannot be opened, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process uses the journal.
    #[error("another process uses this journal: wait for it, or use another journal")]
    Locked,
    /// A line of the file is not an entry.
    #[error("line {line} of the journal cannot be read: before moving the file away, look at what it says was paid")]
    Corrupt {
        /// The line, from 1.
        line: usize,
    },
    /// A record is damaged, or was written by a later version of this crate.
    #[error(
        "a journal record cannot be read: it is damaged, or a later version wrote it; look at it before paying again"
    )]
    Record,
    /// The purchase was finished meanwhile. Its last state is final.
    #[error("the purchase was finished meanwhile: nothing more is recorded of it")]
    Finished,
    /// An earlier write failed half-way and could not be undone.
    #[error("an earlier write to the journal failed, or another program changed the file: open the journal again")]
    Broken,
    /// The journal's path, or that of its lock file, names something other than a regular file, such as a device or a
    /// folder.
    #[error("the journal's path, or its lock's, is no regular file: name one, or a new one in a folder that exists")]
    NotAFile,
    /// The file system refused.
    #[error("the file system refused access to the journal: check its folder, space and permissions")]
    Io(#[from] std::io::Error),
    /// Any other error, for journals of your own.
    #[error("the journal failed: see the source of this error")]
    Other(#[source] BoxError),
}
