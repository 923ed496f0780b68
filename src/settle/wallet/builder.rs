//! `WalletSettlerBuilder`: builds a settling wallet.

use std::{fmt, path::Path, sync::Arc, time::Duration};

use alloy::{network::TxSigner, primitives::Signature, signers};

use super::{
    WalletSettler,
    core::{Core, Policy},
};
use crate::{
    evm::wallet::{
        account::Account,
        connect::{self, ConnectFault, KeyFault},
        nodes::Nodes,
        signer::Signer,
    },
    protocol::{Address, Amount, Network},
    settle::{SettleError, SettleErrorKind},
};

impl WalletSettler {
    /// Returns a builder: name a key and an endpoint, then [connect](WalletSettlerBuilder::connect).
    pub fn builder() -> WalletSettlerBuilder {
        let signer = Err(SettleError::new(SettleErrorKind::InvalidKey));
        WalletSettlerBuilder {
            signer,
            receiver_authorizer: None,
            urls: Vec::new(),
            plain_http: false,
            policy: Policy::default(),
        }
    }
}

/// Builds a [`WalletSettler`] from a key and the nodes to settle through.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tower_x402::settle::WalletSettler;
/// let settler = WalletSettler::builder()
///     .key(&std::env::var("X402_SETTLE_KEY")?)
///     .endpoints(["https://mainnet.base.org", "https://base-rpc.example"])
///     .min_balance(2_000_000_000_000_000)
///     .connect()
///     .await?;
/// # let _ = settler;
/// # Ok(()) }
/// ```
#[must_use]
pub struct WalletSettlerBuilder {
    signer: Result<Signer, SettleError>,
    receiver_authorizer: Option<Result<Signer, SettleError>>,
    urls: Vec<String>,
    plain_http: bool,
    policy: Policy,
}

impl WalletSettlerBuilder {
    /// Settles from the account of this private key: 64 hexadecimal digits, with or without `0x`. Surrounding
    /// whitespace is ignored.
    ///
    /// Keep it off the command line, which every user of the machine can read: use a [file](Self::key_file) or the
    /// environment.
    pub fn key(mut self, private_key_hex: &str) -> Self {
        self.signer = connect::key(private_key_hex).map_err(SettleError::from);
        self
    }

    /// Settles from the account of the private key in this file, in the format of [`key`](Self::key). Reads the file
    /// immediately.
    pub fn key_file(mut self, path: impl AsRef<Path>) -> Self {
        self.signer = connect::key_file(path.as_ref()).map_err(SettleError::from);
        self
    }

