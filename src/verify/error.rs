//! Why the chain could not be asked. Nothing that a node said, and no URL, gets into it.

use std::fmt;

use crate::protocol::{Address, Network};

/// A verifier that cannot answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyError {
    kind: VerifyErrorKind,
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyErrorKind {
    /// No endpoint answered in time with something usable.
    Unavailable,
    /// More look-ups are under way than are allowed.
    Overloaded,
    /// The chain has not moved for too long.
    StaleHead,
    /// No endpoint was named, or one is no URL.
    BadEndpoint,
    /// A setting is out of range.
    BadSetting {
        /// Which.
        what: &'static str,
    },
    /// An endpoint serves another chain.
    WrongChain {
        /// The chain that was meant.
        expected: Network,
        /// The chain it serves.
        found: Network,
    },
    /// A contract is no token, or has other decimals.
    WrongToken {
        /// The contract.
        contract: Address,
        /// The decimals that were meant.
        expected: u8,
        /// What it says; `None` where it is no token.
        found: Option<u8>,
    },
}

impl VerifyError {
    /// An error of that kind.
    #[must_use]
    pub const fn new(kind: VerifyErrorKind) -> Self {
        Self { kind }
    }

    /// The chain cannot be asked right now.
    #[must_use]
    pub const fn unavailable() -> Self {
        Self::new(VerifyErrorKind::Unavailable)
    }

    /// Whether it may pass without anybody changing a setting: the endpoints are silent, busy or behind.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self.kind, VerifyErrorKind::Unavailable | VerifyErrorKind::Overloaded | VerifyErrorKind::StaleHead)
    }

    /// What went wrong.
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
            VerifyErrorKind::Overloaded => f.write_str("too many look-ups are under way; ask again"),
            VerifyErrorKind::StaleHead => f.write_str("the chain's head is stale; check the RPC endpoints"),
            VerifyErrorKind::BadEndpoint => f.write_str("name at least one RPC endpoint, each an http or https URL"),
            VerifyErrorKind::BadSetting { what } => write!(f, "{what} is out of range"),
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

impl std::error::Error for VerifyError {}
