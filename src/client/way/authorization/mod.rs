//! By an authorization that the seller settles: signed, followed by the chain's word, and cancelled.

pub(crate) mod cancel;
pub(crate) mod sign;
pub(crate) mod status;
