//! `PaymentTag`: binds a transfer to a secret.

use std::fmt;

use super::keccak::keccak256;

/// The prefix of every hashed secret, so that a hash for another purpose is never a tag.
const DOMAIN: &[u8] = b"x402-tag:v1:";
/// The four bytes before a tag in call data: `x402`.
const MARK: &[u8; 4] = b"x402";

/// Binds a transfer to a secret without revealing it: `keccak256("x402-tag:v1:" + secret)`.
///
/// A payer appends it to the call data of its transfer ([`to_call_data`](Self::to_call_data)). Token contracts ignore
/// bytes after their arguments; the secret identifies its transfer. The secret is an intent id, or a text that the
/// payer chose.
///
/// ```
/// use tower_x402::protocol::PaymentTag;
/// let tag = PaymentTag::of("AAAAAAAAAAAAAAAA");
/// assert_eq!(tag.to_string(), "0x55a64c2aa2ae2a8977ab666b2dea9362a47cd3804c9c5f7aeac74df80e88373f");
/// let transfer = [&[0xa9, 0x05, 0x9c, 0xbb][..], &[0; 64], &tag.to_call_data()].concat();
/// assert!(tag.is_in(&transfer));
/// assert!(!PaymentTag::of("BBBBBBBBBBBBBBBB").is_in(&transfer));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PaymentTag([u8; 32]);

impl PaymentTag {
    /// The number of bytes that a tag takes in call data, including its mark.
    pub const CALL_DATA_LEN: usize = 36;

    /// Creates a tag from its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the tag of a secret.
    #[must_use]
    pub fn of(secret: &str) -> Self {
        Self(keccak256(&[DOMAIN, secret.as_bytes()]))
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Returns the bytes to append to the call data of a transfer: the four bytes `x402`, then the tag.
    #[must_use]
    pub fn to_call_data(&self) -> [u8; Self::CALL_DATA_LEN] {
        let mut bytes = [0; Self::CALL_DATA_LEN];
        bytes[..4].copy_from_slice(MARK);
        bytes[4..].copy_from_slice(&self.0);
        bytes
    }

    /// Returns whether bytes may contain a tag: the mark and 32 bytes after it. Any mark with that much room
    /// suffices, so one search is enough.
    pub(crate) fn any_in(bytes: &[u8]) -> bool {
        let room = bytes.len().saturating_sub(Self::CALL_DATA_LEN - MARK.len());
        holds(&bytes[..room], MARK)
    }

    /// Returns whether call data contains this tag with its mark, anywhere after the four-byte selector.
    #[must_use]
    pub fn is_in(&self, call_data: &[u8]) -> bool {
        let wanted = self.to_call_data();
        call_data.get(4..).is_some_and(|rest| holds(rest, &wanted))
    }
}

/// Returns whether bytes contain `wanted`, which begins with the mark. Building a searcher costs more than searching
/// call data.
fn holds(bytes: &[u8], wanted: &[u8]) -> bool {
    memchr::memchr_iter(MARK[0], bytes).any(|at| bytes[at..].starts_with(wanted))
}

/// Formats the tag as `0x` and hexadecimal digits.
impl fmt::Display for PaymentTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(const_hex::Buffer::<32, true>::new().format(&self.0))
    }
}

impl fmt::Debug for PaymentTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_found_behind_the_selector_and_nowhere_else() {
        let tag = PaymentTag::of("an intent");
        let tail = tag.to_call_data();
        assert_eq!((&tail[..4], &tail[4..]), (&[0x78, 0x34, 0x30, 0x32][..], &tag.as_bytes()[..]));
        let call = |parts: &[&[u8]]| parts.concat();
        assert!(tag.is_in(&call(&[&[0; 4], &tail])) && tag.is_in(&call(&[&[0; 68], &tail, b"more"])));
        for without in [
            call(&[&tail]),
            call(&[&[0; 3], &tail]),
            call(&[&[0; 68], &tail[..35]]),
            call(&[&[0; 68], &tail[4..]]),
            call(&[&[0; 68], &PaymentTag::of("another").to_call_data()]),
            Vec::new(),
        ] {
            assert!(!tag.is_in(&without), "{without:02x?}");
        }
    }

    /// Such a mark would bind a payment to a tag that cannot exist.
    #[test]
    fn a_mark_without_room_for_a_tag_behind_it_is_none() {
        let tail = PaymentTag::of("an intent").to_call_data();
        for before in [&[][..], &[0; 64], b"x", b"xx40", MARK] {
            let with = [before, &tail, b"more"].concat();
            assert!(PaymentTag::any_in(&with), "{with:02x?}");
            assert!(PaymentTag::of("an intent").is_in(&[&[0; 4][..], &with].concat()));
        }
        for without in [&[][..], MARK, &tail[..35], &tail[1..], &[&[0; 64][..], MARK].concat()] {
            assert!(!PaymentTag::any_in(without), "{without:02x?}");
        }
        assert!(PaymentTag::any_in(&[&tail[..], MARK].concat()), "one of two has room");
    }

    /// Secrets of every length fit, longer ones than one block of the hash included.
    #[test]
    fn secrets_that_differ_have_tags_that_differ() {
        let secrets: Vec<String> = (0..=192).map(|length| "A".repeat(length)).collect();
        let tags: std::collections::HashSet<_> = secrets.iter().map(|secret| PaymentTag::of(secret)).collect();
        assert_eq!(tags.len(), secrets.len());
    }
}
