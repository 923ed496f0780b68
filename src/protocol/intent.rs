//! `IntentId`: the opaque token that links one quote to one payment and one answer.

use std::{
    fmt,
    hash::{Hash, Hasher},
    str::FromStr,
};

use super::{ParseError, PaymentId};

/// The maximum length of an intent id, in characters.
pub const INTENT_ID_MAX: usize = 192;

/// The longest intent id that this crate seals; others may have up to [`INTENT_ID_MAX`] characters.
pub(super) const SEALED_MAX: usize = 128;

/// An intent id as sent on the wire. Only the seller can check its seal.
///
/// ```
/// use tower_x402::protocol::{INTENT_ID_MAX, IntentId};
/// assert_eq!(IntentId::new("AUbX-9_k").unwrap().as_str(), "AUbX-9_k");
/// assert!(IntentId::new("").is_err());
/// assert!(IntentId::new("a".repeat(INTENT_ID_MAX + 1)).is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IntentId(Box<str>);

const INVALID: ParseError = ParseError::new("invalid intent id: it has 1 to 192 characters");

impl IntentId {
    /// Creates an intent id from a text of 1 to [`INTENT_ID_MAX`] characters.
    ///
    /// # Errors
    /// Returns [`ParseError`] if the text is empty or longer.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, ParseError> {
        let text = text.into();
        let fits = !text.is_empty() && text.chars().nth(INTENT_ID_MAX).is_none();
        fits.then_some(Self(text)).ok_or(INVALID)
    }

    /// Returns a text of 128 random bits.
    #[cfg(feature = "client")]
    pub(crate) fn random() -> Self {
        Self(const_hex::encode(rand::random::<[u8; 16]>()).into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for IntentId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

super::text::serde_as_text!(IntentId);

impl fmt::Display for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Omits the text, which together with a transaction is a bearer proof.
impl fmt::Debug for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IntentId(..)")
    }
}

/// The key of an intent in a ledger: 128 bits derived from its seal. Logs show its first digits, and all of it for a
/// sale: it opens nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IntentKey([u8; 16]);

/// Hashes the key as one number: a ledger hashes each key many times.
impl Hash for IntentKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u128(u128::from_ne_bytes(self.0));
    }
}

impl IntentKey {
    /// Creates a key from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the key for a payment that was signed without a quote. It is derived from the payment, so no other
    /// payment has it.
    pub(crate) fn of_payment(payment: &PaymentId) -> Self {
        let hash = blake3::derive_key("tower-x402 2026-11 intent of an authorization", payment.to_string().as_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&hash[..16]);
        Self(key)
    }

    /// Returns the key as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Formats the first eight hexadecimal digits: enough to follow an intent through a log, too few to use it.
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
