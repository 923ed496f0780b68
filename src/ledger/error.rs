//! `LedgerError`: the reason why a ledger did not answer. The crate's own ledgers put nothing into it that a database said, and
//! no URL.

use std::{error::Error, fmt, sync::Arc};

type BoxError = Box<dyn Error + Send + Sync>;

/// The error of a ledger that failed. The outcome of the question is unknown.
///
/// Neither its text nor, for the ledgers of this crate, its source holds a URL, a statement or a driver's message: these
/// ledgers log the driver's code instead. Of an error that another ledger returns, the paywall logs the text and never the
/// source.
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
    source: Option<Arc<dyn Error + Send + Sync>>,
}

/// The kind of failure of a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LedgerErrorKind {
    /// The backend did not answer, or failed.
    Unavailable,
    /// The backend's contents are not what this version reads and writes.
    Incompatible,
    /// The ledger's file was mounted into a container without its folder, where its write-ahead log lies. Two such containers
    /// would have a log each, and one would sell what the other has sold.
    MountedAlone,
    /// The ledger's path names something other than a regular file, such as a device, a pipe or a folder.
    NotAFile,
    /// The ledger's file has a second name, a hard link. A process that opens it by the other name has a write-ahead log of its
    /// own, and would sell what the first has sold.
    HardLinked,
    /// Another failure, of a ledger from outside this crate.
    Other,
}

impl LedgerError {
    /// Creates the error of a backend that did not answer, or failed.
    #[must_use]
    pub const fn unavailable() -> Self {
        Self::new(LedgerErrorKind::Unavailable)
    }

    /// Creates the error of a backend with contents of another version.
    #[must_use]
    pub const fn incompatible() -> Self {
        Self::new(LedgerErrorKind::Incompatible)
    }

    /// Creates an error of any other kind from its cause.
    pub fn other(source: impl Into<BoxError>) -> Self {
        Self::new(LedgerErrorKind::Other).because(source)
    }

    /// Attaches the cause, which [`source`](Error::source) returns.
    #[must_use]
    pub fn because(self, source: impl Into<BoxError>) -> Self {
        Self { source: Some(source.into().into()), ..self }
    }

    pub(crate) const fn new(kind: LedgerErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Returns the kind of failure.
    #[must_use]
    pub const fn kind(&self) -> LedgerErrorKind {
        self.kind
    }

    /// Returns whether this is an outage, which may pass while every setting stays as it is.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self.kind, LedgerErrorKind::Unavailable)
    }
}

impl From<LedgerErrorKind> for LedgerError {
    fn from(kind: LedgerErrorKind) -> Self {
        Self::new(kind)
    }
}

/// Errors are equal if they are of one kind and share their source, as the clones of an error do.
impl PartialEq for LedgerError {
    fn eq(&self, other: &Self) -> bool {
        let same_source = match (&self.source, &other.source) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        self.kind == other.kind && same_source
    }
}

impl Eq for LedgerError {}

impl fmt::Display for LedgerErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "the ledger cannot be reached: check its backend",
            Self::Incompatible => {
                "the ledger's contents cannot be read by this version: migrate it, or restore a backup"
            }
            Self::MountedAlone => {
                "the ledger's file is mounted alone, without the log beside it, and could be sold from twice: mount the \
                 folder that it lies in instead"
            }
            Self::NotAFile => "the ledger's path is no regular file: name one, or a new one in a folder that exists",
            Self::HardLinked => {
                "the ledger's file has a second name, a hard link, and could be sold from twice: remove the other name, \
                 and copy the file with SQLite's .backup instead"
            }
            Self::Other => "the ledger failed: see the error's source",
        })
    }
}

impl fmt::Display for LedgerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
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
        let kinds = [LedgerErrorKind::MountedAlone, LedgerErrorKind::NotAFile, LedgerErrorKind::HardLinked];
        let wrong = [LedgerError::incompatible(), LedgerError::other("no table")];
        let wrong = wrong.into_iter().chain(kinds.map(LedgerError::from)).collect::<Vec<_>>();
        assert!(wrong.iter().all(|error| !error.is_transient()));
    }

    #[test]
    fn a_source_is_carried_and_not_shown() {
        let error = LedgerError::other("postgres://seller:canary@host");
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("postgres://seller:canary@host"));
        assert!(!error.to_string().contains("canary"));
        assert_eq!(error, error.clone());
        assert_ne!(error, LedgerError::other("postgres://seller:canary@host"));
        assert_ne!(error, LedgerErrorKind::Other.into());
    }
}
