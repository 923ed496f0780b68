//! Words: the terms of a question, and text for Markdown.

use std::{collections::HashSet, sync::LazyLock};

/// The maximum number of words of a question that are searched for.
const MAX_TERMS: usize = 32;

/// Words without information about the subject.
static STOP_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| WORDS.split_whitespace().collect());

const WORDS: &str = "a about actually after again all also am an and any anybody anyone are as ask asked asking at be because been before being \
    best between both but by can could customer customers did do does doing dont during each either else even ever every everybody for from \
    get give gives got had has have having he help her here him his how i if in into is it its just know let like made make makes many \
    may me might more most much must my need needs no nobody not now of often on one only or other our out over people please really \
    said same say saying says see she should show so some somebody someone something such take tell than thank that the their them then \
    there these they thing things think this those to too up us use user users using very visitor visitors want wants was way we well \
    were what when where which while who whom whose why will with without would yes you your";

/// Returns the words of `text` in lower case.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Returns whether `word` says nothing about a subject.
pub(crate) fn is_stop_word(word: &str) -> bool {
    word.chars().count() < 2 || STOP_WORDS.contains(word)
}

/// Returns the distinct words of a question that are worth searching for.
pub(crate) fn terms(question: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    words(question).filter(|word| !is_stop_word(word) && seen.insert(word.clone())).take(MAX_TERMS).collect()
}

/// Returns an FTS5 expression that finds any of `terms`. Each is quoted and has only letters and digits, so no part
/// of a question is read as syntax.
pub(crate) fn any_of(terms: &[String]) -> String {
    let quoted: Vec<_> = terms.iter().map(|term| format!("\"{term}\"")).collect();
    quoted.join(" OR ")
}

/// Returns how many percent of the words of `a` are also in `b`.
pub(crate) fn overlap(a: &str, b: &str) -> usize {
    let b: HashSet<_> = words(b).collect();
    let a: HashSet<_> = words(a).collect();
    a.iter().filter(|word| b.contains(*word)).count() * 100 / a.len().max(1)
}

/// Returns `text` on one line of at most 120 characters, with Markdown's special characters escaped.
pub(crate) fn heading(text: &str) -> String {
    let line = text.split(|c: char| c.is_whitespace() || c.is_control());
    let line = line.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    let mut out = String::with_capacity(line.len());
    for c in line.chars().take(120) {
        if "\\`*_[]<>#|~&".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    if line.chars().count() > 120 {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_the_words_with_meaning() {
        assert_eq!(terms("What do visitors say about the PRICE per-seat, price?"), ["price", "per", "seat"]);
        assert!(terms("what is it that you have?").is_empty());
        assert_eq!(terms(&"a1 b2 c3 d4 ".repeat(50)).len(), 4);
    }

    #[test]
    fn syntax_becomes_plain_words() {
        let terms = terms("\"seat\" OR NEAR(x*, y) visitor:price ^ -refund");
        assert_eq!(any_of(&terms), r#""seat" OR "near" OR "price" OR "refund""#);
    }

    #[test]
    fn a_heading_cannot_break_out() {
        assert_eq!(heading("a\n\n# b <img> \u{7}"), "a \\# b \\<img\\>");
        assert_eq!(heading(&"x".repeat(200)).chars().count(), 121);
    }
}
