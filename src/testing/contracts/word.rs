//! One argument of a contract call.

use crate::protocol::{Address, Amount};

/// One 32-byte word of ABI-encoded arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word([u8; 32]);

impl Word {
    /// Creates a word from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, the most significant first.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Pads `bytes` with zeros on the left.
    fn padded<const N: usize>(bytes: &[u8; N]) -> Self {
        let mut word = [0; 32];
        for (slot, byte) in word.iter_mut().rev().zip(bytes.iter().rev()) {
            *slot = *byte;
        }
        Self(word)
    }
}

impl From<Address> for Word {
    fn from(address: Address) -> Self {
        Self::padded(address.as_bytes())
    }
}

impl From<u128> for Word {
    fn from(number: u128) -> Self {
        Self::padded(&number.to_be_bytes())
    }
}

impl From<Amount> for Word {
    fn from(amount: Amount) -> Self {
        Self(amount.to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_addresses_stand_at_the_low_end() {
        let mut expected = [0; 32];
        expected[30..].copy_from_slice(&[1, 2]);
        assert_eq!(Word::from(0x0102_u128), Word::new(expected));
        assert_eq!(Word::from(Amount::from_base_units(0x0102)), Word::new(expected));

        let mut expected = [0; 32];
        expected[12..].fill(7);
        assert_eq!(Word::from(Address::new([7; 20])), Word::new(expected));
    }
}
