//! How it is said: what a 402 asks for, how a payment is shown, and what the seller replies. Values and text alone.

pub(in crate::client) mod authorization_terms;
pub(in crate::client) mod bill;
pub(in crate::client) mod reply;
pub(in crate::client) mod transfer_proof;
