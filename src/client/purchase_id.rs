//! `PurchaseId`: the name of a purchase.

use std::{fmt, str::FromStr};

/// What names a purchase: 128 random bits, as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PurchaseId([u8; 16]);

impl PurchaseId {
    /// From the bytes.
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
    type Err = ParsePurchaseIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut bytes = [0; 16];
        const_hex::decode_to_slice(text, &mut bytes).map_err(|_| ParsePurchaseIdError)?;
        Ok(Self(bytes))
    }
}

/// Why a text is no [`PurchaseId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a purchase is named by 32 hexadecimal digits")]
#[non_exhaustive]
pub struct ParsePurchaseIdError;

crate::protocol::serde_as_text!(PurchaseId);
