//! Reads the template files: topics with lines of several kinds, and slots to fill.

use std::collections::BTreeMap;

use super::rng::Rng;

/// One topic: its name and its lines, by their leading letter.
pub(super) struct Topic {
    pub(super) name: &'static str,
    lines: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Topic {
    /// Returns any line of `kind`; every topic in these files has all kinds.
    pub(super) fn line(&self, kind: &str, rng: &mut Rng) -> &'static str {
        self.lines.get(kind).map_or("", |lines| rng.pick(lines))
    }
}

pub(super) fn topics(file: &'static str) -> Vec<Topic> {
    let mut topics: Vec<Topic> = Vec::new();
    for line in file.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix("== ") {
            let lines = BTreeMap::new();
            topics.push(Topic { name, lines });
        } else if let (Some(topic), Some((kind, text))) = (topics.last_mut(), line.split_once(' ')) {
            topic.lines.entry(kind).or_default().push(text);
        }
    }
    topics
}

/// The possible values of each `{word}`.
pub(super) struct Slots(BTreeMap<&'static str, Vec<&'static str>>);

impl Slots {
    pub(super) fn new() -> Self {
        let lines = include_str!("slots.txt").lines();
        Self(
            lines
                .filter(|line| !line.starts_with('#'))
                .filter_map(|line| line.split_once(": "))
                .map(|(name, values)| (name, values.split("; ").collect()))
                .collect(),
        )
    }

    /// Draws one value for each slot: within one conversation a slot keeps its value.
    pub(super) fn draw(&self, industry: &'static str, country: &'static str, rng: &mut Rng) -> Filled {
        let mut values: BTreeMap<_, _> = self.0.iter().map(|(name, all)| (*name, rng.pick(all))).collect();
        values.insert("country", country);
        values.insert("industry", industry);
        Filled(values)
    }
}

/// One value for each slot.
pub(super) struct Filled(BTreeMap<&'static str, &'static str>);

impl Filled {
    pub(super) fn fill(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for (name, value) in &self.0 {
            let value = match *name {
                "industry" => value.to_lowercase(),
                "country" if value.starts_with("United ") || *value == "Netherlands" => format!("the {value}"),
                _ => (*value).to_owned(),
            };
            out = out.replace(&format!("{{{name}}}"), &value);
        }
        let mut chars = out.chars();
        chars.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
    }
}
