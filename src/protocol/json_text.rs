//! `Text`: a JSON string.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, Visitor};

/// A JSON string, unescaped, borrowed if possible.
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Reads a valid JSON value that is a string: unescapes it, where there is anything to unescape.
pub(crate) fn parse_text(json: &str) -> Option<Cow<'_, str>> {
    match plain_text(json) {
        Some(text) => Some(text.into()),
        None => serde_json::from_str(json).ok().map(|Text(text)| text),
    }
}

/// Returns what stands between the quotes of a valid JSON string without escapes.
pub(crate) fn plain_text(json: &str) -> Option<&str> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    memchr::memchr(b'\\', text.as_bytes()).is_none().then_some(text)
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}
