//! `RequestDigest`: binds an intent to one request.

use std::fmt;

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
