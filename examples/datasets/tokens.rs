//! The tokens that are accepted: the USDC of the chain, or those that flags name.

use alloy::{
    providers::{Provider, ProviderBuilder},
    rpc::types::TransactionRequest,
    sol,
    sol_types::SolCall,
};
use tower_x402::protocol::{Address, Asset, Network};

sol! {
    function decimals() external view returns (uint8);
    function symbol() external view returns (string);
}

/// What `contracts` are; without any, the USDC of the chain.
///
/// # Errors
/// One sentence.
pub(crate) async fn assets(contracts: &[Address], network: Network, rpc_url: &str) -> Result<Vec<Asset>, String> {
    if contracts.is_empty() {
        let chain = network.chain_id();
        let usdc = Asset::usdc_of(network);
        return Ok(vec![usdc.ok_or(format!("no USDC is known on chain {chain}: name a token with --token 0x…"))?]);
    }
    let mut assets = Vec::new();
    for contract in contracts {
        let asset = asset(*contract, network, rpc_url).await;
        assets.push(asset.ok_or(format!("cannot read decimals and symbol of the token {contract} from the chain"))?);
    }
    Ok(assets)
}

/// Reads decimals and symbol from the chain. Why that fails is not told: the reason may name the URL and a key in it.
async fn asset(contract: Address, network: Network, rpc_url: &str) -> Option<Asset> {
    let provider = ProviderBuilder::new().connect_http(rpc_url.parse().ok()?);
    let call = |input: Vec<u8>| {
        let to = alloy::primitives::Address::from(*contract.as_bytes());
        provider.call(TransactionRequest { to: Some(to.into()), input: input.into(), ..Default::default() })
    };
    let decimals = decimalsCall::abi_decode_returns(&call(decimalsCall {}.abi_encode()).await.ok()?).ok()?;
    let symbol = symbolCall::abi_decode_returns(&call(symbolCall {}.abi_encode()).await.ok()?).ok()?;
    Some(Asset::new(network, contract, decimals, symbol))
}
