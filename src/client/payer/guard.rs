//! `SubmitGuard`: exclusive access to preparing and sending.

use std::{any::Any, fmt};

/// Exclusive access to [`prepare`](crate::client::Payer::prepare) and [`send`](crate::client::Payer::send): until it is dropped, no
/// other payment of the same payer is prepared.
#[must_use = "access ends when this is dropped"]
pub struct SubmitGuard(#[expect(dead_code, reason = "held for its Drop")] Option<Box<dyn Any + Send + Sync>>);

impl SubmitGuard {
    /// Returns a guard that excludes nothing, for payers whose payments do not affect each other.
    pub const fn free() -> Self {
        Self(None)
    }

    /// Returns a guard that releases `guard` when it is dropped.
    pub fn held(guard: impl Any + Send + Sync) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl fmt::Debug for SubmitGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubmitGuard")
    }
}
