//! What a line of the file is, and what a file of them says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::client::{JournalEntry, JournalError, PurchaseId};

/// How lines are written now. A file with any other number is not touched.
const VERSION: u32 = 1;

/// The newest state of each purchase.
pub(super) type Entries = BTreeMap<PurchaseId, JournalEntry>;

#[derive(Serialize)]
struct Written<'a> {
    version: u32,
    entry: &'a JournalEntry,
}

#[derive(Deserialize)]
struct Read {
    version: u32,
    entry: JournalEntry,
}

/// What was found in a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) entries: Entries,
    /// How many lines it took.
    pub(super) lines: usize,
    /// Where the last whole line ends. What stands behind it was never acknowledged.
    pub(super) end: usize,
}

/// Adds the entry's line.
pub(super) fn write(to: &mut Vec<u8>, entry: &JournalEntry) -> Result<(), JournalError> {
    serde_json::to_writer(&mut *to, &Written { version: VERSION, entry }).map_err(std::io::Error::from)?;
    to.push(b'\n');
    Ok(())
}

/// Reads whole lines, each of which must be an entry.
pub(super) fn read(bytes: &[u8]) -> Result<Found, JournalError> {
    let mut found = Found::default();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        found.lines += 1;
        found.end += line.len() + 1;
        match serde_json::from_slice(line) {
            Ok(Read { version: VERSION, entry }) => found.entries.insert(entry.id, entry),
            _ => return Err(JournalError::Corrupt { line: found.lines }),
        };
    }
    Ok(found)
}

/// Drops what need not be kept, by the time of the newest entry, or by `now` (in Unix seconds) if that is earlier: one
/// entry from a clock gone wrong must not make the others look old.
pub(super) fn prune(entries: &mut Entries, now: u64) {
    let newest = entries.values().map(JournalEntry::counts_from).max().unwrap_or_default();
    entries.retain(|_, entry| entry.is_kept_at(now.min(newest)));
}
