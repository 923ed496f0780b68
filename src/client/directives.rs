//! What a caller may put into a request's extensions.

use crate::protocol::TxHash;

/// A request extension: finishes an unfinished purchase of this request, and pays nothing new.
///
/// If the journal has none, the call ends in [`PayError::NothingToResume`](super::PayError::NothingToResume).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResumeOnly;

/// A request extension: this transaction has paid already, by another wallet or without a journal. The layer asks for a
/// quote, pays nothing, and redeems the transaction. See [`PayLayer::redeem_only`](super::PayLayer::redeem_only).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlreadyPaid(pub TxHash);
