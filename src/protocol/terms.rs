//! `Terms`: recipient, amount, tokens and resource.

use std::{sync::Arc, time::Duration};

use super::{Address, Amount, Asset, Network, Transfer};

/// The terms that a payment must meet.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::protocol::{Address, Amount, Asset, Network, Terms};
/// let terms = Terms::builder(Network::BASE, Address::new([0x5a; 20]), Amount::from_base_units(490_000))
///     .resource("demand-insights")
///     .assets([Asset::USDC_BASE, Asset::USDBC_BASE])
///     .max_payment_age(Duration::from_secs(24 * 60 * 60))
///     .build();
/// assert_eq!(terms.assets()[0].symbol(), "USDC");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    resource: Arc<str>,
    network: Network,
    recipient: Address,
    assets: Arc<[Asset]>,
    amount: Amount,
    max_payment_age: Duration,
}

/// Builds [`Terms`]. Defaults: no resource name, no token, and a payment age of a day.
#[derive(Clone, Debug)]
#[must_use]
pub struct TermsBuilder {
    resource: Option<Arc<str>>,
    network: Network,
    recipient: Address,
    assets: Option<Arc<[Asset]>>,
    amount: Amount,
    max_payment_age: Duration,
}

impl TermsBuilder {
    /// Sets the seller's name of the resource.
    pub fn resource(mut self, resource: impl Into<Arc<str>>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Sets the accepted tokens.
    pub fn assets(mut self, assets: impl Into<Arc<[Asset]>>) -> Self {
        self.assets = Some(assets.into());
        self
    }

    /// Sets how long ago, in chain time, a payment may have been mined.
    pub const fn max_payment_age(mut self, age: Duration) -> Self {
        self.max_payment_age = age;
        self
    }

    /// Returns the terms.
    #[must_use]
    pub fn build(self) -> Terms {
        let Self { resource, network, recipient, assets, amount, max_payment_age } = self;
        let (resource, assets) = (resource.unwrap_or_default(), assets.unwrap_or_default());
        Terms { resource, network, recipient, assets, amount, max_payment_age }
    }
}

impl Terms {
    /// Returns a builder of terms: at least `amount`, in base units, to `recipient`, in one transfer.
    pub fn builder(network: Network, recipient: Address, amount: Amount) -> TermsBuilder {
        let max_payment_age = Duration::from_secs(24 * 60 * 60);
        TermsBuilder { resource: None, network, recipient, assets: None, amount, max_payment_age }
    }

    /// Returns the seller's name of the resource.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the chain.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// Returns the account that is paid.
    #[must_use]
    pub const fn recipient(&self) -> Address {
        self.recipient
    }

    /// Returns the accepted tokens.
    #[must_use]
    pub fn assets(&self) -> &[Asset] {
        &self.assets
    }

    /// Returns the minimum that one transfer must carry, in base units.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        self.amount
    }

    /// Returns how long ago, in chain time, a payment may have been mined.
    #[must_use]
    pub const fn max_payment_age(&self) -> Duration {
        self.max_payment_age
    }

    /// Returns whether this transfer alone meets the terms on chain, recipient, token and amount. Its age is judged
    /// elsewhere, by chain time.
    #[must_use]
    pub fn are_met_by(&self, transfer: &Transfer) -> bool {
        transfer.network == self.network
            && transfer.recipient == self.recipient
            && transfer.amount >= self.amount
            && self.assets.iter().any(|asset| asset.contract() == transfer.token)
    }
}
