//! `VerifyError`: why the chain could not be read. It contains no URL and no text of a node.

use std::{error::Error, fmt, sync::Arc};

use crate::protocol::{Address, Network};

/// An error of a [`Verifier`](super::Verifier): the chain could not be read. Two errors of one kind are equal, whatever their sources.
#[derive(Clone, Debug)]
pub struct VerifyError {
    kind: VerifyErrorKind,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl PartialEq for VerifyError {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for VerifyError {}

/// The kind of a [`VerifyError`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyErrorKind {
    /// No endpoint gave a usable answer in time.
    Unavailable,
    /// The limit of concurrent look-ups is reached.
    Overloaded,
    /// The chain's head has not moved for too long.
    StaleHead,
    /// No endpoint was named, or one is not an http or https URL.
    InvalidEndpoint,
    /// A setting is out of range.
    InvalidSetting {
        /// The name of the setting.
        what: &'static str,
    },
    /// An endpoint serves another chain.
    WrongChain {
        /// The configured chain.
        expected: Network,
        /// The chain that the endpoint serves.
        found: Network,
    },
    /// A contract is not a token, or states other decimals.
    WrongToken {
        /// The contract.
        contract: Address,
        /// The configured decimals.
        expected: u8,
        /// The decimals that it states; `None` if it is not a token.
        found: Option<u8>,
    },
    /// A verifier of your own failed; the [source](std::error::Error::source) says how.
    Other,
}

impl VerifyError {
    /// Creates an error of this kind.
    #[must_use]
    pub const fn new(kind: VerifyErrorKind) -> Self {
        Self { kind, source: None }
    }

    /// Creates an error of kind [`Unavailable`](VerifyErrorKind::Unavailable).
    #[must_use]
    pub const fn unavailable() -> Self {
        Self::new(VerifyErrorKind::Unavailable)
    }

    /// Creates an error of kind [`Other`](VerifyErrorKind::Other) from that of a verifier of your own. Its text never reaches a client.
    #[must_use]
    pub fn other(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { kind: VerifyErrorKind::Other, source: Some(source.into().into()) }
    }

    /// Returns whether the error may pass by itself, because the endpoints are silent, busy or behind.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self.kind, VerifyErrorKind::Unavailable | VerifyErrorKind::Overloaded | VerifyErrorKind::StaleHead)
    }

    /// Returns the kind of this error.
    #[must_use]
    pub const fn kind(&self) -> &VerifyErrorKind {
        &self.kind
    }
}

impl fmt::Display for VerifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            VerifyErrorKind::Unavailable => {
                f.write_str("no RPC endpoint answered in time; check that one is reachable")
            }
            VerifyErrorKind::Other => f.write_str("the verifier failed; see the source of this error"),
            VerifyErrorKind::Overloaded => f.write_str("too many look-ups are under way; ask again"),
            VerifyErrorKind::StaleHead => f.write_str("the chain's head is stale; check the RPC endpoints"),
            VerifyErrorKind::InvalidEndpoint => {
                f.write_str("name at least one RPC endpoint, each an http or https URL")
            }
            VerifyErrorKind::InvalidSetting { what } => write!(f, "{what} is out of range; see its documentation"),
            VerifyErrorKind::WrongChain { expected, found } => {
                write!(f, "an RPC endpoint serves {found}, not {expected}; name an endpoint of the right chain")
            }
            VerifyErrorKind::WrongToken { contract, expected, found: Some(found) } => {
                write!(f, "token {contract} has {found} decimals, not {expected}; name the right token")
            }
            VerifyErrorKind::WrongToken { contract, found: None, .. } => {
                write!(f, "{contract} is not a token on this chain; name the right token")
            }
        }
    }
}

impl Error for VerifyError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
