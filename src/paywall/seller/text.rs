//! The rule for texts that a seller sets: they reach headers, quotes and logs.

use crate::paywall::error::BuildError;

/// How many characters a text may have.
const MAX: usize = 100;

/// Refuses a text that is empty, too long, or could break a header or a log line.
pub(crate) fn check(what: &'static str, text: &str) -> Result<(), BuildError> {
    if text.is_empty() || text.chars().count() > MAX || text.chars().any(char::is_control) {
        return Err(BuildError::InvalidText { what, max: MAX });
    }
    Ok(())
}

/// Makes any text fit the rule, except that it may be empty or blank.
pub(crate) fn fit(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MAX).collect()
}
