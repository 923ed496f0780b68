//! Texts that are not shown.

use std::{fmt, ops::Deref};

/// A text that may hold a key or a password.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Secret(String);

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&Secret> for String {
    fn from(secret: &Secret) -> Self {
        secret.0.clone()
    }
}

impl Deref for Secret {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
