//! Pays by a permit that the seller settles: signs it, and determines its charge.

pub(crate) mod charge;
mod funds;
pub(crate) mod sign;

pub(crate) use funds::covers;
