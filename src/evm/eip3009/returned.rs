//! The results of a token's functions. A result of another type counts as absent: a contract without the function may
//! have a fallback that returns anything.

use alloy::sol_types::SolValue as _;

/// The longest name or version that is read, in characters.
const TEXT_MAX: usize = 64;

/// Parses a name or a version: 1 to 64 characters without control characters.
pub(crate) fn read_text(returned: &[u8]) -> Option<String> {
    // Offset, length, and 64 characters of four bytes.
    if returned.len() > 64 + 4 * TEXT_MAX {
        return None;
    }
    let text = String::abi_decode_validate(returned).ok().filter(|text| text.abi_encode() == returned)?;
    let shown = (1..=TEXT_MAX).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    shown.then_some(text)
}

/// Parses one word.
pub(crate) fn read_word(returned: &[u8]) -> Option<[u8; 32]> {
    returned.try_into().ok()
}

/// Parses one flag: 0 or 1, in a single word.
pub(crate) fn read_flag(returned: &[u8]) -> Option<bool> {
    let word = read_word(returned)?;
    bool::abi_decode_validate(&word).ok()
}
