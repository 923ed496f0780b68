//! `Claimed`: the result of claiming.

use crate::protocol::TxHash;

/// The result of claiming.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Claimed {
    /// The number of channels that were claimed.
    pub channels: usize,
    /// The number of channels that could not be claimed, or whose claim has no known outcome yet.
    pub left: usize,
    /// The transactions: claims, then sweeps.
    pub transactions: Vec<TxHash>,
    /// Whether another process was claiming, so that nothing was done here.
    pub elsewhere: bool,
}

impl Claimed {
    /// Adds up both results.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.transactions.extend(other.transactions);
        Self {
            channels: self.channels + other.channels,
            left: self.left + other.left,
            transactions: self.transactions,
            elsewhere: self.elsewhere || other.elsewhere,
        }
    }
}
