//! `WalletPayer`: a key, RPC endpoints, and ordinary ERC-20 transfers.

mod account;
mod allow;
mod authorization;
mod authorization_status;
#[cfg(feature = "bench-internals")]
#[doc(hidden)]
pub mod bench;
mod builder;
mod cancel;
mod channel;
mod channel_signer;
mod error;
mod faults;
mod nonce_search;
mod payer;
mod permit;
mod prepare;
mod prerequisites;
mod relation;
mod status;
mod trace;
mod transaction;
mod withdraw;

use std::{fmt, sync::Arc};

pub use allow::Permit2Approval;
pub use builder::WalletPayerBuilder;
pub use error::{WalletError, WalletErrorKind};

use self::account::{Account, WalletSettings};
use super::{PayerError, PreparedTransfer};
use crate::{
    evm,
    protocol::{Address, Network},
};

/// A payer with a key of its own, which sends ordinary ERC-20 transfers (EIP-1559) through one node or several.
///
/// All transactions of a payment have the same nonce, so the chain itself ensures that it is paid once. The call data
/// ends with the purchase's [tag](crate::protocol::PaymentTag), which distinguishes the transaction from others of the
/// same amount and binds it to the purchase's intent. If a seller asks for more, the wallet [signs](crate::client::Payer::sign) for
/// the transaction.
///
/// **When a payment may be made again.** That it will never be mined is said only when the transaction that took its
/// nonce has been seen: signed by this account (its signature is checked), without the payment's tag, in a block
/// [`final_after`](Self::final_after) deep. That it was reverted is said only of a receipt in such a block. Both take every
/// node that answers, and more than half of those that were named; so name several, of different operators: one
/// alone can make the wallet pay again, up to the day's limit. Where it was long ago, it takes nodes that still have the account's old
/// nonces and receipts (archive nodes); others leave the payment open, which costs nothing.
///
/// **Authorizations.** For tokens with EIP-3009, the wallet signs transfers that the seller sends. The domains of USDC
/// on Base and Base Sepolia are built in; for other tokens it reads the domain from the contract. The validity of an
/// authorization counts from the newest block's time or the machine's clock, whichever is later, so a clock that is up
/// to five minutes slow does not shorten it. A block time further ahead is not believed, and the lower median of
/// several nodes counts. Signing waits for no other payment, and at most two seconds for the nodes. An authorization
/// counts as [void](super::AuthorizationStatus::Void) only when every responding node, and a majority of those
/// configured, agree: at a block `final_after` deep, it has expired unused or was cancelled. The machine's clock does
/// not count, and a node without the state of that block has no vote. If a single node reports it as used, it is not
/// void. A cancellation that is not deep enough, or that some nodes lack, is an error until then.
///
/// **Permits.** Metered answers (`upto`), and tokens without EIP-3009, are paid by Permit2: the wallet reads balance and allowance before it
/// signs, and signs no permit above either. [`allow_permit2`](Self::allow_permit2) makes the allowance. A permit counts as void under the same
/// conditions as an authorization that expired. What a seller charged of it is read from the transaction's own call, by every responding
/// node and a majority of those configured.
///
/// **Channels.** The wallet's own key signs the vouchers of its payment channels. What a channel holds is the least that any node says, and what is
/// claimed of it the most. A withdrawal without the seller is two ordinary transactions of the account.
///
/// **Networks.** A wallet pays on the network of its nodes. [`and`](Self::and) joins wallets of several networks; each has
/// its own nodes, so nodes of one network that do not answer stop the payments on that network alone.
///
/// Clones share one wallet. Create one for each account and network, in one process, and send from that account with nothing else:
/// nonces that others use make payments impossible, though never double. A node that counts over 64 transactions
/// waiting that were not sent from here is not believed, and nothing is paid.
///
/// Neither its `Debug` nor any of its errors show the key, a node's address, or text of a node.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tower_x402::client::WalletPayer;
///
/// let wallet = WalletPayer::builder().key_file("payer.key").endpoint("https://mainnet.base.org").connect().await?;
/// let wallet = wallet.max_fee_per_gas(2_000_000_000);
/// println!("{} pays on {}", wallet.address(), wallet.network());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WalletPayer {
    /// One for each network; never empty.
    wallets: Vec<NetworkWallet>,
}

/// The account of one network, and how it pays there.
#[derive(Clone)]
struct NetworkWallet {
    account: Arc<Account>,
    settings: WalletSettings,
}

impl WalletPayer {
    fn of(account: Account) -> Self {
        Self { wallets: vec![NetworkWallet { account: Arc::new(account), settings: WalletSettings::default() }] }
    }

