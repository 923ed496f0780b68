//! `Text`: a JSON string. `JsonCursor`: a JSON text that is read in one pass.

use std::{borrow::Cow, fmt};

use serde::de::{Deserialize, Deserializer, Visitor};
use serde_json::value::RawValue;

/// A JSON string, unescaped, borrowed if possible.
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

/// Reads a valid JSON value if it is a string, unescaping it if necessary.
pub(crate) fn parse_text(json: &str) -> Option<Cow<'_, str>> {
    match plain_text(json) {
        Some(text) => Some(text.into()),
        None => serde_json::from_str(json).ok().map(|Text(text)| text),
    }
}

/// Returns the text between the quotes of a valid JSON string without escapes.
pub(crate) fn plain_text(json: &str) -> Option<&str> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    memchr::memchr(b'\\', text.as_bytes()).is_none().then_some(text)
}

/// A value as it was written.
pub(crate) enum Written<'a> {
    /// A string without escapes: the text between its quotes.
    Plain(&'a str),
    /// Valid JSON of any kind.
    Json(&'a str),
}

/// A position in a JSON text. Most strings have no escapes and are read here; serde_json reads every other value.
pub(crate) struct JsonCursor<'a> {
    json: &'a str,
    at: usize,
}

impl<'a> JsonCursor<'a> {
    pub(crate) const fn new(json: &'a str) -> Self {
        Self { json, at: 0 }
    }

    /// Skips white space, and this byte if it is next.
    pub(crate) fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.is_at(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Skips white space, and returns whether this byte is next.
    pub(crate) fn is_at(&mut self, byte: u8) -> bool {
        self.skip_space();
        self.json.as_bytes().get(self.at) == Some(&byte)
    }

    /// Skips white space, and returns whether nothing else follows.
    pub(crate) fn is_at_end(&mut self) -> bool {
        self.skip_space();
        self.at == self.json.len()
    }

    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    /// Returns the text from `start` to the current position.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.json.get(start..self.at).unwrap_or_default()
    }

    /// Reads a string.
    pub(crate) fn string(&mut self) -> Option<Cow<'a, str>> {
        match self.value()? {
            Written::Plain(text) => Some(Cow::Borrowed(text)),
            Written::Json(json) => parse_text(json),
        }
    }

    /// Reads any value.
    pub(crate) fn value(&mut self) -> Option<Written<'a>> {
        if self.is_at(b'"')
            && let Some(text) = self.plain()
        {
            return Some(Written::Plain(text));
        }
        let rest = self.json.get(self.at..)?;
        let value = <&RawValue>::deserialize(&mut serde_json::Deserializer::from_str(rest)).ok()?;
        self.at += value.get().len();
        Some(Written::Json(value.get()))
    }

    /// Reads the string at the current position, if it has neither escapes nor control characters.
    fn plain(&mut self) -> Option<&'a str> {
        let rest = self.json.get(self.at + 1..)?;
        let end = memchr::memchr2(b'"', b'\\', rest.as_bytes())?;
        let (text, close) = (rest.get(..end)?, rest.as_bytes().get(end)?);
        // Without an early exit, the compiler compares many bytes at once.
        let is_plain = text.bytes().fold(*close == b'"', |plain, byte| plain & (byte >= b' '));
        is_plain.then(|| {
            self.at += end + 2;
            text
        })
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.json.as_bytes().get(self.at) {
            self.at += 1;
        }
    }
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
