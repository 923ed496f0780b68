//! `TxHash`: the 32-byte hash of a transaction.

use std::{fmt, str::FromStr};

use super::ParseError;

/// A transaction hash. Hashes are compared by their bytes, never by their text.
///
/// Parsing accepts `0x` and 64 hexadecimal digits in either case; `Display` writes lower case.
///
/// ```
/// use tower_x402::protocol::TxHash;
/// let upper: TxHash = format!("0x{}", "AB".repeat(32)).parse()?;
/// assert_eq!(upper, TxHash::new([0xab; 32]));
/// assert_eq!(upper.to_string(), format!("0x{}", "ab".repeat(32)));
/// assert!("ab".repeat(32).parse::<TxHash>().is_err());     // no `0x`
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TxHash([u8; 32]);

const INVALID: ParseError = ParseError::new("a transaction hash is 0x and 64 hexadecimal digits");

impl TxHash {
    /// Returns whether this is the zero hash, which some write if there is no transaction.
    pub(crate) fn is_zero(&self) -> bool {
        self.0 == [0; 32]
    }

    /// Creates a hash from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the hash as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for TxHash {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("0x").filter(|rest| rest.len() == 64).ok_or(INVALID)?;
        let mut bytes = [0; 32];
        const_hex::decode_to_slice(digits, &mut bytes).map_err(|_| INVALID)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for TxHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(const_hex::Buffer::<32, true>::new().format(&self.0))
    }
}

impl fmt::Debug for TxHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

super::text::serde_as_text!(TxHash);
