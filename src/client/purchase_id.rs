//! `PurchaseId`: the name of a purchase.

use std::{fmt, str::FromStr};

use crate::protocol::ParseError;

/// The name of a purchase: 128 random bits, written as 32 hexadecimal digits.
///
/// ```
/// use tower_x402::client::PurchaseId;
/// let id: PurchaseId = "0f".repeat(16).parse()?;
/// assert_eq!(id, PurchaseId::new([15; 16]));
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PurchaseId([u8; 16]);

impl PurchaseId {
    /// Creates a name from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(super) fn random() -> Self {
        Self(rand::random())
    }
}

impl fmt::Display for PurchaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(const_hex::Buffer::<16, false>::new().format(&self.0))
    }
}

impl fmt::Debug for PurchaseId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PurchaseId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 16];
        const_hex::decode_to_slice(text, &mut bytes).map_err(|_| INVALID)?;
        Ok(Self(bytes))
    }
}

const INVALID: ParseError =
    ParseError::new("the name of a purchase is 32 hexadecimal digits: copy it from the journal or the log");

crate::protocol::serde_as_text!(PurchaseId);
