//! Metrics under stable names. A test compares them with the table of [the guide](crate::guide::metrics).
//!
//! Without the feature `metrics` every function of this module is empty, and every timer passes its future through
//! unchanged. No label has unbounded cardinality: the seller names the resources, outcomes and questions are words of
//! this crate, tokens are those that the seller accepts, and endpoints are named by their index. No label names an
//! intent, a transaction, a payer or a host.

#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;

#[cfg(not(feature = "metrics"))]
pub(crate) use off::*;
#[cfg(feature = "metrics")]
pub(crate) use on::*;
