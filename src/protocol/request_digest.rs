//! `RequestDigest`: binds an intent to one request. `DigestKey`: the key that it is computed with.

use std::fmt;

/// The key of a digest.
#[derive(Clone, Copy)]
pub(crate) enum DigestKey<'k> {
    /// A secret: only its holder can compute the digest.
    Secret(&'k [u8; 32]),
    /// Only the digest's purpose: a seal protects the digest itself.
    Purpose(&'static str),
}

impl DigestKey<'_> {
    pub(super) fn hasher(self) -> blake3::Hasher {
        match self {
            Self::Secret(key) => blake3::Hasher::new_keyed(key),
            Self::Purpose(purpose) => blake3::Hasher::new_derive_key(purpose),
        }
    }

    /// Hashes these bytes without a hasher, whose two kilobytes take longer to set up than a short request takes to
    /// hash.
    pub(super) fn hash(self, bytes: &[u8]) -> [u8; 32] {
        match self {
            Self::Secret(key) => *blake3::keyed_hash(key, bytes).as_bytes(),
            Self::Purpose(purpose) => blake3::derive_key(purpose, bytes),
        }
    }
}

/// 128 bits of a keyed hash over method, path, query, headers and body.
#[derive(Clone, Copy)]
pub(crate) struct RequestDigest([u8; 16]);

impl RequestDigest {
    pub(crate) const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Compares in constant time: a digest stands for a request that only its author should know.
impl PartialEq for RequestDigest {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq::constant_time_eq_16(&self.0, &other.0)
    }
}

impl Eq for RequestDigest {}

impl fmt::Debug for RequestDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestDigest")
    }
}
