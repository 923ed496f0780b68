//! `WalletPayerBuilder`: a wallet from its parts.

use std::{
    fmt, fs,
    path::Path,
    sync::{Arc, Mutex},
};

use alloy::{
    network::TxSigner,
    primitives::Signature,
    signers::{self, local::PrivateKeySigner},
};
use futures_util::future::join_all;
use reqwest::Url;

use super::{
    WalletError, WalletErrorKind, WalletPayer,
    account::{Account, Policy},
    node::Node,
    nodes::Nodes,
    nonce_manager::NonceManager,
    signer::Signer,
};
use crate::{
    client::PayerError,
    protocol::{Address, Network, is_loopback},
};

impl WalletPayer {
    /// Returns a builder: name a key and an endpoint, then [connect](WalletPayerBuilder::connect).
    pub fn builder() -> WalletPayerBuilder {
        WalletPayerBuilder::new()
    }
}

/// Builds a [`WalletPayer`] from a key and the nodes to pay through.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tower_x402::client::WalletPayer;
/// let wallet = WalletPayer::builder()
///     .key(&std::env::var("X402_PAYER_KEY")?)
///     .endpoints(["https://mainnet.base.org", "https://base-rpc.example"])
///     .connect()
///     .await?;
/// # Ok(()) }
/// ```
#[must_use]
pub struct WalletPayerBuilder {
    signer: Result<Signer, WalletError>,
    urls: Vec<String>,
    plain_http: bool,
}

impl WalletPayerBuilder {
    pub(super) fn new() -> Self {
        Self { signer: Err(WalletErrorKind::Missing("key").into()), urls: Vec::new(), plain_http: false }
    }

    /// Pays from the account of this private key: 64 hexadecimal digits, with or without `0x`. Space around it is ignored.
    ///
    /// Keep it off the command line, which every user of the machine can read: take it from a
    /// [file](Self::key_file) or from the environment.
    pub fn key(mut self, private_key_hex: &str) -> Self {
        let signer = private_key_hex.trim().parse::<PrivateKeySigner>();
        // Why it cannot be read might quote from it.
        self.signer = signer.map(|signer| Box::new(signer) as Signer).map_err(|_| WalletErrorKind::Key.into());
        self
    }

    /// Pays from the account of the private key in this file, written as for [`key`](Self::key). Reads the file now.
    pub fn key_file(mut self, path: impl AsRef<Path>) -> Self {
        match fs::read_to_string(path) {
            Ok(private_key_hex) => return self.key(&private_key_hex),
            Err(error) => self.signer = Err(WalletError::because(WalletErrorKind::KeyFile, error)),
        }
        self
    }

    /// Pays from the account of a key that is elsewhere: any signer of alloy, such as a key store's or a cloud's.
    ///
    /// It signs transactions, and a message where a seller asks who paid. While it signs a transaction, no other payment is
    /// prepared, and no time limit applies.
    ///
    /// ```
    /// use tower_x402::client::{WalletPayer, alloy::signers::local::PrivateKeySigner};
    /// let key = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d".parse::<PrivateKeySigner>()?;
    /// let wallet = WalletPayer::builder().signer(key).endpoint("https://mainnet.base.org");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn signer(
        mut self,
        signer: impl TxSigner<Signature> + signers::Signer<Signature> + Send + Sync + 'static,
    ) -> Self {
        self.signer = Ok(Box::new(signer));
        self
    }

    /// Adds a node: the http or https URL of its JSON-RPC interface. The first one is asked first; all must serve one chain.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Adds several nodes.
    pub fn endpoints(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.urls.extend(urls.into_iter().map(Into::into));
        self
    }

    /// Also takes `http://` addresses of other machines, for private networks. Anyone on the path can then tell the
    /// wallet that a payment was reverted, and so make it pay again, up to the day's limit.
    pub const fn allow_plain_http(mut self) -> Self {
        self.plain_http = true;
        self
    }

    /// Asks every node which chain it serves, and builds the wallet. A node that does not answer now is used once it has
    /// answered.
    ///
    /// # Errors
    /// [`WalletError`], whose kind says which part is missing or not valid.
    pub async fn connect(self) -> Result<WalletPayer, WalletError> {
        let signer = self.signer?;
        if self.urls.is_empty() {
            return Err(WalletErrorKind::Missing("endpoint").into());
        }
        let nodes = self.urls.iter().map(|url| node(url, self.plain_http)).collect::<Result<Vec<_>, _>>()?;
        let chains = join_all(nodes.iter().map(Node::chain_id)).await;
        let mut told = chains.iter().flatten().copied();
        let Some(chain_id) = told.next() else {
            let failure = chains.into_iter().find_map(Result::err).map(PayerError::from);
            return Err(
                failure.map_or(WalletErrorKind::Node.into(), |why| WalletError::because(WalletErrorKind::Node, why))
            );
        };
        if told.any(|other| other != chain_id) {
            return Err(WalletErrorKind::Chains.into());
        }
        for (node, _) in nodes.iter().zip(&chains).filter(|(_, chain)| chain.is_ok()) {
            node.proved();
        }
        let account = Account {
            nodes: Nodes::new(nodes, chain_id),
            address: Address::new(TxSigner::address(&*signer).into()),
            signer,
            network: Network::eip155(chain_id),
            turn: Arc::default(),
            nonces: NonceManager::default(),
            decimals: Mutex::default(),
        };
        Ok(WalletPayer { account: Arc::new(account), policy: Policy::default() })
    }
}

fn node(url: &str, plain_http: bool) -> Result<Node, WalletError> {
    let parsed = Url::parse(url.trim()).map_err(|error| WalletError::because(WalletErrorKind::Url, error))?;
    let node = Node::new(url).ok_or(WalletErrorKind::Url)?;
    if parsed.scheme() == "http" && !parsed.host_str().is_some_and(is_loopback) && !plain_http {
        return Err(WalletErrorKind::PlainHttp.into());
    }
    Ok(node)
}

/// Without the key and the URLs.
impl fmt::Debug for WalletPayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalletPayerBuilder").field("endpoints", &self.urls.len()).finish_non_exhaustive()
    }
}
