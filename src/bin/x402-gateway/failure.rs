//! `Failure`: why the program ends early.

use std::{fmt::Display, process::ExitCode};

use super::log::Log;

/// An exit code and its reason, with the log format to print it in.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    reason: String,
    log: Log,
}

impl Failure {
    /// A failure of the flags or the configuration: exit code 2.
    pub(crate) fn usage(reason: impl Display) -> Self {
        Self { code: 2, reason: reason.to_string(), log: Log::Text }
    }

    /// A failure of the environment; the flags are valid: exit code 1.
    pub(crate) fn environment(reason: impl Display) -> Self {
        Self { code: 1, reason: reason.to_string(), log: Log::Text }
    }

    /// The program's exit code.
    pub(crate) const fn code(&self) -> u8 {
        self.code
    }

    /// The sentence.
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// Sets the log format to print the reason in.
    pub(crate) fn with_log(self, log: Log) -> Self {
        Self { log, ..self }
    }
}

/// Logs why the program failed, and returns its exit code.
pub(crate) fn ending(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.log.failed(failure.reason());
            ExitCode::from(failure.code())
        }
    }
}
