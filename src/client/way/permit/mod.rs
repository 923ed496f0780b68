//! By a permit that the seller settles: signed, and what the seller charged of it.

pub(crate) mod charge;
pub(crate) mod sign;
