//! Shows a seller's text on a terminal, with the characters that would control it made visible.

use std::{
    fmt::Write as _,
    io::{self, IsTerminal as _, Write as _},
};

/// Escapes control characters (C0 but newline and tab, DEL, C1) and those that change the direction of writing as
/// `\u001b`, which means the same in JSON.
pub(crate) fn visible(text: &str) -> String {
    escaped(text, steers)
}

/// Writes the characters that `hides` selects by their numbers, as in JSON.
fn escaped(text: &str, hides: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if hides(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Escapes a text for a sentence: on one line, with invisible characters too.
pub(crate) fn on_a_line(text: &str) -> String {
    escaped(text, |c| steers(c) || is_unseen(c)).replace('\n', "\\n")
}

/// Returns the beginning of a text, with an ellipsis if there is more.
#[allow(dead_code, reason = "one of the programs that share this file cuts nothing")]
pub(crate) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// Standard output: escaped text for a terminal, which a seller must not control; otherwise the bytes as they came.
#[allow(dead_code, reason = "one of the programs that share this file writes no answers")]
pub(crate) struct Output {
    is_terminal: bool,
    /// The beginning of an incomplete character.
    rest: Vec<u8>,
}

#[allow(dead_code, reason = "one of the programs that share this file writes no answers")]
impl Output {
    pub(crate) fn new() -> Self {
        Self { is_terminal: io::stdout().is_terminal(), rest: Vec::new() }
    }

    /// Writes a piece immediately.
    pub(crate) fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        let mut to = io::stdout();
        if self.is_terminal {
            self.rest.extend_from_slice(piece);
            let whole = match std::str::from_utf8(&self.rest) {
                Err(cut) if cut.error_len().is_none() => cut.valid_up_to(),
                _ => self.rest.len(),
            };
            let text: Vec<u8> = self.rest.drain(..whole).collect();
            to.write_all(visible(&String::from_utf8_lossy(&text)).as_bytes())?;
        } else {
            to.write_all(piece)?;
        }
        to.flush()
    }
}

fn steers(c: char) -> bool {
    let control = c.is_control() && !matches!(c, '\n' | '\t');
    let direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Terminals that know the line and paragraph separators end a line there.
    control || direction || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Returns whether a character is invisible: texts that differ only in it look the same.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200d}'
        | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_shown() {
        let title = "a\u{1b}]0;owned\u{7}b\rc\u{7f}d\u{9b}2Je\u{202e}f\u{2066}g\0h";
        let shown = visible(title);
        assert_eq!(shown, r"a\u001b]0;owned\u0007b\u000dc\u007fd\u009b2Je\u202ef\u2066g\u0000h");
        assert_eq!(visible("# Größe\n\n\t1 € 日本 🙂"), "# Größe\n\n\t1 € 日本 🙂");
        assert_eq!(on_a_line("a\nerror: b"), "a\\nerror: b");
        assert_eq!(on_a_line("pay\u{200b}pal\u{e0041}"), r"pay\u200bpal\udb40\udc41");
        assert_eq!((cut("größer", 4).as_str(), cut("größer", 6).as_str()), ("größ...", "größer"));
    }

    #[test]
    fn json_keeps_its_meaning() {
        let written = serde_json::json!({ "a": "\u{9b}\u{202e}\u{7f}\u{1b}" });
        let shown = visible(&format!("{written:#}"));
        assert!(!shown.chars().any(steers), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), written);
    }
}
