//! Blocks and their time.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    chain::DevChain,
    error::DevChainError,
    rpc::{quantity, unexpected},
};
use crate::protocol::TxHash;

/// Blocks, time and reorganisations. Each call fails as [`DevChain::rpc`] does.
impl DevChain {
    /// Mines `blocks` blocks now; the first one takes the transactions that wait. Blocks mined within one second have the same time.
    pub async fn mine(&self, blocks: u64) -> Result<(), DevChainError> {
        self.rpc.call("anvil_mine", json!([format!("{blocks:#x}")])).await.map(drop)
    }

    /// Stops mining by time and by transaction, until [`DevChain::resume_mining`]; [`DevChain::mine`] still mines.
    pub async fn pause_mining(&self) -> Result<(), DevChainError> {
        self.set_automine(false).await?;
        self.set_interval(0).await
    }

    /// Mines by time again, as the chain was started to, in whole seconds. On a chain that mines on demand nothing happens.
    pub async fn resume_mining(&self) -> Result<(), DevChainError> {
        match self.every {
            Some(seconds) => self.set_interval(seconds).await,
            None => Ok(()),
        }
    }

    /// With `true` every transaction is mined as it comes, instead of by time; `false` ends that, and then only [`DevChain::mine`] mines,
    /// or [`DevChain::resume_mining`] goes back to mining by time.
    pub async fn set_automine(&self, on: bool) -> Result<(), DevChainError> {
        self.rpc.call("evm_setAutomine", json!([on])).await.map(drop)
    }

    /// The number of the latest block.
    pub async fn block_number(&self) -> Result<u64, DevChainError> {
        self.rpc.number("eth_blockNumber", json!([])).await
    }

    /// The time of the latest block, in Unix seconds.
    pub async fn timestamp(&self) -> Result<u64, DevChainError> {
        let method = "eth_getBlockByNumber";
        let block = self.rpc.call(method, json!(["latest", false])).await?;
        quantity(&block["timestamp"]).ok_or_else(|| unexpected(method))
    }

    /// Puts the clock of the chain forward: the next block and all after it are that much later.
    pub async fn increase_time(&self, by: Duration) -> Result<(), DevChainError> {
        self.rpc.call("evm_increaseTime", json!([by.as_secs()])).await.map(drop)
    }

    /// Sets the time of the next block, not before the latest one's; the clock runs on from there.
    pub async fn set_next_block_timestamp(&self, unix_seconds: u64) -> Result<(), DevChainError> {
        self.rpc.call("evm_setNextBlockTimestamp", json!([unix_seconds])).await.map(drop)
    }

    /// Replaces the last `depth` blocks by as many others, which hold `blocks[0]`, `blocks[1]`, … in this order, and nothing beyond.
    ///
    /// The transactions are named by hash and must be signed ones of [`DevChain::accounts`], mined or waiting, each account's in the order
    /// in which they were sent. What was mined in the replaced blocks and is not named is forgotten. Pause the mining first.
    ///
    /// The new blocks have the time of the last one that stays, or little more, and the clock of the chain runs on from there.
    pub async fn reorg(&self, depth: u64, blocks: &[&[TxHash]]) -> Result<(), DevChainError> {
        let mut replay = Vec::new();
        for (index, block) in blocks.iter().enumerate() {
            for hash in *block {
                replay.push(json!([self.raw(*hash).await?, index]));
            }
        }
        self.rpc.call("anvil_reorg", json!([depth, replay])).await.map(drop)
    }

    /// A transaction as its sender signed it, in hex.
    async fn raw(&self, hash: TxHash) -> Result<Value, DevChainError> {
        let method = "eth_getRawTransactionByHash";
        let raw = self.rpc.call(method, json!([hash.to_string()])).await?;
        if raw.is_string() { Ok(raw) } else { Err(unexpected(method)) }
    }

    async fn set_interval(&self, seconds: u64) -> Result<(), DevChainError> {
        self.rpc.call("evm_setIntervalMining", json!([seconds])).await.map(drop)
    }
}
