//! `WalletError`: why there is no wallet.

/// Why a [`WalletPayer`](super::WalletPayer) cannot be made. Its text holds neither the key nor a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WalletError {
    /// The text is no private key.
    #[error("the private key is not 64 hexadecimal digits, with or without 0x: check where it is read from")]
    Key,
    /// A part that every wallet needs was not named.
    #[error("the wallet has no {0}: name one before connecting")]
    Missing(&'static str),
    /// The text is no address of a node.
    #[error("a node's address is not an http or https URL")]
    Url,
    /// Over plain HTTP, anybody on the way can tell the wallet that a payment never happened.
    #[error(
        "a node's address is a plain http URL of another machine: use https, or allow plain HTTP for a private network"
    )]
    PlainHttp,
    /// No node said which chain it serves.
    #[error("no node said which chain it serves: check its address, its key and whether it can be reached")]
    Node,
    /// Two nodes serve different chains.
    #[error("the nodes serve different chains: name nodes of one chain")]
    Chains,
}
