//! `TransferStatus`: the status of a transfer.

use crate::protocol::TxHash;

/// The status of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
#[non_exhaustive]
pub enum TransferStatus {
    /// No node has it: it was never sent, or was dropped. It can still be sent and mined.
    Unknown,
    /// It was sent, and is not in a block yet, or only in one that may vanish.
    Pending,
    /// This transaction is mined, and the transfer happened.
    Mined {
        /// Which of the sent transactions.
        transaction: TxHash,
        /// How many blocks confirm it, its own included: at least 1.
        confirmations: u64,
    },
    /// This transaction is in a block that will not vanish, and nothing was transferred.
    Reverted {
        /// Which of the sent transactions.
        transaction: TxHash,
    },
    /// None of the transactions was mined, and none ever can be. Return it only if that cannot change.
    Impossible,
}
