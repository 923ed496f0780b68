//! Transactions, calls and receipts.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use super::{
    chain::DevChain,
    error::{DevChainError, Failure},
    rpc::{prefixed, unexpected},
};
use crate::{
    protocol::{Address, Amount, TxHash},
    testing::contracts::{self, Word},
};

/// The gas limit of every transaction. It is not estimated, because transactions that revert must be mined, too.
const GAS: &str = "0x4c4b40";

/// The time limit for a transaction to be mined.
const MINED: Duration = Duration::from_secs(30);

/// Transactions, calls and receipts. Each method returns the errors of [`DevChain::rpc`].
impl DevChain {
    /// Sends an ordinary USDC transfer and returns its hash, without waiting for a block.
    pub async fn transfer(&self, from: Address, to: Address, amount: Amount) -> Result<TxHash, DevChainError> {
        self.send(from, self.usdc, &contracts::transfer(to, amount)).await
    }

    /// Calls a contract in a transaction and returns its hash, without waiting for a block. A transaction that reverts is mined, too.
    ///
    /// Any address with ether ([`DevChain::fund`]) can send; only transactions of [`DevChain::accounts`] are signed.
    pub async fn send(&self, from: Address, to: Address, calldata: &[u8]) -> Result<TxHash, DevChainError> {
        if self.accounts.iter().all(|account| account.address() != from) {
            self.rpc.call("anvil_impersonateAccount", json!([from.to_string()])).await?;
        }
        let data = alloy::hex::encode_prefixed(calldata);
        self.submit(json!({"from": from.to_string(), "to": to.to_string(), "data": data, "gas": GAS})).await
    }

    /// Deploys a contract from hexadecimal creation code and the arguments of its constructor, and mines a block for it.
    ///
    /// The last account pays the gas.
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

    /// Calls a contract at the latest block, without a transaction.
    pub async fn call(&self, to: Address, calldata: &[u8]) -> Result<Vec<u8>, DevChainError> {
        let method = "eth_call";
        let data = alloy::hex::encode_prefixed(calldata);
        let answer = self.rpc.call(method, json!([{"to": to.to_string(), "data": data}, "latest"])).await?;
        answer.as_str().and_then(|hex| alloy::hex::decode(hex).ok()).ok_or_else(|| unexpected(method))
    }

    /// Returns the receipt as the node returns it, or `None` while the transaction is not in a block.
    pub async fn receipt(&self, hash: TxHash) -> Result<Option<Value>, DevChainError> {
        let receipt = self.rpc.call("eth_getTransactionReceipt", json!([hash.to_string()])).await?;
        Ok(Some(receipt).filter(|receipt| !receipt.is_null()))
    }

    /// Waits until a transaction is in a block, for at most 30 s, and returns its receipt.
    ///
    /// # Errors
    ///
    /// Returns an error after that time, or those of [`DevChain::rpc`].
    pub async fn wait_until_mined(&self, hash: TxHash) -> Result<Value, DevChainError> {
        let mined = async {
            loop {
                if let Some(receipt) = self.receipt(hash).await? {
                    return Ok(receipt);
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(MINED, mined).await.unwrap_or(Err(Failure::NotMined { limit: MINED }.into()))
    }

    async fn submit(&self, transaction: Value) -> Result<TxHash, DevChainError> {
        let _alone = self.sending.lock().await;
        self.rpc.parsed("eth_sendTransaction", json!([transaction])).await
    }
}
