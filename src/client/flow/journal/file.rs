//! `FileJournal`: a write-ahead log of purchases. `writer` queues writes, `store` owns the file and its lock, `log`
//! appends atomically, `format` defines a line, and `disk` handles the file system.

mod disk;
mod format;
mod log;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use std::{fmt, path::Path};

use tokio::{sync::oneshot, task::spawn_blocking};

pub(crate) use self::disk::{replace, sync_folder, write_beside};
use self::{
    store::Store,
    writer::{Job, Writer},
};
use super::{Journal, JournalEntry, JournalError};

/// A journal in a file: a write-ahead log, one record per line; the last record of a purchase counts.
///
/// Each entry is on the disk (`fdatasync`) before [`record`](Journal::record) returns; entries recorded at the same
/// time share one wait for the disk. A line that a crash cut short was never acknowledged, and is dropped
/// when the file is opened. Anything else that cannot be read makes [`open`](FileJournal::open) fail. When the file has
/// grown well over what must be kept, it is compacted.
///
/// One process uses a journal at a time: it locks `<file>.lock`, which remains beside the file. Keep both on a local disk.
///
/// The file contains no key. It contains signed transactions, which pay only their recipients, and intent and
/// transaction hash of each purchase, which together redeem an open purchase. On Unix, the file is therefore created
/// for its owner only (mode 0600); a file that others can read is replaced by such a copy when it is opened. On other
/// systems, the folder's permissions have to protect it. Protect copies of the file as well.
///
/// Clones share one journal. Use it inside a tokio runtime. A write that has begun is finished even if its caller no
/// longer waits.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use tower_x402::client::{FileJournal, Journal, JournalError};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("purchases.jsonl");
/// let journal = FileJournal::open(&path).await?;
/// assert!(journal.load().await?.is_empty());
/// assert!(matches!(FileJournal::open(&path).await, Err(JournalError::Locked)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FileJournal {
    writer: Writer,
}

impl FileJournal {
    /// Opens the journal at `path`, or creates one. Its folder must exist.
    ///
    /// # Errors
    /// [`JournalError::Locked`] while another process uses it, [`JournalError::Corrupt`] with the line that cannot be
    /// read, [`JournalError::NotAFile`] for a device, a pipe or a folder, [`JournalError::Io`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        let path = path.as_ref().to_owned();
        let store = spawn_blocking(move || Store::open(&path)).await.map_err(|_| JournalError::Broken)??;
        Ok(Self { writer: Writer::new(store) })
    }
}

impl Journal for FileJournal {
    async fn load(&self) -> Result<Vec<JournalEntry>, JournalError> {
        let (done, loaded) = oneshot::channel();
        self.writer.push(Job::Load(done));
        loaded.await.unwrap_or(Err(JournalError::Broken))
    }

    async fn record(&self, entry: &JournalEntry) -> Result<(), JournalError> {
        let (done, recorded) = oneshot::channel();
        self.writer.push(Job::Record(Box::new(entry.clone()), done));
        recorded.await.unwrap_or(Err(JournalError::Broken))
    }
}

impl fmt::Debug for FileJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileJournal").finish_non_exhaustive()
    }
}
