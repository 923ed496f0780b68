//! What the verifier and the wallet both need of an EVM chain: calls to its nodes, and the ABI of its tokens.

pub(crate) mod erc20;
pub(crate) mod json_rpc;
