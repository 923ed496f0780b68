//! `WalletPayer`: a key of one's own and an RPC endpoint; ordinary ERC-20 transfers.

/// Pays from an account whose key is here.
#[derive(Debug)]
pub struct WalletPayer {}
