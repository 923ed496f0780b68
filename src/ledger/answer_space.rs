//! `ANSWER_SPACE`, and what a ledger says of an answer for which there is none.

/// How many bytes all kept answers may take unless said otherwise.
pub(super) const ANSWER_SPACE: usize = 64 * 1024 * 1024;

/// What an answer takes beside its content.
#[cfg(feature = "postgres")]
pub(super) const OVERHEAD: usize = 256;

#[cfg(any(feature = "postgres", feature = "redis", feature = "sqlite"))]
pub(super) fn is_short() {
    tracing::warn!("the ledger has no space for answers: an answer is sold and not kept");
}
