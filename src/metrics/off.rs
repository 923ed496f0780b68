//! The empty functions without the feature `metrics`.
#![allow(dead_code, reason = "each of the features that are on calls some of these")]

use std::{fmt, future::Future, sync::Arc};

use crate::protocol::{Amount, Network};

#[inline]
pub(crate) fn describe() {}

/// The quotes of one resource.
#[derive(Clone)]
pub(crate) struct Quotes;

impl Quotes {
    #[inline]
    pub(crate) fn of(_: &Arc<str>) -> Self {
        Self
    }

    #[inline]
    pub(crate) fn count(&self) {}
}

#[inline]
pub(crate) fn refused(_: &Arc<str>, _: &'static str) {}

#[inline]
pub(crate) fn redeemed(_: &Arc<str>, _: &'static str) {}

#[inline]
pub(crate) fn sold(_: &Arc<str>, _: Network, _: &dyn fmt::Display, _: impl FnOnce() -> u64) {}

#[inline]
pub(crate) fn allowed(_: &Arc<str>, _: Network, _: &dyn fmt::Display, _: impl FnOnce() -> u64) {}

#[inline]
pub(crate) fn claimed_of_channels(_: Network, _: &dyn fmt::Display, _: Amount) {}

#[inline]
pub(crate) fn lost_in_channels(_: Network, _: &dyn fmt::Display, _: u128) {}

#[inline]
pub(crate) fn owed_in_channels(_: Network, _: &dyn fmt::Display, _: u32, _: [u128; 2]) {}

#[inline]
pub(crate) fn answered_after(_: &Arc<str>, _: impl FnOnce() -> u64) {}

#[inline]
pub(crate) fn handler<F: Future>(_: &Arc<str>, answer: F) -> F {
    answer
}

#[inline]
pub(crate) fn ledger<F: Future>(_: &'static str, answer: F) -> F {
    answer
}

#[inline]
pub(crate) fn verification<F: Future>(_: &'static str, answer: F) -> F {
    answer
}

#[inline]
pub(crate) fn facilitator<F: Future>(_: &'static str, answer: F) -> F {
    answer
}

#[inline]
pub(crate) fn rpc_call(_: Option<usize>) {}

#[inline]
pub(crate) fn rpc_failure(_: usize) {}

#[inline]
pub(crate) fn head(_: impl FnOnce() -> u64) {}

#[inline]
pub(crate) fn reorganised() {}

/// A lease that is held.
pub(crate) struct HeldLease;

impl HeldLease {
    #[inline]
    pub(crate) const fn new() -> Self {
        Self
    }
}
