//! `Amount`: a token amount in base units. It is read from and written as decimal text, never rounded, never a float.

use std::{fmt, str::FromStr};

use ruint::aliases::U256;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::ParseError;

/// An amount of a token in base units (USDC: millionths).
///
/// ```
/// use tower_x402::protocol::Amount;
/// let price = Amount::parse_decimal("0.49", 6)?;
/// assert_eq!(price.to_string(), "490000");          // base units
/// assert_eq!(price.to_decimal(6), "0.49");
/// assert!(Amount::parse_decimal("0.0000019", 6).is_err());   // refused, not rounded
/// # Ok::<(), tower_x402::protocol::ParseError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(U256);

pub(super) const MALFORMED: ParseError = ParseError::new("an amount is digits, with at most one point between them");
pub(super) const TOO_MANY_DECIMALS: ParseError = ParseError::new("an amount has no more decimals than its token");
pub(super) const TOO_LARGE: ParseError = ParseError::new("an amount is at most 2^256 - 1 base units");

impl Amount {
    /// Zero.
    pub const ZERO: Self = Self(U256::ZERO);
    /// The largest amount that a token can express: 2²⁵⁶ − 1 base units.
    pub const MAX: Self = Self(U256::MAX);

    /// Creates an amount from a number of base units.
    #[must_use]
    pub fn from_base_units(units: u128) -> Self {
        Self(U256::from(units))
    }

    /// Creates an amount from hundredths of a whole token with `decimals` decimals, for computed prices. The amount is rounded up
    /// if the token has fewer than two decimals, and capped at [`MAX`](Self::MAX).
    ///
    /// ```
    /// use tower_x402::protocol::Amount;
    /// assert_eq!(Amount::from_cents(49, 6), Amount::parse_decimal("0.49", 6)?);
    /// # Ok::<(), tower_x402::protocol::ParseError>(())
    /// ```
    #[must_use]
    pub fn from_cents(cents: u64, decimals: u8) -> Self {
        let cents = U256::from(cents);
        Self(match decimals.checked_sub(2) {
            Some(zeros) => U256::from(10).saturating_pow(U256::from(zeros)).saturating_mul(cents),
            None => cents.div_ceil(U256::from(10_u8.pow(u32::from(2 - decimals)))),
        })
    }

    /// Creates an amount from 32 big-endian bytes, the ABI encoding of `uint256`.
    #[must_use]
    pub const fn from_be_bytes(bytes: [u8; 32]) -> Self {
        Self(U256::from_be_bytes(bytes))
    }

    /// Returns the amount as 32 big-endian bytes.
    #[must_use]
    pub const fn to_be_bytes(self) -> [u8; 32] {
        self.0.to_be_bytes()
    }

    /// Returns the length of these bytes without leading zeros.
    pub(crate) const fn byte_len(self) -> usize {
        self.0.byte_len()
    }

    /// Parses base units: decimal digits without sign, point, space or leading zero.
    ///
    /// # Errors
    /// Returns [`ParseError`] if the text is anything else.
    pub fn parse_base_units(text: &str) -> Result<Self, ParseError> {
        if !is_canonical_integer(text) {
            return Err(MALFORMED);
        }
        // A fast path for nearly every amount; longer ones take ten times as long.
        if let Ok(units) = text.parse::<u64>() {
            return Ok(Self(U256::from(units)));
        }
        U256::from_str_radix(text, 10).map(Self).map_err(|_| TOO_LARGE)
    }

    /// Parses a decimal such as `0.49` of a token with `decimals` decimals.
    ///
    /// # Errors
    /// Returns [`ParseError`] for signs, exponents, separators, spaces, a missing digit on either side of the
    /// point, leading zeros, and more decimals than the token has (an error, never rounding).
    pub fn parse_decimal(text: &str, decimals: u8) -> Result<Self, ParseError> {
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) => (whole, fraction),
            None => (text, "0"),
        };
        if !is_canonical_integer(whole) || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return Err(MALFORMED);
        }
        let fraction = if text.contains('.') { fraction } else { "" };
        let missing = usize::from(decimals).checked_sub(fraction.len()).ok_or(TOO_MANY_DECIMALS)?;
        let digits = format!("{whole}{fraction}{:0<missing$}", "");
        U256::from_str_radix(&digits, 10).map(Self).map_err(|_| TOO_LARGE)
    }

    /// Formats the amount as a decimal such as `0.49`, without trailing zeros.
    #[must_use]
    pub fn to_decimal(self, decimals: u8) -> String {
        let width = usize::from(decimals) + 1;
        let digits = format!("{:0>width$}", self.0.to_string());
        let (whole, fraction) = digits.split_at(digits.len() - usize::from(decimals));
        match fraction.trim_end_matches('0') {
            "" => whole.to_owned(),
            fraction => format!("{whole}.{fraction}"),
        }
    }

    /// Returns the sum, or `None` if it exceeds [`Amount::MAX`].
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// Returns the difference, or `None` if it is below zero.
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }

    /// Returns `parts` of `of` equal parts, rounded down and capped at [`MAX`](Self::MAX).
    pub(crate) fn share(self, parts: u64, of: u64) -> Self {
        let (parts, of) = (U256::from(parts), U256::from(of.max(1)));
        let (each, rest) = self.0.div_rem(of);
        // The remainder is less than 64 bits long, so this product cannot overflow.
        Self(each.saturating_mul(parts).saturating_add(rest * parts / of))
    }

    /// Returns so many times the amount, at most [`MAX`](Self::MAX).
    ///
    /// ```
    /// use tower_x402::protocol::Amount;
    ///
    /// let cent = Amount::from_cents(1, 6);
    /// assert_eq!(cent.times(49), Amount::from_cents(49, 6));
    /// ```
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(U256::from(count)))
    }

    /// Returns the number of base units, if it fits into 128 bits.
    pub(crate) fn to_u128(self) -> Option<u128> {
        self.0.try_into().ok()
    }

    /// Returns the number of base units, capped at the largest 64-bit number.
    pub(crate) fn saturating_to_u64(self) -> u64 {
        self.0.saturating_to()
    }

    /// Returns whether the amount is zero.
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

fn is_canonical_integer(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) && (text.len() == 1 || !text.starts_with('0'))
}

/// Formats the amount in base units.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Parses base units, as [`parse_base_units`](Amount::parse_base_units) does.
impl FromStr for Amount {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse_base_units(text)
    }
}

/// Serializes base units as a decimal string: JSON numbers lose digits.
impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse_base_units(&text).map_err(D::Error::custom)
    }
}
