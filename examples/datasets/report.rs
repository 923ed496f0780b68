//! Pieces of a Markdown answer: themes, quotations, words.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write,
};

use super::text;

/// How often a tag, a word or a place occurs among the found records.
#[derive(Debug, PartialEq)]
pub(crate) struct Count {
    pub(crate) name: String,
    pub(crate) count: usize,
    /// The share among the found records, divided by the share among all.
    pub(crate) lift: f64,
}

/// Counts the names of each record; a name counts once per record. Most frequent first.
pub(crate) fn count<'a, F, A>(found: F, all: A) -> Vec<Count>
where
    F: Iterator<Item = HashSet<&'a str>>,
    A: Iterator<Item = HashSet<&'a str>>,
{
    let (found, found_total) = tally(found);
    let (all, all_total) = tally(all);
    let mut counts: Vec<_> = found
        .into_iter()
        .map(|(name, count)| {
            let of_all = all.get(name).copied().unwrap_or(count);
            let lift = (count * all_total) as f64 / (of_all * found_total).max(1) as f64;
            Count { name: name.to_owned(), count, lift }
        })
        .collect();
    counts.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    counts
}

fn tally<'a>(records: impl Iterator<Item = HashSet<&'a str>>) -> (BTreeMap<&'a str, usize>, usize) {
    let (mut counts, mut total) = (BTreeMap::new(), 0);
    for record in records {
        total += 1;
        for name in record {
            *counts.entry(name).or_default() += 1;
        }
    }
    (counts, total)
}

/// Writes a table of the most frequent themes; `what` names the counted records.
pub(crate) fn themes(out: &mut String, counts: &[Count], what: &str, total: usize) {
    if counts.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n## Themes\n\n| Theme | {what} | Share | Compared with all |\n|---|---|---|---|");
    for theme in counts.iter().take(6) {
        let Count { name, count, lift } = theme;
        let _ = writeln!(out, "| {name} | {count} | {} | {lift:.1}× |", percent(*count, total));
    }
}

/// Lists the first `most` of `counts`: `pricing (12), trust (3)`.
pub(crate) fn listed(counts: &[Count], most: usize) -> String {
    let names: Vec<_> = counts.iter().take(most).map(|c| format!("{} ({})", c.name, c.count)).collect();
    names.join(", ")
}

/// Formats `part` of `total` in percent.
pub(crate) fn percent(part: usize, total: usize) -> String {
    format!("{} %", (part * 200 + total) / (2 * total).max(1))
}

/// Writes a quotation and its author.
pub(crate) fn quote(out: &mut String, said: &str, who: &str) {
    out.push('\n');
    for line in said.lines() {
        let _ = writeln!(out, "> {line}");
    }
    let _ = writeln!(out, ">\n> — {who}");
}

/// The quotations given so far, to avoid a second one that says nearly the same.
#[derive(Debug, Default)]
pub(crate) struct Quoted(Vec<String>);

impl Quoted {
    /// Returns whether `said` is new, and records it.
    pub(crate) fn is_new(&mut self, said: &str) -> bool {
        let new = self.0.iter().all(|given| text::overlap(said, given) < 50);
        if new {
            self.0.push(said.to_owned());
        }
        new
    }
}

/// Returns words that distinguish the found texts from all texts, with the number of texts that have them.
pub(crate) fn telling_words(found: &[String], all: &[String]) -> Vec<Count> {
    let mut counts = count(found.iter().map(|t| word_set(t)), all.iter().map(|t| word_set(t)));
    counts.retain(|c| c.count >= 2 && c.lift >= 1.3);
    // A word must be frequent here and rarer elsewhere.
    let weight = |c: &Count| c.count as f64 * c.lift.min(8.0);
    counts.sort_by(|a, b| weight(b).total_cmp(&weight(a)).then_with(|| a.name.cmp(&b.name)));
    counts.truncate(10);
    counts
}

/// Returns the longer lower-case words of `text`, without names and beginnings of sentences.
fn word_set(text: &str) -> HashSet<&str> {
    text.split(|c: char| !c.is_alphabetic())
        .filter(|word| word.chars().count() > 3 && !word.contains(char::is_uppercase) && !text::is_stop_word(word))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_compare_with_the_whole_set() {
        let all = [vec!["a"], vec!["a", "b"], vec!["b"], vec!["c"]];
        let sets =
            |rows: &[usize]| rows.iter().map(|r| all[*r].iter().copied().collect()).collect::<Vec<HashSet<&str>>>();
        let counts = count(sets(&[0, 1]).into_iter(), sets(&[0, 1, 2, 3]).into_iter());
        assert_eq!(counts[0], Count { name: "a".into(), count: 2, lift: 2.0 });
        assert_eq!(counts[1], Count { name: "b".into(), count: 1, lift: 1.0 });
        assert_eq!(listed(&counts, 1), "a (2)");
    }

    #[test]
    fn near_repetitions_are_not_quoted() {
        let mut quoted = Quoted::default();
        assert!(quoted.is_new("Is the price per seat or per agent?"));
        assert!(!quoted.is_new("Is the price per seat or per month?"));
        assert!(quoted.is_new("Where is our data stored?"));
    }

    #[test]
    fn percentages_round_to_the_nearest() {
        assert_eq!((percent(1, 3), percent(2, 3), percent(0, 0)), ("33 %".into(), "67 %".into(), "0 %".into()));
    }
}
