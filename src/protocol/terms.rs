//! `Terms`: who is paid, how much, in which tokens, for which resource.

use std::{sync::Arc, time::Duration};

use super::{Address, Amount, Asset, Network, Transfer};

/// The terms that a payment is judged by.
///
/// ```
/// use std::time::Duration;
/// use tower_x402::protocol::{Address, Amount, Asset, Network, Terms};
/// let terms = Terms::new(
///     "demand-insights",
///     Network::BASE,
///     Address::new([0x5a; 20]),
///     [Asset::USDC_BASE, Asset::USDBC_BASE],
///     Amount::from_base_units(490_000),
///     Duration::from_secs(24 * 60 * 60),
/// );
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

impl Terms {
    /// Terms with every part named.
    #[must_use]
    pub fn new(
        resource: impl Into<Arc<str>>,
        network: Network,
        recipient: Address,
        assets: impl Into<Arc<[Asset]>>,
        amount: Amount,
        max_payment_age: Duration,
    ) -> Self {
        Self { resource: resource.into(), network, recipient, assets: assets.into(), amount, max_payment_age }
    }

    /// The seller's name for what is sold.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// The chain.
    #[must_use]
    pub const fn network(&self) -> Network {
        self.network
    }

    /// Who is paid.
    #[must_use]
    pub const fn recipient(&self) -> Address {
        self.recipient
    }

    /// The tokens that count.
    #[must_use]
    pub fn assets(&self) -> &[Asset] {
        &self.assets
    }

    /// The least that one transfer must carry, in base units.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        self.amount
    }

    /// How long ago, in chain time, a payment may have been mined.
    #[must_use]
    pub const fn max_payment_age(&self) -> Duration {
        self.max_payment_age
    }

    /// Whether this transfer, on its own, pays what these terms ask: chain, recipient, token and amount.
    /// Its age is judged by chain time, and so elsewhere.
    #[must_use]
    pub fn admit(&self, transfer: &Transfer) -> bool {
        transfer.network == self.network
            && transfer.recipient == self.recipient
            && transfer.amount >= self.amount
            && self.assets.iter().any(|asset| asset.contract() == transfer.token)
    }
}
