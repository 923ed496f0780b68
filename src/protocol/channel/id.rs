//! `ChannelId`: the id of a channel on its chain.

use std::{fmt, str::FromStr};

use crate::protocol::{Network, ParseError, TxHash, keccak::keccak256};

/// The id of a channel: the EIP-712 hash of its [config](super::ChannelConfig) under the contract's domain, so it
/// differs from chain to chain.
///
/// Parsing accepts `0x` and 64 hexadecimal digits in either case; `Display` writes lower case.
///
/// ```
/// use tower_x402::protocol::channel::ChannelId;
/// let id = ChannelId::new([0xab; 32]);
/// assert_eq!(id.to_string().to_uppercase().replace("0X", "0x").parse(), Ok(id));
/// assert!("0xab".parse::<ChannelId>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelId([u8; 32]);

const INVALID: ParseError = ParseError::new("a channel id is 0x and 64 hexadecimal digits");

impl ChannelId {
    /// Creates an id from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the bytes of the [account](crate::ledger::AccountId) that a ledger keeps for this channel on this
    /// chain.
    #[must_use]
    pub fn account_bytes(&self, network: Network) -> [u8; 16] {
        let hash = keccak256(&[b"x402 channel", &network.chain_id().to_be_bytes(), &self.0]);
        let mut account = [0; 16];
        account.copy_from_slice(&hash[..16]);
        account
    }
}

impl FromStr for ChannelId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<TxHash>().map(|hash| Self(*hash.as_bytes())).map_err(|_| INVALID)
    }
}

impl fmt::Display for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(const_hex::Buffer::<32, true>::new().format(&self.0))
    }
}

impl fmt::Debug for ChannelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

crate::protocol::text::serde_as_text!(ChannelId);
