//! What is sent to the chain and asked of it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{
    chain::DevChain,
    error::DevChainError,
    rpc::{prefixed, unexpected},
};
use crate::{
    protocol::{Address, Amount, TxHash},
    testing::contracts::{self, Word},
};

/// Given to every transaction, not estimated: one that reverts must be mined as well.
const GAS: &str = "0x4c4b40";

/// Longest wait for a transaction to be mined.
const MINED: Duration = Duration::from_secs(30);

/// Transactions. Each call fails as [`DevChain::rpc`] does.
impl DevChain {
    /// Sends an ordinary USDC transfer and gives its hash, without waiting for a block.
    pub async fn transfer(&self, from: Address, to: Address, amount: Amount) -> Result<TxHash, DevChainError> {
        self.send(from, self.usdc, &contracts::transfer(to, amount)).await
    }

    /// Calls a contract in a transaction and gives its hash, without waiting for a block. One that reverts is mined too.
    ///
    /// Any address may send, if it has ether ([`DevChain::fund`]); only [`DevChain::accounts`] sign what they send.
    pub async fn send(&self, from: Address, to: Address, calldata: &[u8]) -> Result<TxHash, DevChainError> {
        if self.accounts.iter().all(|account| account.address() != from) {
            self.rpc.call("anvil_impersonateAccount", json!([from.to_string()])).await?;
        }
        let data = alloy::hex::encode_prefixed(calldata);
        self.submit(json!({"from": from.to_string(), "to": to.to_string(), "data": data, "gas": GAS})).await
    }

    /// Deploys a contract from creation code in hex and the arguments of its constructor, and mines a block to do so.
    ///
    /// The last account pays for it.
    pub async fn deploy(&self, creation: &str, arguments: &[Word]) -> Result<Address, DevChainError> {
        let deployer = self.accounts.last().map(|account| account.address().to_string());
        let words = arguments.iter().map(|word| alloy::hex::encode(word.as_bytes()));
        let data = std::iter::once(prefixed(creation)).chain(words).collect::<String>();
        let hash = self.submit(json!({"from": deployer, "data": data, "gas": GAS})).await?;
        self.mine(1).await?;
        let receipt = self.wait_until_mined(hash).await?;
        let address = receipt["contractAddress"].as_str().filter(|_| receipt["status"] == "0x1");
        address.and_then(|address| address.parse().ok()).ok_or_else(|| unexpected("eth_getTransactionReceipt"))
    }

    /// Asks a contract at the latest block, without a transaction.
    pub async fn call(&self, to: Address, calldata: &[u8]) -> Result<Vec<u8>, DevChainError> {
        let method = "eth_call";
        let data = alloy::hex::encode_prefixed(calldata);
        let answer = self.rpc.call(method, json!([{"to": to.to_string(), "data": data}, "latest"])).await?;
        answer.as_str().and_then(|hex| alloy::hex::decode(hex).ok()).ok_or_else(|| unexpected(method))
    }

    /// The receipt as the node tells it, or `None` while the transaction is not in a block.
    pub async fn receipt(&self, hash: TxHash) -> Result<Option<Value>, DevChainError> {
        let receipt = self.rpc.call("eth_getTransactionReceipt", json!([hash.to_string()])).await?;
        Ok(Some(receipt).filter(|receipt| !receipt.is_null()))
    }

    /// Waits until a transaction is in a block, for 30 s at most, and gives its receipt.
    pub async fn wait_until_mined(&self, hash: TxHash) -> Result<Value, DevChainError> {
        let mined = async {
            loop {
                if let Some(receipt) = self.receipt(hash).await? {
                    return Ok(receipt);
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(MINED, mined).await.unwrap_or(Err(DevChainError::NotMined { limit: MINED }))
    }

    async fn submit(&self, transaction: Value) -> Result<TxHash, DevChainError> {
        let _alone = self.sending.lock().await;
        self.rpc.parsed("eth_sendTransaction", json!([transaction])).await
    }
}
