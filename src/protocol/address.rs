//! `Address`: the 20-byte address of an account or a contract.

use std::{fmt, str::FromStr};

use super::ParseError;

/// The address of an EVM account or contract.
///
/// Parsing accepts `0x` and 40 hexadecimal digits. All lower or all upper case is accepted as it is; mixed
/// case must be a correct [EIP-55](https://eips.ethereum.org/EIPS/eip-55) checksum. `Display` writes the
/// checksummed form, `{:x}` the lower-case one (cheaper: no hash).
///
/// ```
/// use tower_x402::protocol::Address;
/// let usdc: Address = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913".parse()?;
/// assert_eq!(usdc.to_string(), "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913");
/// assert!("0x833589fCD6eDb6E08f4c7C32D4f71b54bda02913".parse::<Address>().is_err());
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address([u8; 20]);

const INVALID: ParseError =
    ParseError::new("an address is 0x and 40 hexadecimal digits; mixed case must be a correct EIP-55 checksum");

impl Address {
    /// The zero address, which tokens are minted from and burnt to. It is never a payer or a recipient.
    pub const ZERO: Self = Self([0; 20]);

    /// Creates an address from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// Returns the address as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// Parses 40 hexadecimal digits in any case, whether they are a checksum or not.
    pub(super) fn from_digits(digits: &str) -> Option<Self> {
        let mut bytes = [0; 20];
        // Checked before decoding, which would skip another `0x`.
        let fits = digits.len() == 40;
        (fits && const_hex::decode_to_slice(digits, &mut bytes).is_ok()).then_some(Self(bytes))
    }

    /// Returns the EIP-55 form, without `0x`.
    fn checksummed(self) -> [u8; 40] {
        let mut text = [0; 40];
        // Cannot fail: the buffer is twice the input.
        let _ = const_hex::encode_to_slice(self.0, &mut text);
        let hash = super::keccak::keccak256(&[&text]);
        for (i, letter) in text.iter_mut().enumerate() {
            let nibble = hash[i / 2] >> (4 * (1 - i % 2)) & 0x0f;
            if nibble >= 8 {
                letter.make_ascii_uppercase();
            }
        }
        text
    }
}

impl FromStr for Address {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("0x").ok_or(INVALID)?;
        let address = Self::from_digits(digits).ok_or(INVALID)?;
        let mixed = digits.bytes().any(|b| b.is_ascii_lowercase()) && digits.bytes().any(|b| b.is_ascii_uppercase());
        if mixed && address.checksummed() != *digits.as_bytes() {
            return Err(INVALID);
        }
        Ok(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.checksummed();
        write!(f, "0x{}", text.as_slice().escape_ascii())
    }
}

impl fmt::LowerHex for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(const_hex::Buffer::<20, true>::new().format(&self.0))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(self, f)
    }
}

super::text::serde_as_text!(Address);
