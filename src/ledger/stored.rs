//! How databases keep what a payment may not have.

use crate::protocol::{Payment, TxHash};

/// In place of a transaction that is not known.
const UNKNOWN: TxHash = TxHash::new([0; 32]);

/// The transaction of a payment, as it is kept.
pub(super) fn transaction(paid: &Payment) -> TxHash {
    paid.transaction().unwrap_or(UNKNOWN)
}

/// The transaction that was kept, if there was one.
pub(super) fn known(transaction: TxHash) -> Option<TxHash> {
    Some(transaction).filter(|transaction| *transaction != UNKNOWN)
}
