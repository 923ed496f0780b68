//! `TransferStatus`: what became of a transfer.

use crate::protocol::TxHash;

/// What became of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum TransferStatus {
    /// Nobody has it: it was never sent, or was dropped. It can still be sent, and mined.
    Unknown,
    /// It was sent, and is in no block yet (or in one that may yet vanish).
    Pending,
    /// This transaction is in a block, and the transfer happened.
    Mined {
        /// Which of those that were sent.
        transaction: TxHash,
        /// How many blocks stand on it, its own included: at least 1.
        confirmations: u64,
    },
    /// This transaction is in a block that will not vanish, and nothing was transferred.
    Reverted {
        /// Which of those that were sent.
        transaction: TxHash,
    },
    /// None of them can ever be mined, and none was: say so only of what will not change.
    Impossible,
}
