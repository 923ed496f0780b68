//! Pays by an authorization that the seller settles: signs and cancels it.

pub(crate) mod cancel;
pub(crate) mod sign;
