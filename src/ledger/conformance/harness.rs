//! `Harness`: the interface between a backend and the checks.

use std::{future::Future, time::Duration};

use super::super::Ledger;

/// Gives the checks access to a backend.
///
/// It may panic on failure, because it is part of a test.
pub trait Harness: Sync {
    /// The backend.
    type Ledger: Ledger;

    /// Returns an empty ledger that was never [begun](Ledger::begin).
    fn fresh(&self) -> impl Future<Output = Self::Ledger> + Send;

    /// Returns another handle on the same ledger, as a replica would have: a second connection, if the backend has
    /// connections.
    fn share(&self, ledger: &Self::Ledger) -> impl Future<Output = Self::Ledger> + Send;

    /// Lets at least this much time pass on the clock of leases and cool-downs.
    fn pass(&self, span: Duration) -> impl Future<Output = ()> + Send;

    /// Whether [`pass`](Self::pass) takes no real time. If it does, checks that need minutes are left out.
    fn skips_time(&self) -> bool;

    /// The length of the leases whose expiry a check awaits. If time cannot be skipped: a second, or more if the
    /// backend cannot give three answers within a second.
    fn lease(&self) -> Duration {
        Duration::from_secs(if self.skips_time() { 60 } else { 1 })
    }

    /// The number of rounds of each race.
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
    /// Closes the ledger as well as possible, and returns it as the next process opens it. Other handles may stay open.
    fn reopen(&self, ledger: &Self::Ledger) -> impl Future<Output = Self::Ledger> + Send;
}
