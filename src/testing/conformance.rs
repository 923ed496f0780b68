//! The reports of the conformance suites in [`ledger::conformance`](crate::ledger::conformance) and
//! [`settle::conformance`](crate::settle::conformance).

use std::fmt;

/// One check of a suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// The name that a suite's `run_one` takes.
    pub name: &'static str,
    /// The rule behind the check.
    pub rule: &'static str,
    /// Whether the check needs a harness that [skips time](crate::ledger::conformance::Harness::skips_time).
    pub takes_minutes: bool,
}

/// The report of a backend that keeps every rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The checks that were made.
    pub passed: Vec<Check>,
    /// The checks that the harness does not support: of a ledger, those that would take minutes; of a settler, those
    /// that need contract accounts.
    pub left_out: Vec<Check>,
}

/// A rule that a backend breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The check that found it.
    pub check: Check,
    /// What happened instead.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; but {}", self.check.name, self.check.rule, self.detail)
    }
}

impl std::error::Error for Violation {}

/// Every rule that a backend breaks; at least one.
#[derive(Clone, PartialEq, Eq)]
pub struct Violations {
    broken: Vec<Violation>,
    backend: &'static str,
    /// The number of checks that were made.
    made: usize,
}

impl Violations {
    /// Returns the violations in the order of the checks.
    #[must_use]
    pub fn as_slice(&self) -> &[Violation] {
        &self.broken
    }

    /// Returns the report if no rule is broken.
    pub(crate) fn or(broken: Vec<Violation>, backend: &'static str, report: Report) -> Result<Report, Self> {
        if broken.is_empty() {
            return Ok(report);
        }
        let made = report.passed.len() + broken.len();
        Err(Self { broken, backend, made })
    }
}

/// One violation on each line.
impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} breaks {} of {} rules", self.backend, self.broken.len(), self.made)?;
        self.broken.iter().try_for_each(|violation| write!(f, "\n  {violation}"))
    }
}

/// As `Display`, because `unwrap` in a test prints `Debug`.
impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Violations {}
