//! By an authorization that the seller settles: signed, followed by the chain's word, and cancelled.

pub(in crate::client) mod cancel;
pub(in crate::client) mod sign;
pub(in crate::client) mod status;
