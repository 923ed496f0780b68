//! `Harness`: what a backend brings to the checks.

use std::{future::Future, time::Duration};

use super::super::Ledger;

/// How a backend is put through the checks.
///
/// It may panic on failure, because it is part of a test.
pub trait Harness: Sync {
    /// The backend.
    type Ledger: Ledger;

    /// A ledger that remembers nothing and was never [begun](Ledger::begin).
    fn fresh(&self) -> impl Future<Output = Self::Ledger> + Send;

    /// Another handle on the same ledger, as a replica would have: a second connection where there are connections.
    fn share(&self, ledger: &Self::Ledger) -> impl Future<Output = Self::Ledger> + Send;

    /// Lets this much time pass, or a little more, on the clock that leases and cool-downs are measured by.
    fn pass(&self, span: Duration) -> impl Future<Output = ()> + Send;

    /// Whether [`pass`](Self::pass) takes no time. If not, the checks that need minutes are left out.
    fn skips_time(&self) -> bool;

    /// How long the leases are that a check waits for to run out. Where time cannot be skipped a second, unless the
    /// backend's answers take so long that a second is not enough for three of them.
    fn lease(&self) -> Duration {
        Duration::from_secs(if self.skips_time() { 60 } else { 1 })
    }

    /// How often each race is run.
    fn rounds(&self) -> usize {
        100
    }
}

/// The harness of a ledger that keeps answers.
pub trait KeepsAnswers: Harness {
    /// A [fresh](Harness::fresh) ledger whose [`answer_space`](Ledger::answer_space) is this many bytes.
    fn with_answer_space(&self, bytes: usize) -> impl Future<Output = Self::Ledger> + Send;
}

/// The harness of a ledger that is durable.
pub trait Reopens: Harness {
    /// Closes the ledger as well as it can be closed, and returns it as the next process opens it. Other handles may stay open.
    fn reopen(&self, ledger: &Self::Ledger) -> impl Future<Output = Self::Ledger> + Send;
}
