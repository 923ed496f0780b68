//! `LedgerError`: the reason why a ledger did not answer. The crate's own ledgers put neither a database's message nor
//! a URL into it.

use std::{error::Error, fmt, sync::Arc};

type BoxError = Box<dyn Error + Send + Sync>;

/// The error of a ledger that failed. The outcome of the question is unknown.
///
/// Neither its text nor, for the ledgers of this crate, its source holds a URL, a statement or a driver's message:
/// these ledgers log the driver's code instead. If another ledger returns an error, the paywall logs its text and never
/// its source.
///
/// A ledger of your own reports an outage as [`unavailable`](Self::unavailable), which is retried, and every other failure as
/// [`other`](Self::other):
///
/// ```
/// use std::io;
/// use tower_x402::ledger::{LedgerError, LedgerErrorKind};
///
/// fn failed(error: io::Error) -> LedgerError {
///     match error.kind() {
///         io::ErrorKind::TimedOut => LedgerError::unavailable().because(error),
///         _ => LedgerError::other(error),
///     }
/// }
///
/// let error = failed(io::ErrorKind::InvalidData.into());
/// assert_eq!(error.kind(), LedgerErrorKind::Other);
/// assert!(!error.is_transient());
/// ```
#[derive(Clone)]
pub struct LedgerError {
    kind: LedgerErrorKind,
    says: &'static str,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kind of a ledger's failure, which tells the remedy. The error's text states it in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerErrorKind {
    /// The backend did not answer, or failed. Asking again may help.
    Unavailable,
    /// The backend's contents are not what this version reads and writes. Migrate them, or restore a backup.
    Incompatible,
    /// The backend could lose a sale, or two processes could sell from it without seeing each other: a Redis server
    /// that evicts, a file that is mounted without its folder or has a second name. Change the backend.
    Unsafe,
    /// The address or a setting is wrong, or the crate was built without the feature of this ledger. Change the program's settings.
    Setting,
    /// Another failure, of a ledger from outside this crate.
    Other,
}

impl LedgerError {
    /// Creates the error of a backend that did not answer, or failed.
    #[must_use]
    pub const fn unavailable() -> Self {
        Self::new(LedgerErrorKind::Unavailable, "the ledger cannot be reached: check its backend")
    }

    /// Creates the error of a backend with contents of another version.
    #[must_use]
    pub const fn incompatible() -> Self {
        Self::new(
            LedgerErrorKind::Incompatible,
            "the ledger's contents cannot be read by this version: migrate it, or restore a backup",
        )
    }

    /// Creates an error of any other kind from its cause.
    pub fn other(source: impl Into<BoxError>) -> Self {
        Self::new(LedgerErrorKind::Other, "the ledger failed: see the error's source").because(source)
    }

    /// The error of a backend that could sell twice.
    #[cfg(any(feature = "sqlite", feature = "redis", test))]
    pub(crate) const fn not_safe(says: &'static str) -> Self {
        Self::new(LedgerErrorKind::Unsafe, says)
    }

    /// The error of a setting.
    pub(crate) const fn setting(says: &'static str) -> Self {
        Self::new(LedgerErrorKind::Setting, says)
    }

    /// Attaches the cause, which [`source`](Error::source) returns.
    #[must_use]
    pub fn because(self, source: impl Into<BoxError>) -> Self {
        Self { source: Some(source.into().into()), ..self }
    }

    const fn new(kind: LedgerErrorKind, says: &'static str) -> Self {
        Self { kind, says, source: None }
    }

    /// Returns the kind of failure.
    #[must_use]
    pub const fn kind(&self) -> LedgerErrorKind {
        self.kind
    }

    /// Returns whether this is an outage, which may end without a change of settings.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self.kind, LedgerErrorKind::Unavailable)
    }
}

/// Errors are equal if they say the same and share their source, as the clones of an error do.
impl PartialEq for LedgerError {
    fn eq(&self, other: &Self) -> bool {
        let same_source = match (&self.source, &other.source) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        (self.kind, self.says) == (other.kind, other.says) && same_source
    }
}

impl Eq for LedgerError {}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.says)
    }
}

impl fmt::Debug for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerError").field("kind", &self.kind).field("source", &self.source).finish()
    }
}

impl Error for LedgerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&**self.source.as_ref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_outage_is_transient() {
        let lost = LedgerError::unavailable().because("connection reset");
        assert!(lost.is_transient() && LedgerError::unavailable().is_transient());
        let wrong = [
            LedgerError::incompatible(),
            LedgerError::other("no table"),
            LedgerError::not_safe("x"),
            LedgerError::setting("x"),
        ];
        assert!(wrong.iter().all(|error| !error.is_transient()));
    }

    #[test]
    fn a_source_is_carried_and_not_shown() {
        let error = LedgerError::other("postgres://seller:canary@host");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("postgres://seller:canary@host"));
        assert!(!error.to_string().contains("canary"));
        assert_eq!(error, error.clone());
        assert_ne!(error, LedgerError::other("postgres://seller:canary@host"));
        assert_ne!(LedgerError::setting("one"), LedgerError::setting("other"));
    }
}
