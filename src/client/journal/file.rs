//! `FileJournal`: purchases in a file that outlives the process.

/// In a file.
#[derive(Debug)]
pub struct FileJournal {}
