//! `FileJournal`: purchases in a file that outlives the process.

mod disk;
mod keeper;
mod lines;
mod log;
#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::{sync::oneshot, task::spawn_blocking};

use self::keeper::Keeper;
use super::{Entry, Journal, JournalError};

/// Purchases in a file: lines of JSON, added to, the last one of a purchase counts.
///
/// Each entry is on the disk (`fdatasync`) before [`record`](Journal::record) returns; entries recorded at the same
/// time share one wait for the disk. A line that a crash cut short was never acknowledged, and is dropped
/// when the file is opened. Anything else that cannot be read makes [`open`](FileJournal::open) fail: nothing is paid
/// on half a memory. When the file has grown well over what must be kept, it is written anew.
///
/// One process has a journal at a time: it locks `<file>.lock`, which stays there, beside the file. Keep both on a
/// local disk. On Unix only the owner can read them. The file holds signed transactions and what was
/// bought, and no key.
///
/// Clones are one journal. It is for use inside a tokio runtime; once begun, a write is finished even if
/// nobody waits for it any more.
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
    shared: Arc<Shared>,
}

struct Shared {
    /// In the order in which they were asked to be recorded, whatever thread gets to it first.
    waiting: Mutex<VecDeque<Waiting>>,
    keeper: Mutex<Keeper>,
}

struct Waiting {
    entry: Entry,
    done: oneshot::Sender<Result<(), JournalError>>,
}

impl FileJournal {
    /// Opens the journal at `path`, or begins one; its folder must exist.
    ///
    /// # Errors
    /// [`JournalError::Locked`] while somebody else has it, [`JournalError::Corrupt`] with the line that cannot be
    /// read, [`JournalError::Io`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, JournalError> {
        let path = path.as_ref().to_owned();
        let keeper = spawn_blocking(move || Keeper::open(&path)).await.map_err(|_| JournalError::Broken)??;
        Ok(Self { shared: Arc::new(Shared { waiting: Mutex::default(), keeper: Mutex::new(keeper) }) })
    }
}

impl Shared {
    /// Writes whatever waits by now. Nothing may wait for the disk while others only queue.
    fn write(&self) {
        let keeper = self.keeper.lock();
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let Ok(mut keeper) = keeper else { return };
        let (entries, done): (Vec<_>, Vec<_>) = waiting.into_iter().map(|one| (one.entry, one.done)).unzip();
        if entries.is_empty() {
            return;
        }
        let written = keeper.record(entries);
        for done in done {
            // Whoever asked may be gone: it is written all the same.
            let _ = done.send(written.as_ref().copied().map_err(alike));
        }
    }
}

/// The same error again: one write can fail for many.
fn alike(error: &JournalError) -> JournalError {
    match error {
        JournalError::Io(error) => {
            JournalError::Io(error.raw_os_error().map_or(error.kind().into(), std::io::Error::from_raw_os_error))
        }
        _ => JournalError::Broken,
    }
}

impl Journal for FileJournal {
    async fn load(&self) -> Result<Vec<Entry>, JournalError> {
        let shared = Arc::clone(&self.shared);
        let load = move || {
            shared.write();
            shared.keeper.lock().map_err(|_| JournalError::Broken)?.entries()
        };
        spawn_blocking(load).await.map_err(|_| JournalError::Broken)?
    }

    async fn record(&self, entry: &Entry) -> Result<(), JournalError> {
        let (done, written) = oneshot::channel();
        let waiting = Waiting { entry: entry.clone(), done };
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(waiting);
        let shared = Arc::clone(&self.shared);
        spawn_blocking(move || shared.write());
        written.await.unwrap_or(Err(JournalError::Broken))
    }
}

impl fmt::Debug for FileJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileJournal").finish_non_exhaustive()
    }
}
