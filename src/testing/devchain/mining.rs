//! Blocks and their time.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    chain::DevChain,
    error::DevChainError,
    rpc::{quantity, unexpected},
};
use crate::protocol::{ChainTime, TxHash};

/// How many blocks one call mines.
const AT_ONCE: u64 = 250;

/// Blocks, time and reorganisations. Each method returns the errors of [`DevChain::rpc`].
impl DevChain {
    /// Mines `blocks` blocks now; the first one includes the pending transactions. Blocks mined within one second have the same time.
    pub async fn mine(&self, blocks: u64) -> Result<(), DevChainError> {
        // A busy machine needs longer for thousands of blocks than one call may take.
        let mut left = blocks;
        while left > AT_ONCE {
            self.mine_at_once(AT_ONCE).await?;
            left -= AT_ONCE;
        }
        self.mine_at_once(left).await
    }

    async fn mine_at_once(&self, blocks: u64) -> Result<(), DevChainError> {
        self.rpc.call("anvil_mine", json!([format!("{blocks:#x}")])).await.map(drop)
    }

    /// Stops mining by time and by transaction until [`DevChain::resume_mining`]. [`DevChain::mine`] still mines.
    pub async fn pause_mining(&self) -> Result<(), DevChainError> {
        self.set_automine(false).await?;
        self.set_interval(0).await
    }

    /// Resumes mining by time at the chain's interval, in whole seconds. Does nothing on a chain that mines on demand.
    pub async fn resume_mining(&self) -> Result<(), DevChainError> {
        match self.every {
            Some(seconds) => self.set_interval(seconds).await,
            None => Ok(()),
        }
    }

    /// Sets whether every transaction is mined when it arrives, instead of by time. After `false` only [`DevChain::mine`] mines,
    /// until [`DevChain::resume_mining`] returns to mining by time.
    pub async fn set_automine(&self, on: bool) -> Result<(), DevChainError> {
        self.rpc.call("evm_setAutomine", json!([on])).await.map(drop)
    }

    /// Returns the number of the latest block.
    pub async fn block_number(&self) -> Result<u64, DevChainError> {
        self.rpc.number("eth_blockNumber", json!([])).await
    }

    /// Returns the time of the latest block.
    pub async fn timestamp(&self) -> Result<ChainTime, DevChainError> {
        let method = "eth_getBlockByNumber";
        let block = self.rpc.call(method, json!(["latest", false])).await?;
        quantity(&block["timestamp"]).map(ChainTime::from_unix).ok_or_else(|| unexpected(method))
    }

    /// Advances the chain's clock: the next block and all after it are later by this time.
    pub async fn increase_time(&self, by: Duration) -> Result<(), DevChainError> {
        self.rpc.call("evm_increaseTime", json!([by.as_secs()])).await.map(drop)
    }

    /// Sets the time of the next block, not before that of the latest one. The chain's clock runs on from there.
    pub async fn set_next_block_timestamp(&self, time: ChainTime) -> Result<(), DevChainError> {
        self.rpc.call("evm_setNextBlockTimestamp", json!([time.unix()])).await.map(drop)
    }

    /// Replaces the last `depth` blocks by as many others, which hold the transactions `blocks[0]`, `blocks[1]`, … and no others.
    ///
    /// The transactions are given by hash and must be signed by [`DevChain::accounts`], mined or pending, those of each account
    /// in the order in which they were sent. Transactions of the replaced blocks that are not given are dropped. Pause mining first.
    ///
    /// The new blocks have the time of the last block that is kept, or slightly later, and the chain's clock runs on from there.
    pub async fn reorg(&self, depth: u64, blocks: &[&[TxHash]]) -> Result<(), DevChainError> {
        let mut replay = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            for hash in *block {
                replay.push(json!([self.raw(*hash).await?, index]));
            }
        }
        self.rpc.call("anvil_reorg", json!([depth, replay])).await.map(drop)
    }

    /// Returns a signed transaction, in hexadecimal.
    async fn raw(&self, hash: TxHash) -> Result<Value, DevChainError> {
        let method = "eth_getRawTransactionByHash";
        let raw = self.rpc.call(method, json!([hash.to_string()])).await?;
        if raw.is_string() { Ok(raw) } else { Err(unexpected(method)) }
    }

    async fn set_interval(&self, seconds: u64) -> Result<(), DevChainError> {
        self.rpc.call("evm_setIntervalMining", json!([seconds])).await.map(drop)
    }
}
