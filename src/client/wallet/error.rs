//! `WalletError`: why there is no wallet.

/// Why a [`WalletPayer`](super::WalletPayer) cannot be made. Its text holds neither the key nor the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WalletError {
    /// The text is no private key.
    #[error("the private key is not 64 hexadecimal digits, with or without 0x: check where it is read from")]
    Key,
    /// The text is no address of a node.
    #[error("the node's address is not an http or https URL")]
    Url,
    /// The node did not say which chain it serves.
    #[error("the node did not say which chain it serves: check its address, its key and whether it can be reached")]
    Node,
}