    /// Adds the networks of another wallet: this one then pays on all of them. Each network keeps its account, its nodes
    /// and its settings, and its payments wait only for others on the same network.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use tower_x402::client::WalletPayer;
    ///
    /// let base = WalletPayer::builder().key_file("payer.key").endpoint("https://mainnet.base.org").connect().await?;
    /// let polygon = WalletPayer::builder().key_file("payer.key").endpoint("https://polygon-rpc.example").connect().await?;
    /// let wallet = base.and(polygon.max_fee_per_gas(300_000_000_000))?;
    /// assert_eq!(wallet.networks().count(), 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WalletErrorKind::SameNetwork`] if both pay on one network.
    pub fn and(mut self, other: Self) -> Result<Self, WalletError> {
        if other.networks().any(|network| self.on(network).is_ok()) {
            return Err(WalletErrorKind::SameNetwork.into());
        }
        self.wallets.extend(other.wallets);
        Ok(self)
    }

    /// Sets the most that a transaction may pay per gas, in wei, on every network of this wallet; 5 gwei by default, which
    /// is far above what Base asks, and may be too little on Ethereum itself. A transfer takes some 50,000 gas, and
    /// never more than 500,000. Where twice the base fee and the tip are above this, nothing is prepared, and nothing replaced. What all
    /// transfers of a day may cost, the [budget](super::BudgetBuilder::gas_per_day) limits.
    ///
    /// The base fee and the tip are the lower median of what the first nodes say that answer, of more than half of all; the tip is at most
    /// the base fee, or 0.01 gwei where that is more. With one node, its word is all there is, and these limits are what holds.
    #[must_use]
    pub fn max_fee_per_gas(self, wei: u128) -> Self {
        self.set(|settings| settings.max_fee_per_gas = wei)
    }

    /// Sets after how many further blocks a block is believed to be final: 12 by default. That a payment was reverted or never
    /// will be mined, after which it may be made again, is not said before. At 0, one reorganisation can cost a
    /// second payment. On a chain that has fewer blocks than that no block is final: what comes back from a channel counts later.
    #[must_use]
    pub fn final_after(self, blocks: u64) -> Self {
        self.set(|settings| settings.final_after = blocks)
    }

    /// Sets whether transfers carry their purchase's [tag](crate::protocol::PaymentTag): they do by default, which costs some 600 gas.
    /// Turn it off only for a token that takes no call data behind its arguments.
    ///
    /// Without the tag, a payment is unbound: the seller answers the first request that shows the transaction, unless
    /// it demands a signature. Two purchases at one price are also indistinguishable. If an equal transfer with an
    /// unknown hash uses a payment's nonce, the payment counts as neither paid nor impossible, and stays open until you
    /// decide ([`PayLayer::abandon`](super::PayLayer::abandon)).
    #[must_use]
    pub fn tagged(self, tagged: bool) -> Self {
        self.set(|settings| settings.tagged = tagged)
    }

    /// Returns the account that pays, on the first network.
    #[must_use]
    pub fn address(&self) -> Address {
        self.first().address
    }

    /// Returns the first network.
    #[must_use]
    pub fn network(&self) -> Network {
        self.first().network
    }

    /// Returns the networks that it pays on.
    pub fn networks(&self) -> impl Iterator<Item = Network> {
        self.wallets.iter().map(NetworkWallet::network)
    }

    fn set(mut self, set: impl Fn(&mut WalletSettings)) -> Self {
        self.wallets.iter_mut().for_each(|wallet| set(&mut wallet.settings));
        self
    }

    #[expect(clippy::indexing_slicing, reason = "a wallet has at least one network")]
    fn first(&self) -> &evm::wallet::account::Account {
        &self.wallets[0].account.key
    }

    /// Returns the wallet of that network.
    fn on(&self, network: Network) -> Result<&NetworkWallet, PayerError> {
        let wallet = self.wallets.iter().find(|wallet| wallet.network() == network);
        wallet.ok_or(PayerError::WrongNetwork(network))
    }

    /// Returns the wallet that prepared these transfers.
    fn of_prepared(&self, prepared: &[PreparedTransfer]) -> Result<&NetworkWallet, PayerError> {
        self.on(prepared.first().ok_or(PayerError::Foreign)?.network)
    }
}

impl NetworkWallet {
    fn network(&self) -> Network {
        self.account.key.network
    }
}

/// Without the keys and the nodes' addresses.
impl fmt::Debug for WalletPayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_struct("WalletPayer");
        for NetworkWallet { account, .. } in &self.wallets {
            list.field("address", &account.key.address).field("network", &account.key.network);
        }
        list.finish_non_exhaustive()
    }
}
