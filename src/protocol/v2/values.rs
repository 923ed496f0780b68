//! Readers and writers of single values, where the standard is stricter or more lenient than this crate's types.

use std::fmt::Display;

use serde::{Serialize, Serializer};

use crate::protocol::{Address, Amount, ChainTime, Network, TxHash};

/// Reads an address: `0x` and 40 digits in any case. Official clients write checksums, others do not.
pub(in crate::protocol) fn address(text: &str) -> Option<Address> {
    Address::from_digits(text.strip_prefix("0x")?)
}

/// Reads an amount: base units in decimal digits.
pub(in crate::protocol) fn amount(text: &str) -> Option<Amount> {
    Amount::parse_base_units(text).ok()
}

/// Reads an amount of 128 bits: base units in decimal digits.
pub(in crate::protocol) fn units(text: &str) -> Option<u128> {
    amount(text).and_then(|_| text.parse().ok())
}

/// Reads a time: Unix seconds in decimal digits.
pub(in crate::protocol) fn time(text: &str) -> Option<ChainTime> {
    amount(text).and_then(|_| text.parse().ok()).map(ChainTime::from_unix)
}

/// Reads 32 bytes: `0x` and 64 digits in any case.
pub(in crate::protocol) fn bytes32(text: &str) -> Option<[u8; 32]> {
    transaction(text).map(|hash| *hash.as_bytes())
}

/// Reads a 32-byte number: decimal digits, as official clients write it, or `0x` and 1 to 64 digits in any case.
pub(in crate::protocol) fn word(text: &str) -> Option<[u8; 32]> {
    let Some(digits) = text.strip_prefix("0x") else { return amount(text).map(Amount::to_be_bytes) };
    if !(1..=64).contains(&digits.len()) {
        return None;
    }
    let mut word = [0; 32];
    let padded = format!("{digits:0>64}");
    // Checked before decoding, which would skip another `0x`.
    let plain = padded.bytes().all(|byte| byte.is_ascii_hexdigit());
    (plain && const_hex::decode_to_slice(padded, &mut word).is_ok()).then_some(word)
}

/// Reads a transaction hash.
pub(in crate::protocol) fn transaction(text: &str) -> Option<TxHash> {
    text.parse().ok()
}

/// Reads the CAIP-2 name of an EVM chain.
pub(in crate::protocol) fn network(text: &str) -> Option<Network> {
    text.parse().ok()
}

/// Reads the CAIP-2 name of any chain, and returns its namespace: `eip155` for EVM chains.
pub(in crate::protocol) fn namespace(text: &str) -> Option<&str> {
    let (namespace, reference) = text.split_once(':')?;
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    let fits = (3..=8).contains(&namespace.len())
        && namespace.bytes().all(|byte| word(byte) && !byte.is_ascii_uppercase())
        && (1..=32).contains(&reference.len())
        && reference.bytes().all(|byte| word(byte) || byte == b'_');
    fits.then_some(namespace)
}

/// Writes a time as decimal digits in a string.
pub(in crate::protocol) fn write_time<S: Serializer>(time: &ChainTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&time.unix())
}

/// Writes a time as a number.
pub(in crate::protocol) fn write_seconds<S: Serializer>(time: &ChainTime, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.unix())
}

/// Writes any value as its text.
pub(in crate::protocol) fn write_text<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// Writes a present value as its text.
pub(in crate::protocol) fn write_some_text<S: Serializer>(
    value: &Option<impl Display>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => serializer.collect_str(value),
        None => serializer.serialize_none(),
    }
}

/// Writes 32 bytes as `0x` and 64 digits.
pub(in crate::protocol) fn write_bytes32<S: Serializer>(bytes: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
    TxHash::new(*bytes).serialize(serializer)
}
