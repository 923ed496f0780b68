//! `DevChain`: a running chain, its properties, and changes that need no block.

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
/// Ten accounts own ether and USDC. A block is mined every two seconds, and by each call of [`DevChain::mine`].
/// Dropping the chain kills the process, which also ends when the program that started it ends for any reason.
///
/// Several chains can run at once, each on its own port.
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
    /// The interval between blocks in seconds, if they are mined by time.
    pub(super) every: Option<u64>,
    /// One sender at a time: `anvil` gives concurrent ones the same nonce.
    pub(super) sending: tokio::sync::Mutex<()>,
    pub(super) anvil: Anvil,
}

impl DevChain {
    /// Returns the URL of its JSON-RPC interface: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn rpc_url(&self) -> &str {
        self.rpc.url()
    }

    /// Returns the EIP-155 chain id.
    #[must_use]
    pub fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// Returns the address of its USDC: on chain 8453, the address of Base's native USDC.
    #[must_use]
    pub fn usdc(&self) -> Address {
        self.usdc
    }

    /// Returns the ten accounts that own 10,000 ETH and 1,000,000 USDC each.
    #[must_use]
    pub fn accounts(&self) -> &[DevAccount] {
        &self.accounts
    }

    /// Returns the process id of `anvil`.
    #[must_use]
    pub fn process_id(&self) -> u32 {
        self.anvil.id()
    }

    /// Calls any JSON-RPC method, such as `anvil_dropTransaction`, and returns its `result`.
    ///
    /// # Errors
    ///
    /// Returns an error with the node's reason if it refuses the call, or if it does not answer.
    pub async fn rpc(&self, method: &str, params: Value) -> Result<Value, DevChainError> {
        self.rpc.call(method, params).await
    }

    /// Sets the USDC balance of `owner` to `amount`, and its ether to 10,000 ETH. Takes effect at once, without a block or an event.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`DevChain::rpc`].
    pub async fn fund(&self, owner: Address, amount: Amount) -> Result<(), DevChainError> {
        let balance = json!([owner.to_string(), "0x21e19e0c9bab2400000"]);
        self.rpc.call("anvil_setBalance", balance).await?;
        self.set_usdc(owner, amount).await
    }

    /// Returns the USDC balance of `owner` at the latest block.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`DevChain::rpc`].
    pub async fn usdc_balance(&self, owner: Address) -> Result<Amount, DevChainError> {
        let answer = self.call(self.usdc, &contracts::balance_of(owner)).await?;
        let word = answer.try_into().map_err(|_| unexpected("balanceOf"))?;
        Ok(Amount::from_be_bytes(word))
    }

    /// Sets the runtime code at an address, in hexadecimal. The storage there is kept.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`DevChain::rpc`].
    pub async fn set_code(&self, address: Address, runtime: &str) -> Result<(), DevChainError> {
        let params = json!([address.to_string(), prefixed(runtime)]);
        self.rpc.call("anvil_setCode", params).await.map(drop)
    }

    /// Writes a balance to the contract's storage: the mapping at its first slot.
    pub(super) async fn set_usdc(&self, owner: Address, amount: Amount) -> Result<(), DevChainError> {
        let key = [*contracts::Word::from(owner).as_bytes(), [0; 32]].concat();
        let slot = alloy::primitives::keccak256(key).to_string();
        let value = alloy::hex::encode_prefixed(amount.to_be_bytes());
        let params = json!([self.usdc.to_string(), slot, value]);
        self.rpc.call("anvil_setStorageAt", params).await.map(drop)
    }
}
