//! `WalletPayer`: a key, RPC endpoints, and ordinary ERC-20 transfers.

mod account;
mod authorization;
mod authorization_status;
#[cfg(feature = "bench-internals")]
#[doc(hidden)]
pub mod bench;
mod builder;
mod cancel;
mod error;
mod faults;
mod nonce_search;
mod prepare;
mod prerequisites;
mod relation;
mod status;
mod trace;
mod transaction;

use std::{fmt, sync::Arc};

pub use builder::WalletPayerBuilder;
pub use error::{WalletError, WalletErrorKind};

use self::account::{Account, WalletSettings};
use super::{
    AuthorizationRequest, AuthorizationStatus, Authorizer, Payer, PayerError, PreparedAuthorization, PreparedTransfer,
    SubmitGuard, TransferRequest, TransferStatus,
};
use crate::{
    evm::{self, wallet::signer::Sign},
    protocol::{
        Address, Amount, Asset, ChainTime, Network, PaymentSignature, TokenDomain, TxHash, v2::SignedAuthorization,
    },
};

/// A payer with a key of its own, which sends ordinary ERC-20 transfers (EIP-1559) through one node or several.
///
/// All transactions of a payment have the same nonce, so the chain itself ensures that it is paid once. The call data
/// ends with the purchase's [tag](crate::protocol::PaymentTag), which distinguishes the transaction from others of the
/// same amount and binds it to the purchase's intent. If a seller asks for more, the wallet [signs](Payer::sign) for
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
/// Clones share one wallet. Create one for each account, in one process, and send from that account with nothing else:
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
    account: Arc<Account>,
    settings: WalletSettings,
}

impl WalletPayer {
    /// Sets the most that a transaction may pay per gas, in wei; 5 gwei by default, which is far above what Base
    /// asks, and may be too little on Ethereum itself. A transfer takes some 50,000 gas, and
    /// never more than 500,000. Where twice the base fee and the tip are above this, nothing is prepared, and nothing replaced. What all
    /// transfers of a day may cost, the [budget](super::BudgetBuilder::gas_per_day) limits.
    ///
    /// The base fee and the tip are the lower median of what the first nodes say that answer, of more than half of all; the tip is at most
    /// the base fee, or 0.01 gwei where that is more. With one node, its word is all there is, and these limits are what holds.
    #[must_use]
    pub const fn max_fee_per_gas(mut self, wei: u128) -> Self {
        self.settings.max_fee_per_gas = wei;
        self
    }

    /// Sets after how many further blocks a block is believed to be final: 12 by default. That a payment was reverted or never
    /// will be mined, after which it may be made again, is not said before. At 0, one reorganisation can cost a
    /// second payment.
    #[must_use]
    pub const fn final_after(mut self, blocks: u64) -> Self {
        self.settings.final_after = blocks;
        self
    }

    /// Sets whether transfers carry their purchase's [tag](crate::protocol::PaymentTag): they do by default, which costs some 600 gas.
    /// Turn it off only for a token that takes no call data behind its arguments.
    ///
    /// Without the tag, a payment is unbound: the seller answers the first request that shows the transaction, unless
    /// it demands a signature. Two purchases at one price are also indistinguishable. If an equal transfer with an
    /// unknown hash uses a payment's nonce, the payment counts as neither paid nor impossible, and stays open until you
    /// decide ([`PayLayer::abandon`](super::PayLayer::abandon)).
    #[must_use]
    pub const fn tagged(mut self, tagged: bool) -> Self {
        self.settings.tagged = tagged;
        self
    }

    /// Returns the account that pays.
    #[must_use]
    pub fn address(&self) -> Address {
        self.account.key.address
    }

    /// Returns the chain that it pays on.
    #[must_use]
    pub fn network(&self) -> Network {
        self.account.key.network
    }
}

/// Without the key and the nodes' addresses.
impl fmt::Debug for WalletPayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evm::wallet::account::Account { address, network, .. } = &self.account.key;
        f.debug_struct("WalletPayer").field("address", address).field("network", network).finish_non_exhaustive()
    }
}

impl Payer for WalletPayer {
    async fn submit_guard(&self) -> SubmitGuard {
        SubmitGuard::held(Arc::clone(&self.account.key.turn).lock_owned().await)
    }

    async fn prepare(&self, payment: &TransferRequest) -> Result<PreparedTransfer, PayerError> {
        prepare::prepare(&self.account, &self.settings, payment).await
    }

    async fn send(&self, prepared: &PreparedTransfer) -> Result<TxHash, PayerError> {
        prepare::send(&self.account, prepared).await
    }

    async fn status(&self, prepared: &[PreparedTransfer]) -> Result<TransferStatus, PayerError> {
        status::status(&self.account, self.settings.final_after, &self.account.read(prepared)?).await
    }

    async fn replace(&self, prepared: &[PreparedTransfer]) -> Result<Option<PreparedTransfer>, PayerError> {
        let sent = self.account.read(prepared)?;
        let (Some(newest), Some(last)) = (sent.last(), prepared.last()) else { return Err(PayerError::Foreign) };
        prepare::replace(&self.account, &self.settings, newest, last.token).await
    }

    async fn sign(&self, message: &str, account: Address) -> Result<Option<PaymentSignature>, PayerError> {
        if account != self.account.key.address {
            return Err(PayerError::Foreign);
        }
        sign_message(&*self.account.key.signer, message).await.map(Some)
    }

    fn authorizations(&self) -> Option<&impl Authorizer> {
        Some(self)
    }
}

impl Authorizer for WalletPayer {
    async fn authorizes(&self, asset: &Asset, amount: Amount) -> Result<Option<TokenDomain>, PayerError> {
        authorization::authorizes(&self.account, asset, amount).await
    }

    async fn authorize(&self, request: &AuthorizationRequest) -> Result<SignedAuthorization, PayerError> {
        authorization::authorize(&self.account.key, request).await
    }

    async fn authorization_status(
        &self,
        prepared: &PreparedAuthorization,
        since: ChainTime,
    ) -> Result<AuthorizationStatus, PayerError> {
        authorization_status::status(&self.account, self.settings.final_after, prepared, since).await
    }

    async fn prepare_cancellation(&self, authorized: &PreparedAuthorization) -> Result<PreparedTransfer, PayerError> {
        cancel::prepare(&self.account, &self.settings, authorized).await
    }
}

/// Signs a message (EIP-191).
async fn sign_message(signer: &dyn Sign, message: &str) -> Result<PaymentSignature, PayerError> {
    let signature = signer.sign_message(message.as_bytes()).await;
    let signature = signature.map_err(|_| PayerError::Refused("the key would not sign the redemption"))?;
    // 65 bytes are few enough.
    PaymentSignature::new(signature.as_bytes()).map_err(|_| PayerError::Refused("the key made no signature"))
}
