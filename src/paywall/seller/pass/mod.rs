//! Passes: their terms, and the tickets of a route.

pub(crate) mod memo;
pub(crate) mod terms;
pub(crate) mod ticket;
