//! `IntentId`: the opaque text that ties one quote to one payment and one answer.

use std::fmt;

/// The longest intent id, in characters.
pub const INTENT_ID_MAX: usize = 192;

/// An intent id as it stands on the wire. Whether it means anything, only its seal tells.
///
/// ```
/// use tower_x402::protocol::{INTENT_ID_MAX, IntentId};
/// assert_eq!(IntentId::new("AUbX-9_k").unwrap().as_str(), "AUbX-9_k");
/// assert!(IntentId::new("").is_none());
/// assert!(IntentId::new("a".repeat(INTENT_ID_MAX + 1)).is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IntentId(Box<str>);

impl IntentId {
    /// Takes a text of 1 to [`INTENT_ID_MAX`] characters; `None` for anything else.
    #[must_use]
    pub fn new(text: impl Into<Box<str>>) -> Option<Self> {
        let text = text.into();
        (!text.is_empty() && text.chars().nth(INTENT_ID_MAX).is_none()).then_some(Self(text))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Escaped: this may be anything that a caller sent.
impl fmt::Debug for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// What a ledger knows an intent by: 128 bits derived from its seal. Also its short name in logs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentKey([u8; 16]);

impl IntentKey {
    /// From the bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// The first eight hexadecimal digits: enough to follow an intent through a log, too little to use it.
impl fmt::Display for IntentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in &self.0[..4] {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for IntentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
