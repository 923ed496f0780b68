//! What the checks tell.

use std::fmt;

/// One of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Check {
    /// What [`run_one`](super::run_one) knows it by.
    pub name: &'static str,
    /// The rule it stands for.
    pub rule: &'static str,
}

/// The report of a correct settler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The checks that were made.
    pub passed: Vec<Check>,
    /// The checks that need contract accounts, and were not made.
    pub left_out: Vec<Check>,
}

/// A rule that a settler breaks.
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

/// Every rule that a settler breaks; at least one.
#[derive(Clone, PartialEq, Eq)]
pub struct Violations(pub(super) Vec<Violation>);

impl Violations {
    /// One by one, in the order of [`CHECKS`](super::CHECKS).
    #[must_use]
    pub fn as_slice(&self) -> &[Violation] {
        &self.0
    }
}

/// One a line.
impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the settler breaks {} rules", self.0.len())?;
        self.0.iter().try_for_each(|violation| write!(f, "\n  {violation}"))
    }
}

/// As `Display`, because `unwrap` in a test prints `Debug`.
impl fmt::Debug for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Violations {}
