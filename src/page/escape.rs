//! Text for HTML: no text can be read as markup.

use std::fmt::{self, Write};

/// Displays a text so that HTML reads it as this text, between tags and in quoted attributes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '`' => f.write_str("&#96;")?,
                // They change the direction of the surrounding text.
                '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}' => {
                    f.write_char('\u{fffd}')?;
                }
                c if c.is_control() && !matches!(c, '\n' | '\t') => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Writes JSON for a `<script type="application/json">`, escaping everything that could end that element.
pub(super) fn json_in_html(value: &impl serde::Serialize) -> String {
    // Values of strings and numbers always serialise.
    let json = serde_json::to_string(value).unwrap_or_else(|_| "{}".to_owned());
    let mut out = String::with_capacity(json.len() + 32);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_markup() {
        for (text, shown) in [
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("\" onload='x' `y` &amp;", "&quot; onload=&#39;x&#39; &#96;y&#96; &amp;amp;"),
            ("Überblick – 日本", "Überblick – 日本"),
            ("a\u{202e}b\u{0}c\u{7}\u{85}", "a\u{fffd}b\u{fffd}c\u{fffd}\u{fffd}"),
            ("two\nlines", "two\nlines"),
        ] {
            assert_eq!(Escaped(text).to_string(), shown);
        }
    }

    #[test]
    fn json_does_not_end_its_element() {
        let texts = ["</script><script>", "<!--", "]]>", "&lt;", "\u{2028}\u{2029}"];
        let written = json_in_html(&texts);
        assert!(!written.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{written}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&written).unwrap(), texts);
    }
}
