//! `Source`: the text of the file, and errors about places in it.

use std::{
    borrow::Cow,
    fs,
    path::{Path, PathBuf},
};

use super::{super::failure::Failure, file::Place};

/// The file's path and text.
#[derive(Debug)]
pub(crate) struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// Reads the file.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let text = fs::read_to_string(path).map_err(|error| {
            let why = error.kind();
            Failure::usage(format!(
                "cannot read the configuration {}: {why}; name it with --config FILE",
                path.display()
            ))
        })?;
        Ok(Self { path: path.to_owned(), text })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Resolves a path that the file names: relative to the file's folder, unless absolute.
    pub(crate) fn beside(&self, path: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }

    /// Describes an error at this place, in one line.
    pub(crate) fn wrong(&self, at: &Place, what: impl AsRef<str>) -> Failure {
        let before = self.text.as_bytes().get(..at.start).unwrap_or(self.text.as_bytes());
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let what = what.as_ref().trim().replace('\n', "; ");
        Failure::usage(format!("{}:{line}: {what}", self.path.display()))
    }

    /// Describes an error of the parser.
    pub(crate) fn unparsed(&self, error: &toml::de::Error) -> Failure {
        match error.span() {
            Some(place) => {
                let what = without_text(error.message());
                match self.key(&place) {
                    Some(key) if matches!(what, Cow::Owned(_)) => self.wrong(&place, format!("{key}: {what}")),
                    _ => self.wrong(&place, what),
                }
            }
            None => {
                let what = without_text(error.message()).replace('\n', "; ");
                Failure::usage(format!("{}: {what}", self.path.display()))
            }
        }
    }

    /// Returns the key before this place, on its line.
    fn key(&self, at: &Place) -> Option<&str> {
        let line = self.text.get(..at.start)?.rsplit('\n').next()?;
        let key = line.split_once('=')?.0.trim();
        let is_key = key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
        Some(key).filter(|key| is_key && !key.is_empty())
    }
}

/// Returns the parser's message without any text that it quotes from the file: it may be a secret in the wrong place.
fn without_text(message: &str) -> Cow<'_, str> {
    let quoted = message.split_once("string \"").zip(message.rsplit_once("\", expected "));
    match quoted {
        Some(((before, _), (_, after))) => format!("{before}text, expected {after}").into(),
        None => message.into(),
    }
}
