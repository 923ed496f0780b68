//! `MemoryLedger`: one process, one lock; a restart refuses what was paid before it.

/// A ledger in memory.
#[derive(Debug, Default)]
pub struct MemoryLedger(());
