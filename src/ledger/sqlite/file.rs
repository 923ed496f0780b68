//! The file at a ledger's path: made once, never closed, and told from another that took its place.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use super::{super::LedgerError, mount};

/// Makes sure that the file is there, and that its path cannot be taken for anything else than a path. SQLite gives its
/// companions the same permissions.
///
/// Closing a file on a POSIX system drops all locks that the process has on it, SQLite's too, and another program
/// that then closes it takes the write-ahead log away. So an existing file is never opened here, and a new one never
/// closed.
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

/// What tells one file from another; asked for by name, since nothing may be opened.
type Identity = (u64, u64);

/// `None` for what cannot be sold from.
fn identity(path: &Path) -> Option<Identity> {
    let file = fs::metadata(path).ok()?;
    if fault(&file).is_some() {
        return None;
    }
    #[cfg(unix)]
    return Some((std::os::unix::fs::MetadataExt::dev(&file), std::os::unix::fs::MetadataExt::ino(&file)));
    // Where a file that is open can be neither removed nor replaced.
    #[cfg(not(unix))]
    return Some((0, 0));
}

/// Why this can be no ledger. SQLite names the write-ahead log after the file: a file of two names has two logs, each unknown to
/// the processes that use the other name.
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

/// Such as a device, a pipe or a folder.
const NOT_A_FILE: LedgerError =
    LedgerError::not_safe("the ledger's path is no regular file: name one, or a new one in a folder that exists");

/// A process that opens the file by its other name has a write-ahead log of its own, and would sell what the first has sold.
const HARD_LINKED: LedgerError = LedgerError::not_safe(
    "the ledger's file has a second name, a hard link, and could be sold from twice: remove the other name, and copy the file with SQLite's .backup instead",
);

/// The file was mounted into a container without its folder, where its write-ahead log lies. Two such containers would have a log each.
const MOUNTED_ALONE: LedgerError = LedgerError::not_safe(
    "the ledger's file is mounted alone, without the log beside it, and could be sold from twice: mount the folder that it lies in instead",
);

/// Where a ledger lies.
pub(super) struct Place {
    path: PathBuf,
    /// The file that was there at first.
    database: OnceLock<Identity>,
}

/// The write-ahead log and its index, as one connection found them.
#[derive(PartialEq, Eq)]
pub(super) struct Companions([Identity; 2]);

impl Place {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), database: OnceLock::new() }
    }

    /// Why no ledger can be opened here. A file that does not exist yet has no fault.
    pub(super) fn fault(&self) -> Option<LedgerError> {
        match mount::is_mounted_alone(&self.path) {
            true => Some(MOUNTED_ALONE),
            false => fs::metadata(&self.path).ok().as_ref().and_then(fault),
        }
    }

    /// Whether the file is still the one that was there at first, under one name. One that was moved away, removed, replaced or
    /// given a second name is not: other processes sell by another one, or by another log.
    pub(super) fn is_same(&self) -> bool {
        identity(&self.path).is_some_and(|now| *self.database.get_or_init(|| now) == now)
    }

    pub(super) fn companions(&self) -> Option<Companions> {
        // SQLite puts them beside the file itself, not beside a link to it.
        let path = fs::canonicalize(&self.path).ok()?;
        let beside = |end| {
            let mut name = path.clone().into_os_string();
            name.push(end);
            identity(Path::new(&name))
        };
        Some(Companions([beside("-wal")?, beside("-shm")?]))
    }
}
