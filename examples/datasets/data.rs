//! The three datasets: their types, and how they are read from a folder.

use std::{
    collections::BTreeSet,
    fmt, fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use sha2::{Digest, Sha256};

use super::generate;

pub(crate) const CHATS: &str = "chats.jsonl";
pub(crate) const GOALS: &str = "goals.jsonl";
pub(crate) const CONVERSIONS: &str = "conversions.jsonl";

/// An anonymized visitor chat.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Chat {
    pub(crate) id: String,
    pub(crate) date: String,
    pub(crate) country: String,
    /// The page on which it began.
    pub(crate) page: String,
    /// The subjects, if somebody classified it.
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    pub(crate) turns: Vec<Turn>,
}

/// One message of a chat.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Turn {
    pub(crate) by: Speaker,
    pub(crate) text: String,
}

/// Who wrote a message.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Speaker {
    Visitor,
    Team,
}

/// A subscriber's goal for the next twelve months.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Goal {
    pub(crate) id: String,
    pub(crate) date: String,
    pub(crate) country: String,
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) tags: Vec<String>,
    pub(crate) goal: String,
}

/// Visitors and buyers of one agent in one month, country and industry.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Conversion {
    pub(crate) month: String,
    pub(crate) agent: String,
    pub(crate) category: String,
    pub(crate) industry: String,
    pub(crate) country: String,
    pub(crate) visitors: u64,
    pub(crate) conversions: u64,
}

/// The records of one file, and the SHA-256 of its bytes in hexadecimal.
#[derive(Debug)]
pub(crate) struct Dataset<T> {
    pub(crate) records: Vec<T>,
    pub(crate) hash: String,
}

/// Everything that is for sale.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) chats: Dataset<Chat>,
    pub(crate) goals: Dataset<Goal>,
    pub(crate) conversions: Dataset<Conversion>,
}

/// Why a folder could not be read: one sentence that names file and line.
#[derive(Debug)]
pub(crate) struct DataError(String);

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DataError {}

/// Returns the folder with this example's data in the repository; the published package omits it.
pub(crate) fn example_dir() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The demo's manifest is in a folder beside this example.
    let beside = manifest.join("../datasets/data");
    if beside.is_dir() { beside } else { manifest.join("examples/datasets/data") }
}

impl Data {
    /// Returns the synthetic data of this example: from the repository's files, or else from the generator that wrote
    /// them.
    ///
    /// # Errors
    /// Fails like [`load`](Self::load) if the files were edited.
    pub(crate) fn example() -> Result<Self, DataError> {
        let dir = example_dir();
        if dir.join(CHATS).exists() { Self::load(&dir) } else { Self::generated() }
    }

    fn generated() -> Result<Self, DataError> {
        let [(chats, chat_lines), (goals, goal_lines), (conversions, conversion_lines)] = generate::files();
        Ok(Self {
            chats: parse(chats, &chat_lines)?,
            goals: parse(goals, &goal_lines)?,
            conversions: parse(conversions, &conversion_lines)?,
        })
    }

    /// Reads the three files in `dir`.
    ///
    /// # Errors
    /// Fails if a file is missing, empty, or has a malformed line.
    pub(crate) fn load(dir: &Path) -> Result<Self, DataError> {
        Ok(Self {
            chats: read(&dir.join(CHATS))?,
            goals: read(&dir.join(GOALS))?,
            conversions: read(&dir.join(CONVERSIONS))?,
        })
    }

    /// Returns the distinct values of one column of the conversions, sorted.
    pub(crate) fn distinct(&self, column: impl Fn(&Conversion) -> &str) -> Vec<String> {
        let values: BTreeSet<_> = self.conversions.records.iter().map(column).collect();
        values.into_iter().map(str::to_owned).collect()
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Dataset<T>, DataError> {
    let name = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|error| DataError(format!("cannot read {name}: {error}")))?;
    parse(&name, &text)
}

fn parse<T: DeserializeOwned>(name: &str, text: &str) -> Result<Dataset<T>, DataError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let records = lines
        .map(|(at, line)| {
            serde_json::from_str(line)
                .map_err(|error| DataError(format!("{name}, line {}: {}", at + 1, reason(&error))))
        })
        .collect::<Result<Vec<T>, _>>()?;
    if records.is_empty() {
        return Err(DataError(format!("{name} has no records: one JSON object per line is expected")));
    }
    let hash = format!("{:x}", Sha256::digest(text.as_bytes()));
    Ok(Dataset { records, hash })
}

/// Returns the parser's reason, with its position in the line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or_default();
    format!("{reason} (column {})", error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_data_is_large_and_wide_enough() {
        let data = Data::example().unwrap();
        assert!(data.chats.records.len() >= 400);
        assert!(data.chats.records.iter().all(|chat| chat.turns.len() >= 3));
        assert!(data.goals.records.len() >= 1_200);
        assert!(data.conversions.records.len() >= 6_000);
        assert!(data.distinct(|c| &c.country).len() >= 20);
        assert!(data.distinct(|c| &c.category).len() >= 12);
        assert!(data.distinct(|c| &c.industry).len() >= 15);
        assert!(data.distinct(|c| &c.agent).len() >= 60);
    }

    #[test]
    fn without_files_the_same_data_is_generated() {
        let (data, generated) = (Data::example().unwrap(), Data::generated().unwrap());
        assert_eq!(data.chats.hash, generated.chats.hash);
        assert_eq!(data.goals.hash, generated.goals.hash);
        assert_eq!(data.conversions.hash, generated.conversions.hash);
        assert_eq!(data.conversions.records.len(), generated.conversions.records.len());
    }

    #[test]
    fn tags_may_be_absent() {
        let dir = tempfile::tempdir().unwrap();
        let chat = r#"{"id":"1","date":"2026-01-01","country":"Peru","page":"home","turns":[{"by":"visitor","text":"How much?"}]}"#;
        let goal = r#"{"id":"1","date":"2026-01-01","country":"Peru","role":"cook","goal":"I want to cook with AI."}"#;
        let sold = r#"{"month":"2026-01","agent":"A","category":"B","industry":"C","country":"Peru","visitors":0,"conversions":0}"#;
        for (name, line) in [(CHATS, chat), (GOALS, goal), (CONVERSIONS, sold)] {
            fs::write(dir.path().join(name), line).unwrap();
        }
        let data = Data::load(dir.path()).unwrap();
        assert!(data.chats.records[0].tags.is_empty() && data.goals.records[0].tags.is_empty());
    }

    #[test]
    fn a_broken_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let missing = Data::load(dir.path()).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read") && missing.contains("chats.jsonl"), "{missing}");

        fs::write(dir.path().join(CHATS), "\n{\"id\":\"c1\",\"date\":\"2026-01-01\"}\n").unwrap();
        let broken = Data::load(dir.path()).unwrap_err().to_string();
        assert!(broken.ends_with("chats.jsonl, line 2: missing field `country` (column 31)"), "{broken}");

        fs::write(dir.path().join(CHATS), "\n \n").unwrap();
        let empty = Data::load(dir.path()).unwrap_err().to_string();
        assert!(empty.contains("has no records"), "{empty}");
    }
}
