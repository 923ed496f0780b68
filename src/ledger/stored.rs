//! The stored form of values that a payment may lack.

use crate::protocol::{Payment, TxHash};

/// Stands for an unknown transaction.
const UNKNOWN: TxHash = TxHash::new([0; 32]);

/// The transaction of a payment, in its stored form.
pub(super) fn transaction(paid: &Payment) -> TxHash {
    paid.transaction().unwrap_or(UNKNOWN)
}

/// The stored transaction, if it is known.
pub(super) fn known(transaction: TxHash) -> Option<TxHash> {
    Some(transaction).filter(|transaction| *transaction != UNKNOWN)
}
