//! How requests reach the paywall, and how its answers leave.

pub(crate) mod body_reader;
pub(crate) mod delivery;
pub(crate) mod format;
pub(crate) mod free;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
pub(crate) mod page;
pub(crate) mod quote;
pub(crate) mod refuse;
pub(crate) mod refused_payment;