    /// Settles with an external key, with any alloy signer, such as a key store or a cloud service.
    ///
    /// While it signs, no other payment is sent, and no time limit applies.
    ///
    /// ```
    /// use tower_x402::{alloy::signers::local::PrivateKeySigner, settle::WalletSettler};
    /// let key = "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d".parse::<PrivateKeySigner>()?;
    /// let settler = WalletSettler::builder().signer(key).endpoint("https://mainnet.base.org");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn signer(
        mut self,
        signer: impl TxSigner<Signature> + signers::Signer<Signature> + Send + Sync + 'static,
    ) -> Self {
        self.signer = Ok(Box::new(signer));
        self
    }

    /// Signs claims and refunds of [channels](crate::settle::ChannelSettler) with this private key, in the format of
    /// [`key`](Self::key). Default: the settling account's key.
    ///
    /// Channels name its account. Keep the key as long as there are channels: without it, only the receiver's own
    /// account can claim what was sold. A separate key lets you replace the settling key while channels are open. The
    /// account needs no ether.
    pub fn receiver_authorizer_key(mut self, private_key_hex: &str) -> Self {
        self.receiver_authorizer = Some(connect::key(private_key_hex).map_err(SettleError::from));
        self
    }

    /// Signs claims and refunds with the private key in this file. Reads the file immediately.
    pub fn receiver_authorizer_key_file(mut self, path: impl AsRef<Path>) -> Self {
        self.receiver_authorizer = Some(connect::key_file(path.as_ref()).map_err(SettleError::from));
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
    /// a payment was settled.
    pub const fn allow_plain_http(mut self) -> Self {
        self.plain_http = true;
        self
    }

    /// Sets the highest fee per gas of a transaction, in wei. Default: 5 gwei, which is far above Base's fees. If twice
    /// the base fee plus the tip exceeds it, nothing is settled.
    pub const fn max_fee_per_gas(mut self, wei: u128) -> Self {
        self.policy.max_fee_per_gas = wei;
        self
    }

    /// Sets the balance, in wei, below which [`health`](crate::settle::Settler::health) fails and a warning is logged.
    /// Default: 0.0005 ether.
    pub const fn min_balance(mut self, wei: u128) -> Self {
        self.policy.min_balance = wei;
        self
    }

    /// Sets how many further blocks make a block final. Default: 12; with more than 100, there are no channels. The
    /// settler reports no sooner that a sent payment was not settled, after which its payer signs another one.
    pub const fn final_after(mut self, blocks: u64) -> Self {
        self.policy.final_after = blocks;
        self
    }

    /// Sets how many blocks, including its own, must confirm a deposit into a payment channel before it covers
    /// vouchers. Default: 1. With more, the first answer after a deposit waits for them, up to a minute. Claims always
    /// wait for [`final_after`](Self::final_after).
    pub const fn deposit_confirmations(mut self, blocks: u64) -> Self {
        self.policy.deposit_confirmations = blocks;
        self
    }

    /// Sets how long a transaction may wait before it is resent or replaced. Default: 15 seconds; at least one second.
    pub const fn replace_after(mut self, wait: Duration) -> Self {
        self.policy.replace_after = wait;
        self
    }

    /// Sets whether payers may be contract accounts, or keys that delegate to a contract (EIP-7702). Default: true.
    ///
    /// The account's own code decides whether it accepts a signature when the transaction is mined. It can accept in
    /// every trial, and still burn up to 300,000 gas of the settling account on the chain, once in six hours for each
    /// account. If sales to contract accounts are not worth that, set this to false.
    pub const fn contract_accounts(mut self, taken: bool) -> Self {
        self.policy.contract_accounts = taken;
        self
    }

    /// Sets the price of one whole coin of the chain (10¹⁸ wei) in this token, in base units. The settler then settles
    /// a payment in the token only if gas costs at most its [share](Self::max_gas_share) of the payment. Without a
    /// price, which is the default, there is no comparison: set your prices above the cost of gas.
    ///
    /// Round the price up, and update it after large market moves. The comparison ignores a chain's charge for data,
    /// such as Base's for its data on Ethereum.
    ///
    /// ```
    /// use tower_x402::{protocol::{Amount, Asset}, settle::WalletSettler};
    /// // 5,000 USDC for an ether.
    /// let price = Amount::from_base_units(5_000_000_000);
    /// let settler = WalletSettler::builder().coin_price(Asset::USDC_BASE.contract(), price).max_gas_share(20);
    /// # let _ = settler;
    /// ```
    pub fn coin_price(mut self, token: Address, units: Amount) -> Self {
        self.policy.coin_prices.insert(token, units);
        self
    }

    /// Sets the largest cost of gas, in per cent of the payment. Default: 50. It applies to tokens with a [price of the
    /// coin](Self::coin_price). For a payment of `upto`, it is relative to the maximum.
    ///
    /// If gas costs more, [`verify`](crate::settle::Settler::verify) fails with
    /// [`GasAbovePrice`](SettleErrorKind::GasAbovePrice), before any handler runs. If gas becomes more expensive after
    /// that, the settler sends nothing, and the outcome is [`Unknown`](crate::settle::Settlement::Unknown).
    /// Transactions that were already sent are still replaced at higher fees, up to
    /// [`max_fee_per_gas`](Self::max_fee_per_gas).
    pub const fn max_gas_share(mut self, percent: u32) -> Self {
        self.policy.gas_share = percent;
        self
    }

    /// Asks every node for its chain, and builds the settler. A node that does not answer now is used once it has
    /// answered.
    ///
    /// # Errors
    /// [`InvalidKey`](SettleErrorKind::InvalidKey); [`InvalidEndpoint`](SettleErrorKind::InvalidEndpoint), also if two
    /// nodes serve different chains; [`InvalidSetting`](SettleErrorKind::InvalidSetting); and
    /// [`Unavailable`](SettleErrorKind::Unavailable) if no node answers.
    pub async fn connect(self) -> Result<WalletSettler, SettleError> {
        let nodes = connect::connect(&self.urls, self.plain_http).await?;
        self.build(nodes)
    }

    /// Builds the settler without asking any node. A node is used once it has reported that it serves this chain.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect), except [`Unavailable`](SettleErrorKind::Unavailable).
    pub fn connect_lazily(self, network: Network) -> Result<WalletSettler, SettleError> {
        let nodes = connect::connect_lazily(&self.urls, self.plain_http, network.chain_id())?;
        self.build(nodes)
    }

    fn build(self, nodes: Nodes) -> Result<WalletSettler, SettleError> {
        let bad = |what| Err(SettleError::new(SettleErrorKind::InvalidSetting { what }));
        if self.policy.max_fee_per_gas == 0 {
            return bad("max_fee_per_gas");
        }
        if self.policy.replace_after < Duration::from_secs(1) {
            return bad("replace_after");
        }
        if self.policy.gas_share == 0 {
            return bad("max_gas_share");
        }
        let mut core = Core::new(Account::new(nodes, self.signer?), self.policy);
        core.authorizer = self.receiver_authorizer.transpose()?;
        Ok(WalletSettler { core: Arc::new(core) })
    }
}

impl From<KeyFault> for SettleError {
    fn from(_: KeyFault) -> Self {
        SettleError::new(SettleErrorKind::InvalidKey)
    }
}

impl From<ConnectFault> for SettleError {
    fn from(fault: ConnectFault) -> Self {
        match fault {
            ConnectFault::Missing | ConnectFault::Url(_) | ConnectFault::PlainHttp | ConnectFault::Chains => {
                SettleError::new(SettleErrorKind::InvalidEndpoint)
            }
            ConnectFault::Node(_) => Self::unavailable(),
        }
    }
}

/// Omits the key and the URLs.
impl fmt::Debug for WalletSettlerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WalletSettlerBuilder").field("endpoints", &self.urls.len()).finish_non_exhaustive()
    }
}
