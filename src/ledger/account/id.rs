//! `AccountId` and `AccountMemo`: the name of an account, and its opener's note.

use std::{fmt, sync::Arc};

/// The longest memo, in bytes.
const MEMO_MAX: usize = 1024;

/// The name of an account: 16 bytes that its opener derives from the payment that filled it.
///
/// It is no secret, and no credential. Two things that must not share an account must not share an id.
///
/// ```
/// use tower_x402::ledger::AccountId;
/// assert_eq!(AccountId::new([0xab; 16]).to_string(), "ab".repeat(16));
/// assert_eq!("ab".repeat(16).parse(), Ok(AccountId::new([0xab; 16])));
/// assert!("AB".repeat(16).parse::<AccountId>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId([u8; 16]);

impl AccountId {
    /// Creates an id from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Formats the id as 32 lower-case hexadecimal digits.
impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&const_hex::encode(self.0))
    }
}

impl fmt::Debug for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccountId({self})")
    }
}

/// Parses 32 lower-case hexadecimal digits.
impl std::str::FromStr for AccountId {
    type Err = crate::protocol::ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const MALFORMED: crate::protocol::ParseError =
            crate::protocol::ParseError::new("an account's id is 32 lower-case hexadecimal digits");
        let mut bytes = [0; 16];
        let plain = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match plain && const_hex::decode_to_slice(text, &mut bytes).is_ok() {
            true => Ok(Self(bytes)),
            false => Err(MALFORMED),
        }
    }
}

/// Up to 1,024 bytes that an account carries for its opener. The ledger neither reads nor interprets them.
///
/// ```
/// use tower_x402::ledger::AccountMemo;
/// assert_eq!(AccountMemo::new(*b"a voucher").map(|memo| memo.as_bytes().len()), Some(9));
/// assert_eq!(AccountMemo::new([0; 1025]), None);
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AccountMemo(Arc<[u8]>);

impl AccountMemo {
    /// Creates a memo; `None` if it is longer than 1,024 bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Option<Self> {
        Some(bytes.into()).filter(|bytes: &Vec<u8>| bytes.len() <= MEMO_MAX).map(|bytes| Self(bytes.into()))
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Shows its length, not its content.
impl fmt::Debug for AccountMemo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccountMemo({} bytes)", self.0.len())
    }
}
