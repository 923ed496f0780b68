//! `Transfer`: one token transfer, the unit that is spent.

use std::time::Duration;

use super::{Address, Amount, Network, PaymentId, TxHash};

/// A moment in chain time: a block's timestamp, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainTime(u64);

impl ChainTime {
    /// From Unix seconds.
    #[must_use]
    pub const fn from_unix(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Unix seconds.
    #[must_use]
    pub const fn unix(self) -> u64 {
        self.0
    }

    /// That much later (fractions of a second are dropped).
    #[must_use]
    pub const fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.as_secs()))
    }
}

/// One mined transfer of an accepted token to the recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The chain.
    pub network: Network,
    /// The transaction.
    pub transaction: TxHash,
    /// The log's position in the receipt, from 0.
    pub position: u32,
    /// The token contract.
    pub token: Address,
    /// Who sent the money: the transfer's `from`, not the transaction's.
    pub payer: Address,
    /// Who got it.
    pub recipient: Address,
    /// How much, in base units.
    pub amount: Amount,
    /// The height of its block.
    pub block_number: u64,
    /// The time of its block.
    pub block_time: ChainTime,
}

impl Transfer {
    /// Returns the name of this transfer.
    #[must_use]
    pub const fn payment_id(&self) -> PaymentId {
        PaymentId::new(self.network, self.transaction, self.position)
    }
}
