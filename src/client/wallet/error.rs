//! `WalletError`: why a wallet cannot be built.

use std::fmt;

use crate::{
    client::{PayerError, box_error::BoxError},
    evm::wallet::connect::{ConnectFault, KeyFault},
};

/// The error of [`WalletPayerBuilder::connect`](super::WalletPayerBuilder::connect). Neither its text nor its source holds
/// the key or a URL.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// use tower_x402::client::{WalletErrorKind, WalletPayer};
///
/// let error = WalletPayer::builder().endpoint("https://mainnet.base.org").connect().await.unwrap_err();
/// assert_eq!(error.kind(), WalletErrorKind::Missing("key"));
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct WalletError {
    kind: WalletErrorKind,
    source: Option<BoxError>,
}

/// The kind of a wallet's configuration error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WalletErrorKind {
    /// The text is not a private key.
    Key,
    /// The file with the private key cannot be read.
    KeyFile,
    /// A required part was not given.
    Missing(&'static str),
    /// The text is not a node's address.
    Url,
    /// A node's address is plain HTTP, where anyone on the path can claim that a payment never happened.
    PlainHttp,
    /// No node said which chain it serves.
    Node,
    /// Two nodes serve different chains.
    Chains,
    /// Both wallets to be joined pay on the same network.
    SameNetwork,
}

impl WalletError {
    fn because(kind: WalletErrorKind, source: impl Into<BoxError>) -> Self {
        Self { kind, source: Some(source.into()) }
    }

    /// Returns the kind of error.
    #[must_use]
    pub const fn kind(&self) -> WalletErrorKind {
        self.kind
    }
}

impl From<WalletErrorKind> for WalletError {
    fn from(kind: WalletErrorKind) -> Self {
        Self { kind, source: None }
    }
}

impl From<KeyFault> for WalletError {
    fn from(fault: KeyFault) -> Self {
        match fault {
            KeyFault::File(error) => Self::because(WalletErrorKind::KeyFile, error),
            KeyFault::Text => WalletErrorKind::Key.into(),
        }
    }
}

impl From<ConnectFault> for WalletError {
    fn from(fault: ConnectFault) -> Self {
        match fault {
            ConnectFault::Missing => WalletErrorKind::Missing("endpoint").into(),
            ConnectFault::Url(Some(error)) => Self::because(WalletErrorKind::Url, error),
            ConnectFault::Url(None) => WalletErrorKind::Url.into(),
            ConnectFault::PlainHttp => WalletErrorKind::PlainHttp.into(),
            ConnectFault::Node(Some(failure)) => Self::because(WalletErrorKind::Node, PayerError::from(failure)),
            ConnectFault::Node(None) => WalletErrorKind::Node.into(),
            ConnectFault::Chains => WalletErrorKind::Chains.into(),
        }
    }
}

impl fmt::Display for WalletError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            WalletErrorKind::Key => {
                "the private key is not 64 hexadecimal digits, with or without 0x: check where it is read from"
            }
            WalletErrorKind::KeyFile => "the file with the private key cannot be read: check its path and permissions",
            WalletErrorKind::Missing(part) => return write!(f, "the wallet has no {part}: name one before connecting"),
            WalletErrorKind::Url => "a node's address is not an http or https URL: check the endpoint",
            WalletErrorKind::PlainHttp => {
                "a node's address is a plain http URL of another machine: use https, or allow plain HTTP for a private network"
            }
            WalletErrorKind::Node => {
                "no node said which chain it serves: check its address, its key and whether it can be reached"
            }
            WalletErrorKind::Chains => "the nodes serve different chains: build a wallet for each chain, and join them with `and`",
            WalletErrorKind::SameNetwork => "both wallets pay on the same network: name all its nodes in one of them",
        })
    }
}

impl fmt::Debug for WalletError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalletError").field("kind", &self.kind).field("source", &self.source).finish()
    }
}

impl std::error::Error for WalletError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&**self.source.as_ref()?)
    }
}
