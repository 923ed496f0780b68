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
    /// The ledger's file was mounted into a container without its folder. The log that belongs to it lies beside it, so
    /// that each container would have one of its own, and sell what another sold.
    #[error(
        "the ledger's file is mounted alone, without the log beside it, and could be sold from twice; mount the folder that it lies in instead"
    )]
    MountedAlone,
}
