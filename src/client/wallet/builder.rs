//! `WalletPayerBuilder`: builds a wallet.

use std::{fmt, path::Path, sync::Mutex};

use alloy::{network::TxSigner, primitives::Signature, signers};

use super::{WalletError, WalletErrorKind, WalletPayer, account::Account};
use crate::evm::wallet::{account, connect, signer::Signer};

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

    /// Pays from the account of this private key: 64 hexadecimal digits, with or without `0x`. Surrounding whitespace
    /// is ignored.
    ///
    /// Keep it off the command line, which every user of the machine can read: use a [file](Self::key_file) or the
    /// environment.
    pub fn key(mut self, private_key_hex: &str) -> Self {
        self.signer = connect::key(private_key_hex).map_err(WalletError::from);
        self
    }

    /// Pays from the account of the private key in this file, in the format of [`key`](Self::key). Reads the file
    /// immediately.
    pub fn key_file(mut self, path: impl AsRef<Path>) -> Self {
        self.signer = connect::key_file(path.as_ref()).map_err(WalletError::from);
        self
    }

    /// Pays from the account of an external key, with any alloy signer, such as a key store's or a cloud's.
    ///
    /// It signs transactions, authorizations (by the hash of their EIP-712 message, which the signer must support), and
    /// a message if a seller demands a proof by the payer. While it signs a transaction, no other payment is prepared,
    /// and no time limit applies.
    ///
    /// ```
    /// use tower_x402::{alloy::signers::local::PrivateKeySigner, client::WalletPayer};
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

    /// Adds a node: the HTTP or HTTPS URL of its JSON-RPC interface. The first one is asked first; all must serve one
    /// chain.
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.urls.push(url.into());
        self
    }

    /// Adds several nodes.
    pub fn endpoints(mut self, urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.urls.extend(urls.into_iter().map(Into::into));
        self
    }

    /// Also accepts `http://` addresses of other machines, for private networks. Anyone on the path can then claim that
    /// a payment was reverted, and so make the wallet pay again, up to the day's limit.
    pub const fn allow_plain_http(mut self) -> Self {
        self.plain_http = true;
        self
    }

    /// Asks every node for its chain, and builds the wallet. A node that does not answer now is used once it has
    /// answered.
    ///
    /// # Errors
    /// [`WalletError`]; its kind names the missing or invalid part.
    pub async fn connect(self) -> Result<WalletPayer, WalletError> {
        let signer = self.signer?;
        let nodes = connect::connect(&self.urls, self.plain_http).await?;
        let account = Account {
            key: account::Account::new(nodes, signer),
            decimals: Mutex::default(),
            domains: Mutex::default(),
        };
        Ok(WalletPayer::of(account))
    }
}

/// Omits the key and the URLs.
impl fmt::Debug for WalletPayerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalletPayerBuilder").field("endpoints", &self.urls.len()).finish_non_exhaustive()
    }
}
