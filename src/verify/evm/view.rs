//! What a node said, as plain values: no alloy type goes further in than [`decode`](super::decode).

use crate::protocol::{Address, ChainTime, TxHash};

/// Thirty-two bytes that name a block.
pub(super) type BlockHash = [u8; 32];

/// A sealed block, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) number: u64,
    pub(super) hash: BlockHash,
    pub(super) parent: BlockHash,
    pub(super) time: ChainTime,
}

/// Where a receipt says that it was mined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MinedIn {
    pub(super) number: u64,
    pub(super) hash: BlockHash,
}

/// A transaction's receipt. Every field is a claim that [`judge`](super::judge::judge) checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TxReceipt {
    pub(super) transaction: TxHash,
    /// `None` while it is in no block.
    pub(super) mined_in: Option<MinedIn>,
    /// `None` where the node did not say (receipts from before EIP-658).
    pub(super) success: Option<bool>,
    /// All logs, or all that carry the signature of a transfer.
    pub(super) logs: Vec<Log>,
}

/// One log of a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Log {
    /// Its place among all logs of its receipt, from 0.
    pub(super) position: u32,
    pub(super) emitter: Address,
    pub(super) topics: Vec<[u8; 32]>,
    pub(super) data: Vec<u8>,
    pub(super) transaction: Option<TxHash>,
    pub(super) block: Option<BlockHash>,
    pub(super) removed: bool,
}

impl TxReceipt {
    /// Whether it was mined in this block, and all its logs say so too.
    pub(super) fn is_of(&self, block: &Block) -> bool {
        let transaction = Some(self.transaction);
        let fits = |log: &Log| !log.removed && log.transaction == transaction && log.block == Some(block.hash);
        self.mined_in == Some(MinedIn { number: block.number, hash: block.hash }) && self.logs.iter().all(fits)
    }

    /// Roughly how much memory its logs take, in bytes: each has two allocations of its own.
    pub(super) fn allocated(&self) -> usize {
        let own = |log: &Log| size_of::<[u8; 32]>() * log.topics.capacity() + log.data.capacity() + 32;
        size_of::<Log>() * self.logs.capacity() + self.logs.iter().map(own).sum::<usize>()
    }
}
