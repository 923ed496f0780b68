//! `Failure`: why the program ends early.

use std::{fmt::Display, process::ExitCode};

use super::log::Log;

/// An exit code and a sentence, which is told in the way that was asked for.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    reason: String,
    log: Log,
}

impl Failure {
    /// The flags or the configuration ask for what cannot be.
    pub(crate) fn flags(reason: impl Display) -> Self {
        Self { code: 2, reason: reason.to_string(), log: Log::Text }
    }

    /// The flags are fine, the world is not.
    pub(crate) fn world(reason: impl Display) -> Self {
        Self { code: 1, reason: reason.to_string(), log: Log::Text }
    }

    /// With what the program exits.
    pub(crate) const fn code(&self) -> u8 {
        self.code
    }

    /// The sentence.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// The same, told in this form.
    pub(crate) fn told(self, log: Log) -> Self {
        Self { log, ..self }
    }
}

/// Says why the program ended, and with which code.
pub(crate) fn ending(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.log.failed(failure.reason());
            ExitCode::from(failure.code())
        }
    }
}
