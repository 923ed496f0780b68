//! JSON in ASCII only, so that clients read it correctly in any encoding that they assume for the decoded base64.

use std::io;

use serde::Serialize;
use serde_json::{Serializer, ser::Formatter};

/// Returns compact JSON, with all characters beyond ASCII escaped.
pub(in crate::protocol) fn to_ascii_json(message: &impl Serialize) -> String {
    let mut out = Vec::new();
    // Cannot fail: memory takes every byte, and every name in a message is a string.
    let _ = message.serialize(&mut Serializer::with_formatter(&mut out, Ascii));
    String::from_utf8(out).unwrap_or_default()
}

struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        let is_escaped = |c: char| !c.is_ascii() || c == '\x7f';
        for text in fragment.split_inclusive(is_escaped) {
            let plain = text.trim_end_matches(is_escaped);
            writer.write_all(plain.as_bytes())?;
            for unit in text.get(plain.len()..).unwrap_or_default().encode_utf16() {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}
