//! `MerchantInner`: what all routes of a merchant share.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    ledger::ErasedLedger,
    paywall::{
        error::HealthError,
        seller::{
            attempts::Attempts, catalog::Catalog, chain::SellingChain, mpp::Mpp, payment_identifier::PaymentIdentifier,
            quote_page::PageHook, unbound::UnboundPolicy,
        },
    },
    protocol::{Address, Asset, Network, SealingKeys},
};

/// The settings of a merchant, its backends, and its routes.
pub(crate) struct MerchantInner {
    /// In the order in which quotes name them; at least one.
    pub(crate) chains: Chains,
    /// The present one first, then former ones.
    pub(crate) recipients: Vec<Address>,
    pub(crate) realm: String,
    pub(crate) keys: SealingKeys,
    /// Whether transfers are also taken in the standard's header. Then verifiers read all chains.
    pub(crate) client_submitted: bool,
    /// Whether quotes also use version 1 of the standard.
    pub(crate) x402_v1: bool,
    /// The settings of MPP, if the merchant speaks it.
    pub(crate) mpp: Option<Mpp>,
    /// Whether it takes allowances that payers without gas sign along with a permit.
    pub(crate) gas_sponsoring: bool,
    /// Whether it reads the names that clients give their purchases.
    pub(crate) payment_identifier: Option<PaymentIdentifier>,
    pub(crate) public_url: Option<String>,
    pub(crate) ledger: Arc<dyn ErasedLedger>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) quote_ttl: Duration,
    pub(crate) quote_grace: Duration,
    pub(crate) max_payment_age: Duration,
    pub(crate) max_hold: Duration,
    pub(crate) lease: Duration,
    pub(crate) contact: Option<String>,
    pub(crate) unbound: UnboundPolicy,
    /// The page of its routes, unless a route has its own.
    pub(crate) page: Option<PageHook>,
    pub(crate) catalog: Catalog,
    pub(crate) attempts: Arc<Attempts>,
}

impl MerchantInner {
    /// Returns the network that the crate's own headers name.
    pub(crate) const fn first(&self) -> &Arc<SellingChain> {
        &self.chains.first
    }

    /// Returns the merchant's chain of this network; `None` if it does not sell there.
    pub(crate) fn on(&self, network: Network) -> Option<&Arc<SellingChain>> {
        self.chains.iter().find(|chain| chain.network == network)
    }

    /// Returns the same for a caller that may name a network which the merchant does not have.
    pub(crate) fn sold_on(&self, network: Network) -> Result<&SellingChain, HealthError> {
        self.on(network).map(|chain| &**chain).ok_or(HealthError::NotSoldOn { network })
    }

    /// Returns the decimals of prices, on every network.
    pub(crate) fn decimals(&self) -> u8 {
        self.first().assets.first().map_or(0, Asset::decimals)
    }

    pub(crate) fn symbol(&self) -> &str {
        self.first().assets.first().map_or("", Asset::symbol)
    }

    pub(crate) fn recipient(&self) -> Address {
        self.recipients.first().copied().unwrap_or(Address::ZERO)
    }

    /// Returns whether all ways to pay are known, on every network.
    pub(crate) fn knows_ways_to_pay(&self) -> bool {
        self.chains.iter().all(|chain| chain.knows_ways_to_pay())
    }

    /// Adds the network to an error of one network, if there are several.
    pub(crate) fn of_network(&self, network: Network, error: HealthError) -> HealthError {
        match self.chains.others.is_empty() {
            true => error,
            false => HealthError::Network { network, error: Box::new(error) },
        }
    }
}

/// The networks of a merchant; at least one.
pub(crate) struct Chains {
    first: Arc<SellingChain>,
    others: Vec<Arc<SellingChain>>,
}

impl Chains {
    pub(crate) fn new(first: SellingChain, others: impl IntoIterator<Item = SellingChain>) -> Self {
        Self { first: Arc::new(first), others: others.into_iter().map(Arc::new).collect() }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<SellingChain>> {
        std::iter::once(&self.first).chain(&self.others)
    }
}

/// Prints no keys and no backends, and so no secrets.
impl fmt::Debug for MerchantInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merchant")
            .field("networks", &self.chains.iter().map(|chain| chain.network).collect::<Vec<_>>())
            .field("recipients", &self.recipients)
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}
