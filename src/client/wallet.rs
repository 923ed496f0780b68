//! `WalletPayer`: pays with a key and RPC endpoints, by transfer, authorization, permit or channel.

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

/// A payer with its own key, which sends ordinary ERC-20 transfers (EIP-1559) through one or more nodes.
///
/// All transactions of a payment have the same nonce, so the chain itself ensures that it is paid once. The call data
/// ends with the purchase's [tag](crate::protocol::PaymentTag), which distinguishes the transaction from others of the
/// same amount and binds it to the purchase's intent. If a seller asks for more, the wallet [signs](crate::client::Payer::sign) for
/// the transaction.
///
/// **When a payment may be made again.** The wallet reports that a payment will never be mined only after it has seen
/// the transaction that took the payment's nonce: signed by this account (the signature is checked), without the
/// payment's tag, in a block [`final_after`](Self::final_after) deep. It reports a revert only from a receipt in such a
/// block. Both need the agreement of every node that answers, and of more than half of those configured. So name
/// several nodes of different operators: a single one can make the wallet pay again, up to the day's limit. For old
/// payments the nodes must still have the account's old nonces and receipts (archive nodes); other nodes leave the
/// payment open, which costs nothing.
///
/// **Authorizations.** For tokens with EIP-3009, the wallet signs transfers that the seller sends. The domains of USDC
/// on Base and Base Sepolia are built in; for other tokens it reads the domain from the contract. The validity of an
/// authorization counts from the newest block's time or the machine's clock, whichever is later, so a clock that is up
/// to five minutes slow does not shorten it. A block time further ahead is not believed; with several nodes, the lower
/// median counts. Signing waits for no other payment, and at most two seconds for the nodes. An authorization counts as
/// [void](super::AuthorizationStatus::Void) only when every responding node, and a majority of those configured, agree:
/// at a block `final_after` deep, it has expired unused or was cancelled. The machine's clock does not count, and a
/// node without the state of that block has no vote. If a single node reports it as used, it is not void. Until a
/// cancellation is deep enough, and while some nodes lack it, the wallet returns an error.
///
/// **Permits.** The wallet pays for metered answers (`upto`), and in tokens without EIP-3009, by Permit2. It reads
/// balance and allowance before it signs, and signs no permit above either. [`allow_permit2`](Self::allow_permit2)
/// makes the allowance. A permit counts as void under the same conditions as an expired authorization. The seller's
/// charge is read from the call of the settling transaction, by every responding node and a majority of those
/// configured.
///
/// **Channels.** The wallet's own key signs the vouchers of its payment channels. If nodes differ, the lowest balance
/// and the highest claim count. A withdrawal without the seller takes two ordinary transactions of the account.
///
/// **Networks.** A wallet pays on the network of its nodes. [`and`](Self::and) joins wallets of several networks. Each
/// network has its own nodes, so unresponsive nodes stop the payments on their network alone.
///
/// Clones share one wallet. Create one for each account and network, in one process, and let nothing else send from
/// that account: nonces used by others make payments impossible, though never double. If a node reports over 64 pending
/// transactions that this wallet did not send, it is not believed, and nothing is paid.
///
/// Neither its `Debug` nor its errors show the key, a node's address, or text from a node.
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
    /// One wallet for each network; never empty.
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

    /// Adds the networks of another wallet, so that this one pays on all of them. Each network keeps its account, nodes
    /// and settings. A payment waits only for others on the same network.
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

    /// Sets the highest fee per gas of a transaction, in wei, on every network of this wallet. Default: 5 gwei, which
    /// is far above Base's fees, but may be too little on Ethereum itself. A transfer takes some 50,000 gas, and never
    /// more than 500,000. If twice the base fee plus the tip exceeds this limit, nothing is prepared and nothing
    /// replaced. The [budget](super::BudgetBuilder::gas_per_day) limits the fees of a day.
    ///
    /// Base fee and tip are the lower median of the first answers from more than half of the nodes. The tip is at most
    /// the base fee, or 0.01 gwei if that is more. With one node, only these limits protect against a false answer.
    #[must_use]
    pub fn max_fee_per_gas(self, wei: u128) -> Self {
        self.set(|settings| settings.max_fee_per_gas = wei)
    }

    /// Sets how many further blocks make a block final. Default: 12. The wallet reports no sooner that a payment was
    /// reverted or will never be mined, after which it may be made again. At 0, one reorganisation can cost a second
    /// payment. On a chain with fewer blocks than that, no block is final, and a channel's refund counts later.
    #[must_use]
    pub fn final_after(self, blocks: u64) -> Self {
        self.set(|settings| settings.final_after = blocks)
    }

    /// Sets whether transfers carry their purchase's [tag](crate::protocol::PaymentTag), which costs some 600 gas.
    /// Default: on. Turn it off only for a token that takes no call data behind its arguments.
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

    /// Returns the networks on which this wallet pays.
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

/// Omits the keys and the nodes' addresses.
impl fmt::Debug for WalletPayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = f.debug_struct("WalletPayer");
        for NetworkWallet { account, .. } in &self.wallets {
            list.field("address", &account.key.address).field("network", &account.key.network);
        }
        list.finish_non_exhaustive()
    }
}
