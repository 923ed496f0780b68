//! Metrics under stable names. A test compares them with the table of [the guide](crate::guide::metrics).
//!
//! Without the feature `metrics` every function of this room is empty and every timer passes its future through as it is. No label is
//! of unbounded cardinality: resources are named by the seller, outcomes and questions are words of this crate, tokens are those that
//! the seller accepts, and endpoints go by their place. Nothing here names an intent, a transaction, a payer or a host.

#[cfg(not(feature = "metrics"))]
mod off;
#[cfg(feature = "metrics")]
mod on;

#[cfg(not(feature = "metrics"))]
pub(crate) use off::*;
#[cfg(feature = "metrics")]
pub(crate) use on::*;
