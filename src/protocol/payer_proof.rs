//! A payer's proof beside intent and transaction: the secret of its transfer's tag, or a signature.

use std::{fmt, str::FromStr};

use super::{IntentId, Network, ParseError, PaymentTag, TxHash};

/// The longest signature that is read, in bytes.
pub(crate) const SIGNATURE_MAX: usize = 4_096;

/// The secret that a transfer is bound to: 16 to 192 of the characters `A` to `Z`, `a` to `z`, `0` to `9`, `_` and
/// `-`.
///
/// Its [tag](PaymentTag) is public on the chain; the secret itself goes to the seller alone.
///
/// ```
/// use tower_x402::protocol::PaymentSecret;
/// let secret: PaymentSecret = "AAAAAAAAAAAAAAAA".parse()?;
/// assert_eq!(format!("{secret:?}"), "PaymentSecret(…)");
/// assert!("too short".parse::<PaymentSecret>().is_err());
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct PaymentSecret(Box<str>);

const INVALID_SECRET: ParseError =
    ParseError::new("invalid payment secret: it has 16 to 192 of the characters A to Z, a to z, 0 to 9, _ and -");

impl PaymentSecret {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the tag of this secret.
    #[must_use]
    pub fn tag(&self) -> PaymentTag {
        PaymentTag::of(&self.0)
    }
}

impl FromStr for PaymentSecret {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = (16..=192).contains(&text.len());
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        (fits && text.bytes().all(plain)).then(|| Self(text.into())).ok_or(INVALID_SECRET)
    }
}

/// Omits the secret.
impl fmt::Debug for PaymentSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PaymentSecret(…)")
    }
}

/// A signature of a payer over [`redemption_message`] or an [authorization](super::v2::Authorization), as bytes: 65 or 64 of a plain account, up to 4096 of a contract.
///
/// Its text is `0x` and hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct PaymentSignature(Box<[u8]>);

const INVALID_SIGNATURE: ParseError =
    ParseError::new("invalid payment signature: it is 0x and the hexadecimal digits of 1 to 4096 bytes");

impl PaymentSignature {
    /// Creates a signature from 1 to 4096 bytes.
    ///
    /// # Errors
    /// Returns [`ParseError`] if there are none or more.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Self, ParseError> {
        let bytes = bytes.into();
        (1..=SIGNATURE_MAX).contains(&bytes.len()).then_some(Self(bytes)).ok_or(INVALID_SIGNATURE)
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for PaymentSignature {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("0x").filter(|digits| const_hex::check_raw(digits));
        let bytes = digits.and_then(|digits| const_hex::decode(digits).ok());
        Self::new(bytes.ok_or(INVALID_SIGNATURE)?)
    }
}

impl fmt::Display for PaymentSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&const_hex::encode_prefixed(&self.0))
    }
}

/// Shows the length only: the signature redeems the payment.
impl fmt::Debug for PaymentSignature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PaymentSignature({} bytes)", self.0.len())
    }
}

/// Returns the text that a payer signs (EIP-191) to redeem this transaction with this intent: four lines, without a
/// final line break.
///
/// ```
/// use tower_x402::protocol::{IntentId, Network, TxHash, redemption_message};
/// let message = redemption_message(Network::BASE, TxHash::new([0xab; 32]), &IntentId::new("AUbX-9_k")?);
/// assert!(message.starts_with("x402 redemption\nchain: eip155:8453\ntransaction: 0xabab"));
/// assert!(message.ends_with("\nintent: AUbX-9_k"));
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[must_use]
pub fn redemption_message(network: Network, transaction: TxHash, intent: &IntentId) -> String {
    format!("x402 redemption\nchain: {network}\ntransaction: {transaction}\nintent: {intent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_plain_and_neither_short_nor_long() {
        for good in ["A".repeat(16), "z".repeat(192), "0123456789-_abcXYZ".to_owned()] {
            assert_eq!(good.parse::<PaymentSecret>().map(|secret| secret.as_str().to_owned()), Ok(good));
        }
        for bad in [
            "A".repeat(15),
            "A".repeat(193),
            format!("{}\n", "A".repeat(16)),
            "é".repeat(16),
            "A+A/A=A A.A~A,A:".into(),
        ] {
            assert!(bad.parse::<PaymentSecret>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_signature_is_hexadecimal_bytes() {
        for bytes in [1, 64, 65, SIGNATURE_MAX] {
            let text = format!("0x{}", "aB".repeat(bytes));
            assert_eq!(text.parse::<PaymentSignature>().map(|signature| signature.as_bytes().len()), Ok(bytes));
        }
        let over = format!("0x{}", "00".repeat(SIGNATURE_MAX + 1));
        for bad in ["", "0x", "0X00", "00", "0x0", "0x0g", "0x0x00", " 0x00", "0x00 ", &over] {
            assert!(bad.parse::<PaymentSignature>().is_err(), "{bad:.10}");
        }
    }

    #[test]
    fn neither_is_shown() {
        let secret: PaymentSecret = "AAAAAAAAAAAAAAAA".parse().unwrap();
        let signature: PaymentSignature = "0xabcdef".parse().unwrap();
        assert_eq!(format!("{secret:?} {signature:?}"), "PaymentSecret(…) PaymentSignature(3 bytes)");
        assert_eq!(signature.to_string(), "0xabcdef");
    }
}
