//! Why a ledger could not be asked. Nothing that a database said, and no URL, gets into it.

/// A ledger that cannot answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// The backend did not answer, or failed. Nothing is known of the outcome.
    #[error("the ledger cannot be reached; check its backend")]
    Unavailable,
    /// The backend's contents are not what this version writes.
    #[error("the ledger's contents cannot be read by this version; migrate it, or restore a backup")]
    Incompatible,
}
