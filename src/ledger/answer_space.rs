//! `ANSWER_SPACE`, and the log entry when it is used up.

/// The default limit for all kept answers, in bytes.
pub(super) const ANSWER_SPACE: usize = 64 * 1024 * 1024;

/// The bytes that an answer takes in addition to its content.
#[cfg(feature = "postgres")]
pub(super) const OVERHEAD: usize = 256;

#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(super) fn is_short() {
    tracing::warn!("the ledger has no space for answers: an answer is sold and not kept");
}
