//! The formats in which payments are asked for and shown: the headers of a quote and of a proof.

pub(crate) mod client_submitted;
pub(crate) mod mpp;
pub(crate) mod outcome;
pub(crate) mod purchase;
pub(crate) mod quote;
pub(crate) mod version_1;
