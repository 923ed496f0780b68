//! `Store`: the file of the write-ahead log, its lock, and its contents.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use super::{
    disk,
    format::{self, Entries},
    log::{Log, Storage},
};
use crate::{
    client::{JournalEntry, JournalError},
    clock::{Clock as _, SystemClock},
    protocol::ChainTime,
};

/// A file smaller than this, in bytes, is not compacted while in use.
const SMALL: u64 = 1024 * 1024;
/// The factor by which a file may exceed its live content.
const SLACK: u64 = 4;

pub(super) struct Store {
    path: PathBuf,
    log: Log<File>,
    entries: Entries,
    /// The length at which to check whether compaction is worth it.
    look_at: u64,
    _lock: File,
}

impl Store {
    pub(super) fn open(path: &Path) -> Result<Self, JournalError> {
        let path = disk::begin(path)?;
        let lock = disk::lock(&path)?;
        let mut file = disk::open(&path)?;
        let bytes = fs::read(&path)?;
        let format::Found { mut entries, lines, end } = format::read(&bytes)?;
        if end < bytes.len() {
            file.cut(end as u64)?;
        }
        // Entries that a crash left unsynced were not acknowledged, but count from now on.
        file.sync_all()?;
        format::prune(&mut entries, now());
        // Permissions are set only when a file is created, so a readable file is written anew.
        let is_to_be_written_anew = entries.len() < lines || !disk::is_private(&file)?;
        let mut store = Self { path, log: Log::new(file, end as u64), entries, look_at: SMALL, _lock: lock };
        if is_to_be_written_anew {
            store.compact()?;
        }
        Ok(store)
    }

    /// Returns every entry that must be kept.
    pub(super) fn entries(&self) -> Result<Vec<JournalEntry>, JournalError> {
        if self.log.is_broken() {
            return Err(JournalError::Broken);
        }
        let mut entries = self.entries.clone();
        format::prune(&mut entries, now());
        Ok(entries.into_values().collect())
    }

    /// Writes all entries, or none.
    pub(super) fn record(&mut self, entries: Vec<JournalEntry>) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        for entry in &entries {
            format::write(&mut bytes, entry)?;
        }
        self.log.append(&bytes)?;
        self.entries.extend(entries.into_iter().map(|entry| (entry.id, entry)));
        if self.log.length() > self.look_at {
            // The entries are recorded even if this fails.
            let _ = self.shrink();
        }
        Ok(())
    }

    fn shrink(&mut self) -> Result<(), JournalError> {
        format::prune(&mut self.entries, now());
        let live = self.image()?.len() as u64;
        self.look_at = SMALL.max(live.saturating_mul(SLACK));
        if self.log.length() > self.look_at {
            // If compaction fails, do not try again at every record.
            self.look_at = self.log.length().saturating_add(SMALL);
            self.compact()?;
            self.look_at = SMALL.max(live.saturating_mul(SLACK));
        }
        Ok(())
    }

    /// Replaces the file with one that has only the newest state of each entry.
    fn compact(&mut self) -> Result<(), JournalError> {
        let image = self.image()?;
        // If the disk is full, continue with the existing file.
        let Ok(file) = disk::write_beside(&self.path, &image) else { return Ok(()) };
        let replaced = disk::replace(&self.path).and_then(|()| disk::sync_folder(&self.path));
        if let Err(error) = replaced {
            // A crash could leave either file, so a later entry might be in the one that is lost.
            self.log.give_up();
            return Err(error.into());
        }
        self.log = Log::new(file, image.len() as u64);
        Ok(())
    }

    fn image(&self) -> Result<Vec<u8>, JournalError> {
        let mut image = Vec::new();
        for entry in self.entries.values() {
            format::write(&mut image, entry)?;
        }
        Ok(image)
    }
}

fn now() -> ChainTime {
    ChainTime::from_unix(SystemClock.unix())
}
