//! By an authorization that the seller settles: signed, and cancelled.

pub(crate) mod cancel;
pub(crate) mod sign;
