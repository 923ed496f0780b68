//! Passes: what a seller says of one, and the tickets of a route.

pub(crate) mod memo;
pub(crate) mod terms;
pub(crate) mod ticket;
