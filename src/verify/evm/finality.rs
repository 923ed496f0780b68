//! `Finality`: how deep a payment must be in the chain.

use std::time::Duration;

/// How deep in the chain a payment must be before it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finality {
    /// This many sealed blocks, including the payment's own; at least 1.
    Confirmations(u32),
    /// At or below the block that the nodes call `safe` (on Base some minutes old): only a reorganisation of
    /// Ethereum itself could take it back.
    Safe,
    /// At or below the block that the nodes call `finalized` (on Base a quarter of an hour old).
    Finalized,
}

/// One sealed block.
impl Default for Finality {
    fn default() -> Self {
        Self::Confirmations(1)
    }
}

impl Finality {
    /// Returns when a client should ask again if its payment is not deep enough.
    pub(super) fn retry_after(self, block_time: Duration) -> Duration {
        let blocks = match self {
            // Asking is cheap, and an answer may exist as soon as the block does.
            Self::Confirmations(_) => return (block_time / 2).max(Duration::from_secs(1)),
            Self::Safe => 5,
            Self::Finalized => 30,
        };
        block_time.saturating_mul(blocks).max(Duration::from_secs(1))
    }
}
