//! The payer's wallet: one key, one RPC endpoint, ordinary ERC-20 transfers.

use std::time::Duration;

use alloy::{
    consensus::TxEnvelope,
    network::{EthereumWallet, NetworkTransactionBuilder, TransactionBuilder},
    primitives::{Address, B256, Bytes, U256},
    providers::{DynProvider, Provider, ProviderBuilder},
    rpc::types::TransactionRequest,
    signers::local::PrivateKeySigner,
    sol,
    sol_types::SolCall,
};

pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

sol! {
    function transfer(address to, uint256 amount) external returns (bool);
    function balanceOf(address owner) external view returns (uint256);
    function decimals() external view returns (uint8);
}

/// How long a payment may take until it is in a block.
const PATIENCE: Duration = Duration::from_secs(300);

pub(crate) struct Wallet {
    provider: DynProvider,
    signer: EthereumWallet,
    pub(crate) address: Address,
}

impl Wallet {
    /// # Errors
    /// A key or a URL that is none.
    pub(crate) fn new(key: &str, rpc_url: &str) -> Result<Self, BoxError> {
        let signer: PrivateKeySigner = key.parse().map_err(|_| "the key is not 0x and 64 hexadecimal digits")?;
        let url = rpc_url.parse().map_err(|_| "the RPC address is not a URL")?;
        let provider = ProviderBuilder::new().disable_recommended_fillers().connect_http(url).erased();
        Ok(Self { provider, address: signer.address(), signer: signer.into() })
    }

    pub(crate) async fn chain_id(&self) -> Result<u64, BoxError> {
        Ok(self.provider.get_chain_id().await?)
    }

    /// What the wallet has of `token`, and the token's decimals.
    pub(crate) async fn balance(&self, token: Address) -> Result<(U256, u8), BoxError> {
        let owner = self.address;
        let balance = self.call(token, balanceOfCall { owner }.abi_encode()).await?;
        let decimals = self.call(token, decimalsCall {}.abi_encode()).await?;
        Ok((balanceOfCall::abi_decode_returns(&balance)?, decimalsCall::abi_decode_returns(&decimals)?))
    }

    async fn call(&self, token: Address, input: Vec<u8>) -> Result<Bytes, BoxError> {
        Ok(self.provider.call(TransactionRequest::default().with_to(token).with_input(input)).await?)
    }

    /// Signs a transfer without sending it: its hash is known before anything can go wrong.
    pub(crate) async fn sign(&self, token: Address, to: Address, amount: U256) -> Result<TxEnvelope, BoxError> {
        let call = transferCall { to, amount };
        let fees = self.provider.estimate_eip1559_fees().await?;
        let mut request = TransactionRequest::default()
            .with_from(self.address)
            .with_to(token)
            .with_input(call.abi_encode())
            .with_chain_id(self.chain_id().await?)
            .with_nonce(self.provider.get_transaction_count(self.address).pending().await?)
            .with_max_fee_per_gas(fees.max_fee_per_gas)
            .with_max_priority_fee_per_gas(fees.max_priority_fee_per_gas);
        let gas = self.provider.estimate_gas(request.clone()).await?;
        // A little more than estimated: balances may change until the transaction is mined.
        request.set_gas_limit(gas + gas / 5);
        Ok(request.build(&self.signer).await?)
    }

    /// Sends a signed transfer.
    pub(crate) async fn send(&self, signed: TxEnvelope) -> Result<(), BoxError> {
        self.provider.send_tx_envelope(signed).await.map(drop)?;
        Ok(())
    }

    /// Waits until the transaction is in a block, and gives the block's number.
    ///
    /// # Errors
    /// A reverted transaction, or none within five minutes. One failed look is no error.
    pub(crate) async fn mined(&self, hash: B256) -> Result<u64, BoxError> {
        let looking = async {
            loop {
                if let Ok(Some(receipt)) = self.provider.get_transaction_receipt(hash).await {
                    return receipt;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        let receipt = tokio::time::timeout(PATIENCE, looking).await.map_err(|_| "no block has the payment yet")?;
        if !receipt.status() {
            return Err("the payment was reverted: nothing was transferred".into());
        }
        Ok(receipt.block_number.unwrap_or_default())
    }
}
