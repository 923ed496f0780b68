//! A node's answers as plain values: no alloy type gets further in than [`decode`](super::decode).

use std::sync::Arc;

pub(super) use crate::evm::block::{Block, BlockHash, MinedIn};
use crate::{
    evm::proxy::UsedPermit,
    protocol::{Address, TxHash},
};

/// A transaction's receipt. Every field is a claim that [`judge`](super::judge::judge) checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TxReceipt {
    pub(super) transaction: TxHash,
    /// `None` while it is in no block.
    pub(super) mined_in: Option<MinedIn>,
    /// `None` if the node did not say (receipts from before EIP-658).
    pub(super) success: Option<bool>,
    /// In the order of the receipt: all logs, or at least those of transfers, and of the authorizations and permits
    /// behind them.
    pub(super) logs: Vec<Log>,
}

/// The parts of a transaction that can bind its transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    /// The signer.
    pub(super) sender: Address,
    /// Only if it may contain a tag.
    pub(super) call_data: Option<Arc<[u8]>>,
    /// The permit that it passes to one of the standard's proxies, if any.
    pub(super) permit: Option<UsedPermit>,
}

/// A transaction and its receipt: everything known of a payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TxRecord {
    pub(super) receipt: TxReceipt,
    pub(super) transaction: Transaction,
}

/// One log of a receipt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Log {
    /// Its position among all logs of its receipt, from 0.
    pub(super) position: u32,
    pub(super) emitter: Address,
    pub(super) topics: Vec<[u8; 32]>,
    pub(super) data: Vec<u8>,
    pub(super) transaction: Option<TxHash>,
    pub(super) block: Option<BlockHash>,
    pub(super) removed: bool,
}

impl TxReceipt {
    /// Whether the receipt and all its logs are of this block.
    pub(super) fn is_of(&self, block: &Block) -> bool {
        let transaction = Some(self.transaction);
        let fits = |log: &Log| !log.removed && log.transaction == transaction && log.block == Some(block.hash);
        self.mined_in.is_some_and(|mined_in| mined_in.is(block)) && self.logs.iter().all(fits)
    }
}

impl TxRecord {
    /// Returns the approximate memory of its logs and call data, in bytes. Each log has two allocations of its own.
    pub(super) fn allocated(&self) -> usize {
        let own = |log: &Log| size_of::<[u8; 32]>() * log.topics.capacity() + log.data.capacity() + 32;
        let logs = &self.receipt.logs;
        let call_data = self.transaction.call_data.as_ref().map_or(0, |call_data| call_data.len() + 32);
        size_of::<Log>() * logs.capacity() + logs.iter().map(own).sum::<usize>() + call_data
    }
}
