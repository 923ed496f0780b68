//! Payments by a transfer that was mined.

pub(crate) mod claimant;
pub(crate) mod verification;
