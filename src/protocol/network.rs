//! `Network`: an EVM chain.

use std::{fmt, str::FromStr};

use super::ParseError;

/// An EVM chain, identified by its EIP-155 id. Its text is the CAIP-2 name, such as `eip155:8453`.
///
/// ```
/// use tower_x402::protocol::Network;
/// assert_eq!("eip155:8453".parse(), Ok(Network::BASE));
/// assert_eq!(Network::eip155(10).to_string(), "eip155:10");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network(u64);

const INVALID: ParseError = ParseError::new("a network is `eip155:` and a chain id, such as `eip155:8453`");

impl Network {
    /// Base mainnet.
    pub const BASE: Self = Self(8453);
    /// Base Sepolia, the public test network.
    pub const BASE_SEPOLIA: Self = Self(84532);

    /// Creates a network from an EIP-155 chain id.
    #[must_use]
    pub const fn eip155(chain_id: u64) -> Self {
        Self(chain_id)
    }

    /// Returns the EIP-155 chain id.
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
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("eip155:").ok_or(INVALID)?;
        let canonical = !digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit());
        let id = digits.parse().ok().filter(|_| canonical).ok_or(INVALID)?;
        Ok(Self(id))
    }
}

super::text::serde_as_text!(Network);
