//! The common EVM part of verifier and wallet: calls to nodes, their answers, and the ABI of contracts.

pub(crate) mod block;
pub(crate) mod block_range;
pub(crate) mod channel;
pub(crate) mod eip3009;
pub(crate) mod erc1271;
pub(crate) mod erc20;
pub(crate) mod eth_call;
pub(crate) mod json_rpc;
pub(crate) mod permit2;
#[cfg(any(feature = "evm", all(feature = "wallet", feature = "client")))]
pub(crate) mod proxy;
pub(crate) mod receipt;
#[cfg(feature = "evm")]
pub(crate) mod settled;
pub(crate) mod signature;
pub(crate) mod transaction;
#[cfg(feature = "wallet")]
pub(crate) mod wallet;
