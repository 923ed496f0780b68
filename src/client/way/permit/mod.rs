//! By a permit that the seller settles: signed, and what the seller charged of it.

pub(crate) mod charge;
mod funds;
pub(crate) mod sign;

pub(crate) use funds::covers;
