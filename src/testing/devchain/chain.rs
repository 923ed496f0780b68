//! `DevChain`: what a running chain is, and what is set on it at once.

use serde_json::{Value, json};

use super::{
    accounts::DevAccount,
    error::DevChainError,
    process::Anvil,
    rpc::{Rpc, prefixed, unexpected},
};
use crate::{
    protocol::{Address, Amount},
    testing::contracts,
};

/// A local `anvil` that looks like Base: chain id 8453, and a 6-decimal USDC at the address of the real one.
///
/// Ten accounts own ether and USDC. A block is mined every two seconds, and whenever [`DevChain::mine`] is called.
/// Dropping the chain kills the process; it also ends with the program that started it, however that ends.
///
/// Several chains can run at once, each on a port of its own.
///
/// ```no_run
/// use tower_x402::{protocol::Amount, testing::DevChain};
///
/// # async fn example() -> Result<(), tower_x402::testing::DevChainError> {
/// let chain = DevChain::builder().install_with_npm(true).mine_every(None).start().await?;
/// let [buyer, seller, ..] = chain.accounts() else { unreachable!("there are ten") };
///
/// let payment = chain.transfer(buyer.address(), seller.address(), Amount::from_base_units(490_000)).await?;
/// assert!(chain.receipt(payment).await?.is_none());
/// chain.mine(1).await?;
/// assert_eq!(chain.receipt(payment).await?.unwrap()["status"], "0x1");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DevChain {
    pub(super) rpc: Rpc,
    pub(super) chain_id: u64,
    pub(super) usdc: Address,
    pub(super) accounts: Vec<DevAccount>,
    /// Seconds between blocks where they are mined by time.
    pub(super) every: Option<u64>,
    /// One sender at a time: `anvil` gives two at once the same nonce.
    pub(super) sending: tokio::sync::Mutex<()>,
    pub(super) anvil: Anvil,
}

impl DevChain {
    /// Where its JSON-RPC is served: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn rpc_url(&self) -> &str {
        self.rpc.url()
    }

    /// Its EIP-155 chain id, 8453 by default.
    #[must_use]
    pub fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// The address of its USDC: on a chain that says it is Base, that of native USDC there.
    #[must_use]
    pub fn usdc(&self) -> Address {
        self.usdc
    }

    /// The ten accounts that own 10,000 ETH and 1,000,000 USDC each.
    #[must_use]
    pub fn accounts(&self) -> &[DevAccount] {
        &self.accounts
    }

    /// The process id of `anvil`.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.anvil.id()
    }

    /// Calls any JSON-RPC method, such as `anvil_dropTransaction`, and gives its `result`.
    ///
    /// # Errors
    ///
    /// [`DevChainError::Refused`] with the node's reason, [`DevChainError::Unreachable`] if it is gone.
    pub async fn rpc(&self, method: &str, params: Value) -> Result<Value, DevChainError> {
        self.rpc.call(method, params).await
    }

    /// Sets the USDC of `owner` to `amount`, and its ether to 10,000 ETH. Counts at once: no block, no event.
    ///
    /// # Errors
    ///
    /// As [`DevChain::rpc`].
    pub async fn fund(&self, owner: Address, amount: Amount) -> Result<(), DevChainError> {
        let balance = json!([owner.to_string(), "0x21e19e0c9bab2400000"]);
        self.rpc.call("anvil_setBalance", balance).await?;
        self.set_usdc(owner, amount).await
    }

    /// What `owner` has in USDC at the latest block.
    ///
    /// # Errors
    ///
    /// As [`DevChain::rpc`].
    pub async fn usdc_balance(&self, owner: Address) -> Result<Amount, DevChainError> {
        let answer = self.call(self.usdc, &contracts::balance_of(owner)).await?;
        let word = answer.try_into().map_err(|_| unexpected("balanceOf"))?;
        Ok(Amount::from_be_bytes(word))
    }

    /// Puts runtime code, in hex, at an address. What is stored there stays.
    ///
    /// # Errors
    ///
    /// As [`DevChain::rpc`].
    pub async fn set_code(&self, address: Address, runtime: &str) -> Result<(), DevChainError> {
        let params = json!([address.to_string(), prefixed(runtime)]);
        self.rpc.call("anvil_setCode", params).await.map(drop)
    }

    /// Writes a balance where the contract keeps it: in the mapping at its first storage slot.
    pub(super) async fn set_usdc(&self, owner: Address, amount: Amount) -> Result<(), DevChainError> {
        let key = [*contracts::Word::from(owner).as_bytes(), [0; 32]].concat();
        let slot = alloy::primitives::keccak256(key).to_string();
        let value = alloy::hex::encode_prefixed(amount.to_be_bytes());
        let params = json!([self.usdc.to_string(), slot, value]);
        self.rpc.call("anvil_setStorageAt", params).await.map(drop)
    }
}
