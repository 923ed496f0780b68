//! How requests reach the paywall, and how its answers leave.

pub(crate) mod body_reader;
pub(crate) mod page;
pub(crate) mod priced_request;
pub(crate) mod problem;
pub(crate) mod strip;
