//! File system access: private files, the lock, and replacement of whole files.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, ErrorKind, Write},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use super::log::Storage;
use crate::client::JournalError;

impl Storage for File {
    /// Returns the length. A file that was deleted has none, because later writes to it are lost.
    fn length(&self) -> io::Result<u64> {
        let metadata = self.metadata()?;
        #[cfg(unix)]
        if std::os::unix::fs::MetadataExt::nlink(&metadata) == 0 {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(metadata.len())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// Creates the file if there is none, and returns its canonical path, so that two paths to it share one lock.
pub(super) fn begin(path: &Path) -> Result<PathBuf, JournalError> {
    begin_or_find(path)?;
    let path = fs::canonicalize(path)?;
    sync_folder(&path)?;
    Ok(path)
}

/// How often, and after which pause, a held lock is tried again.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Locks out other processes until the returned file is dropped. The lock has its own file, because a lock on the
/// journal would be lost when the journal is replaced.
///
/// A held lock is retried for a moment: a starting child process holds it until its program runs.
pub(super) fn lock(path: &Path) -> Result<File, JournalError> {
    let path = beside(path, ".lock");
    begin_or_find(&path)?;
    let file = private().open(&path)?;
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
    }
    Err(JournalError::Locked)
}

/// Creates a file for its owner only, or finds a regular one. It checks an existing file before opening it, because
/// opening a pipe blocks, and opening a device may have effects.
fn begin_or_find(path: &Path) -> Result<(), JournalError> {
    match private().create_new(true).open(path) {
        Ok(file) => Ok(file.sync_all()?),
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error.into()),
        Err(_) if fs::metadata(path)?.is_file() => Ok(()),
        Err(_) => Err(JournalError::NotAFile),
    }
}

/// Opens the file that [`begin`] created or found.
pub(super) fn open(path: &Path) -> io::Result<File> {
    private().open(path)
}

/// Returns whether only the owner may read and write the file. On systems without such permissions, the folder's
/// permissions count.
pub(super) fn is_private(file: &File) -> io::Result<bool> {
    #[cfg(unix)]
    return Ok(std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions()) & 0o077 == 0);
    #[cfg(not(unix))]
    return file.metadata().map(|_| true);
}

/// Writes a file that will replace `path`. Nothing changes until [`replace`].
pub(crate) fn write_beside(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let new = beside(path, ".new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        // The file was left by a crash, or there was none.
        _ => {}
    }
    let mut file = private().create_new(true).open(&new)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    Ok(file)
}

/// Replaces `path` with that file.
pub(crate) fn replace(path: &Path) -> io::Result<()> {
    fs::rename(beside(path, ".new"), path)
}

/// Makes a folder's listing survive a crash.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent() {
        // On other systems a folder cannot be opened like a file, and a rename is as durable as it can be.
        Some(folder) if cfg!(unix) => {
            File::open(folder)?.sync_all()?;
            #[cfg(test)]
            tests::FOLDERS_SYNCED.with(|synced| synced.set(synced.get() + 1));
            Ok(())
        }
        _ => Ok(()),
    }
}

pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// How many folders this thread has synced; a test cannot observe durability in another way.
        pub(super) static FOLDERS_SYNCED: Cell<usize> = const { Cell::new(0) };
    }

    /// A device without sync reports an error; `Ok` would mean that it was not called.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_disk_is_asked() {
        let mut nowhere = OpenOptions::new().append(true).open("/dev/null").unwrap();
        assert!(Storage::sync(&mut nowhere).is_err());
        assert!(sync_folder(Path::new("/dev/null/file")).is_err());
    }

    /// A new or replaced file can be lost in a crash until its folder is synced.
    #[test]
    #[cfg(unix)]
    fn a_folder_is_synced_whenever_it_lists_another_file() {
        use super::super::{store::Store, tests::paying};
        let synced = || FOLDERS_SYNCED.with(Cell::take);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("purchases.jsonl");
        let mut store = Store::open(&path).unwrap();
        assert_eq!(synced(), 1, "begun");
        store.record(vec![paying(1)]).unwrap();
        store.record(vec![paying(1)]).unwrap();
        assert_eq!(synced(), 0, "added to");
        drop(store);
        drop(Store::open(&path).unwrap());
        assert_eq!(synced(), 2, "opened, and written anew");
        drop(Store::open(&path).unwrap());
        assert_eq!(synced(), 1, "opened");
    }
}
