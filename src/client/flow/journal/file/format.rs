//! The format of the log, one record per line, and its reader.

use std::collections::BTreeMap;

use crate::{
    client::{JournalEntry, JournalError, PurchaseId},
    protocol::ChainTime,
};

/// The newest state of each purchase.
pub(super) type Entries = BTreeMap<PurchaseId, JournalEntry>;

/// The contents of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) entries: Entries,
    /// The number of lines.
    pub(super) lines: usize,
    /// Where the last complete line ends. Anything after it was never acknowledged.
    pub(super) end: usize,
}

/// Adds the entry's line.
pub(super) fn write(to: &mut Vec<u8>, entry: &JournalEntry) -> Result<(), JournalError> {
    to.extend_from_slice(entry.to_record()?.as_bytes());
    to.push(b'\n');
    Ok(())
}

/// Reads the complete lines, each of which must be an entry.
pub(super) fn read(bytes: &[u8]) -> Result<Found, JournalError> {
    let mut found = Found::default();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        found.lines += 1;
        found.end += line.len() + 1;
        let corrupt = JournalError::Corrupt { line: found.lines };
        let entry = JournalEntry::from_record_bytes(line).map_err(|_| corrupt)?;
        found.entries.insert(entry.id, entry);
    }
    Ok(found)
}

/// Drops entries that need not be kept at the newest entry's time, or at `now` if that is earlier: one entry from a
/// wrong clock must not make the others look old.
pub(super) fn prune(entries: &mut Entries, now: ChainTime) {
    let newest = entries.values().map(JournalEntry::counts_from).max().unwrap_or(now);
    entries.retain(|_, entry| entry.is_kept_at(now.min(newest)));
}
