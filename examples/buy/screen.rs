//! What a seller wrote, on a terminal: characters that would steer it are shown instead.

use std::fmt::Write as _;

/// The text with control characters (C0 but newline and tab, DEL, C1) and those that turn the direction of writing as
/// `\u001b`, which in JSON means the same.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The same on one line: of a text that is part of a sentence.
pub(crate) fn on_a_line(text: &str) -> String {
    visible(text).replace('\n', "\\n")
}

fn steers(c: char) -> bool {
    let control = c.is_control() && !matches!(c, '\n' | '\t');
    let direction =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    // Line and paragraph separator end a line where the terminal knows them.
    control || direction || matches!(c, '\u{2028}' | '\u{2029}')
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
    }

    #[test]
    fn json_keeps_its_meaning() {
        let written = serde_json::json!({ "a": "\u{9b}\u{202e}\u{7f}\u{1b}" });
        let shown = visible(&format!("{written:#}"));
        assert!(!shown.chars().any(steers), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), written);
    }
}
