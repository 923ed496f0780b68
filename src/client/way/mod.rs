//! How the money moves: by a transfer that the payer sends, or an authorization that the seller settles.

pub(in crate::client) mod authorization;
pub(in crate::client) mod choice;
pub(in crate::client) mod transfer;
