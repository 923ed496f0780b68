//! What a caller may put into a request's extensions.

use crate::protocol::TxHash;

/// Put into a request's extensions: finish an unfinished purchase of this request, and pay nothing new.
///
/// Where the journal has none, the call ends in [`PayError::NothingToResume`](super::PayError::NothingToResume).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumeOnly;

/// Put into a request's extensions: this transaction paid already, by another wallet or without a journal. The layer
/// asks for a quote, pays nothing, and redeems it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyPaid(pub TxHash);
