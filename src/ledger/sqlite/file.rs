//! The file at a ledger's path: created once, never closed, and distinguished from a file that took its place.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use super::{super::LedgerError, mount};

/// Creates the file if it does not exist, and returns a path that SQLite cannot take for anything else. SQLite gives
/// its companion files the same permissions.
///
/// On a POSIX system, closing a file drops all locks of the process on it, including SQLite's. If another program
/// closes it then, that program deletes the write-ahead log. So an existing file is never opened here, and a new one
/// never closed.
pub(super) fn create(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    let mut file = fs::OpenOptions::new();
    file.create_new(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut file, 0o600);
    match file.open(&path) {
        Ok(file) => std::mem::forget(file),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(path)
}

/// Identifies a file. It is queried by name, since no file may be opened.
type Identity = (u64, u64);

/// Returns `None` for a file that cannot hold a ledger.
fn identity(path: &Path) -> Option<Identity> {
    let file = fs::metadata(path).ok()?;
    if fault(&file).is_some() {
        return None;
    }
    #[cfg(unix)]
    return Some((std::os::unix::fs::MetadataExt::dev(&file), std::os::unix::fs::MetadataExt::ino(&file)));
    // On these systems an open file can be neither removed nor replaced.
    #[cfg(not(unix))]
    return Some((0, 0));
}

/// Why the file cannot hold a ledger. SQLite names the write-ahead log after the file: a file with two names has two
/// logs, and processes that use one name do not see the other's.
fn fault(file: &fs::Metadata) -> Option<LedgerError> {
    if !file.is_file() {
        return Some(NOT_A_FILE);
    }
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::nlink(file) > 1 {
        return Some(HARD_LINKED);
    }
    None
}

/// For example a device, a pipe or a folder.
const NOT_A_FILE: LedgerError =
    LedgerError::not_safe("the ledger's path is no regular file: name one, or a new one in a folder that exists");

/// A process that opens the file by its other name has a write-ahead log of its own, and would sell payments again that
/// the first process has sold.
const HARD_LINKED: LedgerError = LedgerError::not_safe(
    "the ledger's file has a second name, a hard link, and could be sold from twice: remove the other name, and copy the file with SQLite's .backup instead",
);

/// The file was mounted into a container without its folder, which has the write-ahead log. Two such containers would
/// have a log each.
const MOUNTED_ALONE: LedgerError = LedgerError::not_safe(
    "the ledger's file is mounted alone, without the log beside it, and could be sold from twice: mount the folder that it lies in instead",
);

/// The location of a ledger.
pub(super) struct Place {
    path: PathBuf,
    /// The file that was found first.
    database: OnceLock<Identity>,
}

/// The write-ahead log and its index, as a connection found them.
#[derive(PartialEq, Eq)]
pub(super) struct Companions([Identity; 2]);

impl Place {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), database: OnceLock::new() }
    }

    /// Why no ledger can be opened here. A missing file has no fault.
    pub(super) fn fault(&self) -> Option<LedgerError> {
        match mount::is_mounted_alone(&self.path) {
            true => Some(MOUNTED_ALONE),
            false => fs::metadata(&self.path).ok().as_ref().and_then(fault),
        }
    }

    /// Whether the path still has the first file, under one name. If the file was moved, removed, replaced or given a
    /// second name, other processes sell by another file or another log.
    pub(super) fn is_same(&self) -> bool {
        identity(&self.path).is_some_and(|now| *self.database.get_or_init(|| now) == now)
    }

    pub(super) fn companions(&self) -> Option<Companions> {
        // SQLite puts the companions beside the file itself, not beside a link to it.
        let path = fs::canonicalize(&self.path).ok()?;
        let beside = |end| {
            let mut name = path.clone().into_os_string();
            name.push(end);
            identity(Path::new(&name))
        };
        Some(Companions([beside("-wal")?, beside("-shm")?]))
    }
}
