//! `Network`: which chain.

use std::{fmt, str::FromStr};

/// An EVM chain, by its EIP-155 id; its text is the CAIP-2 name, `eip155:8453`.
///
/// ```
/// use tower_x402::protocol::Network;
/// assert_eq!("eip155:8453".parse(), Ok(Network::BASE));
/// assert_eq!(Network::eip155(10).to_string(), "eip155:10");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(u64);

/// Why a text is no [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a network is `eip155:` and a chain id, such as `eip155:8453`")]
#[non_exhaustive]
pub struct ParseNetworkError;

impl Network {
    /// Base.
    pub const BASE: Self = Self(8453);
    /// Base's public test chain.
    pub const BASE_SEPOLIA: Self = Self(84532);

    /// Any EVM chain.
    #[must_use]
    pub const fn eip155(chain_id: u64) -> Self {
        Self(chain_id)
    }

    /// The EIP-155 id.
    #[must_use]
    pub const fn chain_id(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "eip155:{}", self.0)
    }
}

impl FromStr for Network {
    type Err = ParseNetworkError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("eip155:").ok_or(ParseNetworkError)?;
        let canonical = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
        let id = digits.parse().ok().filter(|_| canonical).ok_or(ParseNetworkError)?;
        Ok(Self(id))
    }
}

super::text::serde_as_text!(Network);
