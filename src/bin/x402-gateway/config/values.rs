//! The checked values of the configuration.

use std::{net::SocketAddr, time::Duration};

use http::Uri;
use tower_x402::protocol::{Address, Amount, Asset, Network, SealingKeys};

use super::super::{failure::Failure, keys, ledger::LedgerArg, routes::pattern::Pattern, secret::Secret};

/// The configuration.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) fixed: Fixed,
    pub(crate) shelf: Shelf,
}

/// Settings that stay the same while the program runs.
#[derive(Clone, Debug)]
pub(crate) struct Fixed {
    pub(crate) listen: SocketAddr,
    /// The address of `/readyz` and `/metrics`.
    pub(crate) status: Option<SocketAddr>,
    pub(crate) recipient: Address,
    pub(crate) former_recipients: Vec<Address>,
    /// The keys as lines, in the form of a key file.
    pub(crate) sealing_keys: Secret,
    pub(crate) ledger: LedgerArg,
    pub(crate) public_url: Option<String>,
    pub(crate) mpp: Option<String>,
    pub(crate) networks: Vec<NetworkConfig>,
    pub(crate) upstream: Uri,
    pub(crate) timeout: Duration,
}

/// A network on which the seller is paid.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NetworkConfig {
    pub(crate) network: Network,
    pub(crate) rpc: Vec<Secret>,
    pub(crate) settler: Option<SettlerConfig>,
    /// The key that signs claims of payment channels, if channels are accepted. All replicas need the same key.
    pub(crate) channel_key: Option<Secret>,
    /// Never empty.
    pub(crate) tokens: Vec<Asset>,
}

/// The settler of signed payments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SettlerConfig {
    /// A private key.
    Key(Secret),
    /// A URL.
    Facilitator(Secret),
}

/// What is sold and what is free: everything that a reload replaces.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    pub(crate) routes: Vec<RouteConfig>,
    pub(crate) default: Action,
    pub(crate) mcp: Option<McpConfig>,
}

/// The upstream's MCP endpoint.
#[derive(Clone, Debug)]
pub(crate) struct McpConfig {
    pub(crate) path: Pattern,
    /// Names and prices; a tool without a price is free.
    pub(crate) tools: Vec<(String, Option<Amount>)>,
    /// Whether unnamed tools are refused.
    pub(crate) deny_unlisted: bool,
}

/// One `[[route]]`.
#[derive(Clone, Debug)]
pub(crate) struct RouteConfig {
    pub(crate) pattern: Pattern,
    pub(crate) action: Action,
}

/// What to do with a request.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Free,
    Deny,
    Sell(Box<Offer>),
}

/// The price of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Fixed(Amount),
    /// The maximum; the upstream reports the actual charge.
    UpTo(Amount),
}

impl Cost {
    /// Returns the price, or the maximum.
    pub(crate) const fn most(self) -> Amount {
        match self {
            Self::Fixed(amount) | Self::UpTo(amount) => amount,
        }
    }

    pub(crate) const fn is_metered(self) -> bool {
        matches!(self, Self::UpTo(_))
    }
}

/// What a route sells.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// The name that quotes seal.
    pub(crate) resource: String,
    pub(crate) price: Cost,
    pub(crate) label: String,
    pub(crate) redeliver: Option<Duration>,
    pub(crate) page: bool,
}

impl Fixed {
    /// Parses the keys that seal quotes.
    ///
    /// # Errors
    /// Fails if they cannot be parsed, which the reader has checked already.
    pub(crate) fn keys(&self) -> Result<SealingKeys, Failure> {
        keys::lines(&self.sealing_keys).map_err(Failure::usage)
    }

    /// Returns the network that quotes name first.
    pub(crate) fn first(&self) -> &NetworkConfig {
        &self.networks[0]
    }

    /// Returns the names of the settings that differ.
    pub(crate) fn changed(&self, other: &Self) -> Vec<&'static str> {
        let same = [
            ("listen", self.listen == other.listen),
            ("status", self.status == other.status),
            ("recipient", self.recipient == other.recipient),
            ("former_recipients", self.former_recipients == other.former_recipients),
            ("sealing_key", self.sealing_keys == other.sealing_keys),
            ("ledger", self.ledger == other.ledger),
            ("public_url", self.public_url == other.public_url),
            ("mpp", self.mpp == other.mpp),
            ("[[network]]", self.networks == other.networks),
            ("[upstream]", (&self.upstream, self.timeout) == (&other.upstream, other.timeout)),
        ];
        same.into_iter().filter(|(_, same)| !same).map(|(name, _)| name).collect()
    }
}
