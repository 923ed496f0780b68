//! `SubmitGuard`: one payment at a time.

use std::{any::Any, fmt};

/// Leave to prepare and send: while it lives, no other payment of the same payer is prepared.
#[must_use = "the turn is over when this is dropped"]
pub struct SubmitGuard(#[expect(dead_code, reason = "held for its Drop")] Option<Box<dyn Any + Send + Sync>>);

impl SubmitGuard {
    /// For payers that need no order.
    pub const fn free() -> Self {
        Self(None)
    }

    /// Ends when `guard` is dropped.
    pub fn held(guard: impl Any + Send + Sync) -> Self {
        Self(Some(Box::new(guard)))
    }
}

impl fmt::Debug for SubmitGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SubmitGuard")
    }
}
