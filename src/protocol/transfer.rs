//! `Transfer`: one token transfer, the unit that is spent.

use std::{
    fmt,
    hash::{Hash, Hasher},
    time::Duration,
};

use super::{Address, Amount, Network, TxHash};

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

/// What names a transfer for ever: chain, transaction, and position of the log *inside that transaction's receipt*.
///
/// Not the block-wide log index: a reorganisation can move it, and the same transfer would be spendable twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PaymentId {
    /// The chain.
    pub network: Network,
    /// The transaction.
    pub transaction: TxHash,
    /// The log's position in the receipt, from 0.
    pub position: u32,
}

/// By transaction and position: a ledger hashes each key many times, and chains hardly ever share transactions.
impl Hash for PaymentId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.transaction.as_bytes());
        state.write_u32(self.position);
    }
}

/// `eip155:8453/0x…/3`: stable, and safe to use as an idempotency key.
impl fmt::Display for PaymentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.network, self.transaction, self.position)
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
    /// What names this transfer for ever.
    #[must_use]
    pub const fn key(&self) -> PaymentId {
        PaymentId { network: self.network, transaction: self.transaction, position: self.position }
    }
}
