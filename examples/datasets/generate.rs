//! Generates the synthetic data files: the same bytes every time, on every machine.
//!
//! Only integers are drawn and no clock is read, so a changed file in `data/` always means a
//! changed generator.

mod chats;
mod conversions;
mod goals;
mod rng;
mod template;

use std::{fs, io, path::Path};

use super::data::{CHATS, CONVERSIONS, GOALS};

/// Countries of visitors, subscribers and marketplace customers.
const COUNTRIES: [&str; 26] = [
    "Argentina",
    "Australia",
    "Brazil",
    "Canada",
    "Chile",
    "France",
    "Germany",
    "India",
    "Indonesia",
    "Italy",
    "Japan",
    "Kenya",
    "Mexico",
    "Netherlands",
    "New Zealand",
    "Nigeria",
    "Poland",
    "Portugal",
    "Singapore",
    "South Africa",
    "South Korea",
    "Spain",
    "Sweden",
    "United Arab Emirates",
    "United Kingdom",
    "United States",
];

/// Industries of marketplace customers.
const INDUSTRIES: [&str; 17] = [
    "Agriculture",
    "Banking",
    "Consulting",
    "Education",
    "Energy",
    "Healthcare",
    "Hospitality",
    "Insurance",
    "Legal services",
    "Logistics",
    "Manufacturing",
    "Media",
    "Nonprofit",
    "Public sector",
    "Real estate",
    "Retail",
    "Software",
];

/// Returns the three files as `(name, content)`.
pub(crate) fn files() -> [(&'static str, String); 3] {
    [(CHATS, chats::file()), (GOALS, goals::file()), (CONVERSIONS, conversions::file())]
}

/// Writes the three files into `dir`, and creates it if necessary.
///
/// # Errors
/// Fails with the error of the file system.
pub(crate) fn write(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for (name, content) in files() {
        fs::write(dir.join(name), content)?;
    }
    Ok(())
}

/// Writes one JSON document a line.
fn lines<T: serde::Serialize>(records: impl Iterator<Item = T>) -> String {
    let mut file = String::new();
    for line in records.filter_map(|record| serde_json::to_string(&record).ok()) {
        file.push_str(&line);
        file.push('\n');
    }
    file
}

#[cfg(test)]
mod tests {
    use super::{super::data, *};

    #[test]
    fn committed_files_are_what_the_generator_writes() {
        let dir = data::example_dir();
        // Cargo adds this file to packages, and the published package omits the data.
        if Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml.orig").exists() {
            return;
        }
        for (name, content) in files() {
            let committed = fs::read_to_string(dir.join(name)).unwrap();
            assert!(committed == content, "{name} differs: run with --generate");
        }
    }

    #[test]
    fn no_brace_is_left_unfilled() {
        for (name, content) in files() {
            let unfilled = content.split('{').skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase()));
            assert!(!unfilled, "{name}");
            assert!(content.is_ascii(), "{name}");
        }
    }
}
