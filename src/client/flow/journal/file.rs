//! `FileJournal`: a write-ahead log of purchases. `writer` queues what is to be written, `store` owns the file and its lock,
//! `log` appends all or nothing, `format` says what a line is, `disk` does the file system.

mod disk;
mod format;
mod log;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use std::{fmt, path::Path};

use tokio::{sync::oneshot, task::spawn_blocking};

use self::{
    store::Store,
    writer::{Job, Writer},
};
use super::{Journal, JournalEntry, JournalError};

/// A journal in a file that outlives the process: a write-ahead log, one record a line, of which the last one of a purchase
/// counts.
///
/// Each entry is on the disk (`fdatasync`) before [`record`](Journal::record) returns; entries recorded at the same
/// time share one wait for the disk. A line that a crash cut short was never acknowledged, and is dropped
/// when the file is opened. Anything else that cannot be read makes [`open`](FileJournal::open) fail. When the file has
/// grown well over what must be kept, it is compacted.
///
/// One process uses a journal at a time: it locks `<file>.lock`, which remains beside the file. Keep both on a local disk.
///
/// The file holds no key. It does hold signed transactions, which pay only whom they name, and, for each purchase,
/// intent and transaction hash: a bearer proof with which anyone gets the answer of a purchase that is still open. So
/// on Unix the file is created readable and writable by its owner only (mode 0600). A file that others can read is replaced
/// by such a copy of itself when it is opened. Elsewhere the folder's permissions have to protect it. Treat copies of the file in
/// the same way.
///
/// Clones share one journal. Use it inside a tokio runtime. A write that has begun is finished even if its caller no longer
/// waits.
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
    /// Opens the journal at `path`, or begins one; its folder must exist.
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
