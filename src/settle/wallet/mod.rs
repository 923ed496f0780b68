//! `WalletSettler`: sends authorizations with the seller's own key, and pays their gas.

mod builder;
mod channels;
mod checks;
mod core;
mod flights;
mod gaps;
mod inquiries;
#[cfg(test)]
mod minority;
mod order;
mod patience;
mod permits;
mod reasons;
mod recall;
mod settling;
mod trace;
mod trial;
mod watching;

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::timeout;

pub use self::builder::WalletSettlerBuilder;
use self::{core::Core, order::Order};
use super::{
    PermitPayment, PermitSettler, PermitTerms, SettleError, Settlement, Settler, SignedPayment, TransactionRecorder,
    Validity,
};
use crate::{
    evm::permit2,
    protocol::{Address, Amount, Network, TokenDomain, permit2::PermitScheme},
};

/// A settler with its own key, which sends `transferWithAuthorization` (EIP-3009) through one or more nodes, and pays
/// the gas. It also settles permits ([`PermitSettler`]) through the standard's proxies; for `upto`, its own account is
/// the facilitator. And it operates payment channels ([`ChannelSettler`](super::ChannelSettler)), with a key that may
/// be [another one](WalletSettlerBuilder::receiver_authorizer_key).
///
/// The money goes from the payer to the recipient: the settling account holds nothing but ether, and need not be the
/// recipient. Each call is simulated before it is sent, so that a failing call costs nothing. Its call data ends with
/// the [tag](crate::protocol::PaymentTag) of the quote that it pays for.
///
/// **Checks.** Key signatures are checked without a node. One payer's payments in progress are compared with its
/// balance together. Trial calls use the fees of the transaction: otherwise a contract account could recognize a trial
/// by its gas price of zero, accept there, and burn the gas on the chain. An account with code that still makes a
/// payment revert is refused for six hours, and [`contract_accounts`](WalletSettlerBuilder::contract_accounts) can
/// refuse all of them.
///
/// **Nonces.** Payments are settled in parallel, with one nonce each, in order. A background task watches each
/// transaction until it is mined, even after its caller has left. A stuck transaction is resent with a higher fee, up
/// to [`max_fee_per_gas`](WalletSettlerBuilder::max_fee_per_gas), and replaced by an empty transaction once its payment
/// has become impossible. Nonces that an earlier process left open are filled in the same way. A payment that is
/// presented again while it is being settled is not sent twice. A node whose transaction count is far off is ignored if
/// more than half of all nodes agree. Otherwise nothing is sent, and [`health`](Settler::health) fails.
///
/// **When a payment is refused.** Before sending, a payment is refused if every node reports its nonce as unused. After
/// sending, it is refused only on the basis of a block [`final_after`](WalletSettlerBuilder::final_after) deep, in
/// which the account's nonce is used and the authorization's is not. Any other outcome is [`Settlement::Unknown`].
///
/// Clones share one account. Create one for each account, in one process, and let nothing else send from that account.
///
/// Neither its `Debug` nor its errors show the key, a node's address, or text from a node.
///
/// ```no_run
/// # async fn example() -> Result<(), tower_x402::settle::SettleError> {
/// use tower_x402::settle::{Settler as _, WalletSettler};
///
/// let settler = WalletSettler::builder().key_file("settler.key").endpoint("https://mainnet.base.org").connect().await?;
/// settler.health().await?;
/// println!("{} settles on {}", settler.address(), settler.network());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WalletSettler {
    core: Arc<Core>,
}

impl WalletSettler {
    /// Returns the account that pays the gas.
    #[must_use]
    pub fn address(&self) -> Address {
        self.core.account.address
    }

    /// Returns the network on which it settles.
    #[must_use]
    pub fn network(&self) -> Network {
        self.core.account.network
    }
}

/// Omits the key and the nodes' addresses.
impl fmt::Debug for WalletSettler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, network) = (self.address(), self.network());
        f.debug_struct("WalletSettler").field("address", &address).field("network", &network).finish_non_exhaustive()
    }
}

impl Settler for WalletSettler {
    async fn domain(
        &self,
        network: Network,
        token: Address,
        stated: Option<&TokenDomain>,
    ) -> Result<Option<TokenDomain>, SettleError> {
        checks::domain(&self.core, network, token, stated).await
    }

    async fn verify(&self, payment: &SignedPayment) -> Result<Validity, SettleError> {
        checks::verify(&self.core, payment).await
    }

    fn is_signed_by_key(&self, payment: &SignedPayment) -> bool {
        Order::of(payment).is_by_key
    }

    /// Dropping the future does not stop the settlement.
    async fn settle(&self, payment: &SignedPayment, recorder: &TransactionRecorder) -> Settlement {
        if let Some(reason) = checks::misfit(&self.core, payment) {
            return Settlement::Refused(reason);
        }
        self.settle_order(Order::of(payment), recorder, self.core.policy.settled_within).await
    }

    async fn health(&self) -> Result<(), SettleError> {
        checks::has_ether(&self.core, self.core.policy.min_balance).await?;
        // Without a next nonce nothing can be sent.
        match self.core.account.has_next_nonce().await {
            true => Ok(()),
            false => checks::next_nonce(&self.core).await.map(|_| ()),
        }
    }
}

impl PermitSettler for WalletSettler {
    async fn permit_terms(
        &self,
        network: Network,
        token: Address,
        scheme: PermitScheme,
    ) -> Result<Option<PermitTerms>, SettleError> {
        permits::terms(&self.core, network, token, scheme).await
    }

    async fn verify_permit(&self, payment: &PermitPayment) -> Result<Validity, SettleError> {
        permits::verify(&self.core, payment).await
    }

    fn is_permit_signed_by_key(&self, payment: &PermitPayment) -> bool {
        permit2::signer(&payment.permit, payment.requirements.network()) == Some(payment.permit.permit.from)
    }

    /// Dropping the future does not stop the settlement.
    async fn settle_permit(
        &self,
        payment: &PermitPayment,
        charge: Amount,
        recorder: &TransactionRecorder,
    ) -> Settlement {
        if let Some(reason) = permits::misfit(&self.core, payment).or_else(|| payment.overcharged(charge)) {
            return Settlement::Refused(reason);
        }
        self.settle_order(Order::of_permit(payment, charge), recorder, self.core.policy.settled_within).await
    }
}

impl WalletSettler {
    async fn settle_order(&self, order: Order, recorder: &TransactionRecorder, within: Duration) -> Settlement {
        let Some((mut progress, flight)) = self.core.flights.enter(&order) else {
            return Settlement::Unknown(None);
        };
        if let Some(flight) = flight {
            tokio::spawn(settling::fly(Arc::clone(&self.core), order, flight, recorder.clone()));
        }
        let landed = timeout(within, flights::landed(&mut progress)).await;
        landed.unwrap_or_else(|_| flights::unknown(&progress))
    }
}
