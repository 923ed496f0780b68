//! `PurchaseName`: a client's own name for one purchase, which stays the same when the purchase is signed again.

use std::{fmt, str::FromStr};

use super::ParseError;

/// A client's name for one purchase: 16 to 128 characters of `[A-Za-z0-9_-]`.
///
/// A client chooses a fresh one for each purchase, and repeats it with each attempt. A seller that reads it charges
/// the purchase once, even if the client signs a second payment for it. It is the `id` of the x402 extension
/// `payment-identifier`, and the value of `Idempotency-Key` in MPP.
///
/// ```
/// use tower_x402::protocol::PurchaseName;
/// assert_eq!(PurchaseName::new("pay_7d5d747be160e280")?.as_str(), "pay_7d5d747be160e280");
/// assert!(PurchaseName::new("too-short").is_err());
/// assert!(PurchaseName::new("seventeen letters").is_err(), "a space");
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct PurchaseName(Box<str>);

const INVALID: ParseError =
    ParseError::new("invalid payment identifier: it has 16 to 128 characters of A to Z, a to z, 0 to 9, _ and -");

impl PurchaseName {
    /// The fewest characters.
    pub const MIN: usize = 16;
    /// The most characters.
    pub const MAX: usize = 128;

    /// Creates an id from its text.
    ///
    /// # Errors
    /// Returns [`ParseError`] if the text is too short or too long, or has another character.
    pub fn new(text: impl Into<Box<str>>) -> Result<Self, ParseError> {
        let text = text.into();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let fits = (Self::MIN..=Self::MAX).contains(&text.len()) && text.bytes().all(plain);
        fits.then_some(Self(text)).ok_or(INVALID)
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PurchaseName {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::new(text)
    }
}

super::text::serde_as_text!(PurchaseName);

impl fmt::Display for PurchaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Omits the text: another client that knows it could delay its owner.
impl fmt::Debug for PurchaseName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PurchaseName(..)")
    }
}

/// The key of a purchase in a ledger: 128 bits derived from the realm, the resource and the [`PurchaseName`]. The
/// same name identifies another purchase on another resource.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PurchaseKey([u8; 16]);

impl PurchaseKey {
    /// Creates a key from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the key of a purchase of this resource, under the seller's realm.
    pub(crate) fn of(realm: &str, resource: &str, id: &PurchaseName) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("tower-x402 2026-11 key of a purchase");
        for part in [realm, resource, id.as_str()] {
            // The length makes different triples hash differently.
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        let mut key = [0; 16];
        hasher.finalize_xof().fill(&mut key);
        Self(key)
    }

    /// Returns the key as bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Formats the first eight hexadecimal digits.
impl fmt::Display for PurchaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..4].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for PurchaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_16_to_128_plain_characters() {
        for (text, valid) in [
            ("pay_0123456789ab".to_owned(), true),
            ("-_AZaz09-_AZaz09".to_owned(), true),
            ("a".repeat(128), true),
            ("a".repeat(15), false),
            ("a".repeat(129), false),
            (String::new(), false),
            ("pay_0123456789a.".to_owned(), false),
            ("pay_0123456789a ".to_owned(), false),
            ("pay_0123456789aé".to_owned(), false),
            ("pay_0123456789a\n".to_owned(), false),
        ] {
            assert_eq!(PurchaseName::new(text.as_str()).is_ok(), valid, "{text:?}");
        }
    }

    #[test]
    fn a_key_belongs_to_one_realm_resource_and_id() {
        let [one, other] = ["pay_0123456789abcdef", "pay_0123456789abcdeF"].map(|id| PurchaseName::new(id).unwrap());
        let key = PurchaseKey::of("shop", "insights", &one);
        assert_eq!(key, PurchaseKey::of("shop", "insights", &one));
        for another in [
            PurchaseKey::of("shop", "insights", &other),
            PurchaseKey::of("shop", "goals", &one),
            PurchaseKey::of("", "insights", &one),
            PurchaseKey::of("shopi", "nsights", &one),
        ] {
            assert_ne!(key, another);
        }
    }
}
