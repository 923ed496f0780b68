//! The backends of a seller: chains, settlers and the ledger, connected once for everything that is sold.

use std::time::Duration;

use http::Uri;
use tower_x402::{
    Chain, Merchant, MerchantBuilder,
    ledger::{AnyLedger, MemoryLedger},
    protocol::{Asset, ChainTime, Network, SealingKeys, Terms, TxHash},
    settle::{FacilitatorSettler, WalletSettler},
    verify::{EvmVerifier, EvmVerifierBuilder, Finality, Verdict, Verifier, VerifyError},
};

use super::{
    config::{Fixed, NetworkConfig, SettlerConfig},
    failure::Failure,
    log::TARGET,
    proxy::Proxy,
};

/// The longest time that a payment is held for a handler, unless the upstream's time limit plus a minute is longer.
const HOLD: Duration = Duration::from_secs(10 * 60);

/// The backends of a seller.
#[derive(Clone, Debug)]
pub(crate) struct Backends {
    pub(crate) ledger: AnyLedger,
    pub(crate) chains: Vec<Backend>,
}

/// One network.
#[derive(Clone, Debug)]
pub(crate) struct Backend {
    pub(crate) network: Network,
    pub(crate) verifier: EvmVerifier,
    settler: Option<Settling>,
    channels: bool,
    tokens: Vec<Asset>,
}

#[derive(Clone, Debug)]
enum Settling {
    Wallet(WalletSettler),
    Facilitator(FacilitatorSettler),
}

impl Backends {
    /// Connects to all backends. A node that does not answer yet is no error: free routes are served, and sales begin
    /// once the node answers.
    ///
    /// # Errors
    /// Fails if the configuration is wrong or the ledger cannot be opened.
    pub(crate) async fn connect(fixed: &Fixed) -> Result<Self, Failure> {
        let ledger = fixed.ledger.open(false).await?;
        let mut chains = Vec::new();
        for network in &fixed.networks {
            chains.push(Backend::connect(network).await?);
        }
        Ok(Self { ledger, chains })
    }

    /// Returns a builder of a merchant with these backends.
    pub(crate) fn merchant(&self, fixed: &Fixed) -> Result<MerchantBuilder, Failure> {
        let mut builder = settings(fixed)?.ledger(self.ledger.clone());
        for (number, chain) in self.chains.iter().enumerate() {
            builder = match number {
                0 => chain.add_first(builder),
                _ => builder.chain(chain.further()),
            };
        }
        Ok(builder)
    }
}

/// Returns a builder of a merchant whose backends are never asked, to check the settings offline.
///
/// # Errors
/// Fails if the sealing keys cannot be parsed.
pub(crate) fn offline(fixed: &Fixed) -> Result<MerchantBuilder, Failure> {
    let mut builder = settings(fixed)?.ledger(MemoryLedger::new());
    for (number, network) in fixed.networks.iter().enumerate() {
        if number == 0 {
            builder = builder.network(network.network).verifier(OfflineVerifier);
            builder = network.tokens.iter().cloned().fold(builder, MerchantBuilder::asset);
        } else {
            let chain = Chain::new(network.network).verifier(OfflineVerifier);
            builder = builder.chain(network.tokens.iter().cloned().fold(chain, Chain::asset));
        }
    }
    Ok(builder)
}

fn settings(fixed: &Fixed) -> Result<MerchantBuilder, Failure> {
    let hold = HOLD.max(fixed.timeout.saturating_add(Duration::from_secs(60)));
    let mut builder = Merchant::builder(fixed.recipient).sealing_keys(fixed.keys()?).max_hold(hold).start_lazily();
    for former in &fixed.former_recipients {
        builder = builder.former_recipient(*former);
    }
    if let Some(url) = &fixed.public_url {
        builder = builder.public_url(url);
    }
    if let Some(realm) = &fixed.mpp {
        builder = builder.mpp(realm.clone());
    }
    Ok(builder)
}

impl Backend {
    async fn connect(config: &NetworkConfig) -> Result<Self, Failure> {
        let network = config.network;
        let endpoints = || config.rpc.iter().map(|url| url.to_string());
        let verifier = verifier(EvmVerifier::builder().endpoints(endpoints()), network).await?;
        let settler = match &config.settler {
            None => None,
            Some(SettlerConfig::Facilitator(url)) => {
                let facilitator = FacilitatorSettler::builder().url(&**url).build().map_err(|_| {
                    Failure::usage("network.facilitator is the https URL of a facilitator, or http on this machine")
                })?;
                Some(Settling::Facilitator(facilitator))
            }
            Some(SettlerConfig::Key(key)) => {
                let builder = WalletSettler::builder().key(key).endpoints(endpoints());
                let builder = match &config.channel_key {
                    Some(key) => builder.receiver_authorizer_key(key),
                    None => builder,
                };
                let wallet = builder.connect_lazily(network);
                Some(Settling::Wallet(
                    wallet.map_err(|error| Failure::usage(format!("network.settle_key_file: {error}")))?,
                ))
            }
        };
        Ok(Self { network, verifier, settler, channels: config.channel_key.is_some(), tokens: config.tokens.clone() })
    }

    fn add_first(&self, builder: MerchantBuilder) -> MerchantBuilder {
        let builder = builder.network(self.network).verifier(self.verifier.clone());
        let builder = self.tokens.iter().cloned().fold(builder, MerchantBuilder::asset);
        match &self.settler {
            Some(Settling::Wallet(wallet)) => {
                let builder = builder.settler(wallet.clone()).permit_settler(wallet.clone());
                if self.channels { builder.channel_settler(wallet.clone()) } else { builder }
            }
            Some(Settling::Facilitator(facilitator)) => {
                builder.settler(facilitator.clone()).permit_settler(facilitator.clone())
            }
            None => builder,
        }
    }

    fn further(&self) -> Chain {
        let chain = Chain::new(self.network).verifier(self.verifier.clone());
        let chain = self.tokens.iter().cloned().fold(chain, Chain::asset);
        match &self.settler {
            Some(Settling::Wallet(wallet)) => {
                let chain = chain.settler(wallet.clone()).permit_settler(wallet.clone());
                if self.channels { chain.channel_settler(wallet.clone()) } else { chain }
            }
            Some(Settling::Facilitator(facilitator)) => {
                chain.settler(facilitator.clone()).permit_settler(facilitator.clone())
            }
            None => chain,
        }
    }
}

/// Connects now, so that an endpoint of another chain is found at the start. If no endpoint answers, it connects
/// lazily.
async fn verifier(builder: EvmVerifierBuilder, network: Network) -> Result<EvmVerifier, Failure> {
    let builder = builder.finality(Finality::default());
    match builder.clone().connect().await {
        Ok(verifier) if verifier.network() == network => Ok(verifier),
        Ok(verifier) => {
            let found = verifier.network();
            Err(Failure::usage(format!(
                "network.rpc: the endpoint is on {found}, and the configuration says {network}"
            )))
        }
        Err(error) if error.is_transient() => {
            tracing::warn!(target: TARGET, %error, %network, "nothing can be sold on this network until an endpoint answers");
            builder.connect_lazily(network).map_err(Failure::usage)
        }
        Err(error) => Err(Failure::usage(format!("network.rpc: {error}"))),
    }
}

/// A verifier that contacts nothing and answers every question with "unavailable".
#[derive(Clone, Copy, Debug)]
struct OfflineVerifier;

impl OfflineVerifier {
    fn answer<T>() -> Result<T, VerifyError> {
        Err(VerifyError::unavailable())
    }
}

impl Verifier for OfflineVerifier {
    async fn check(&self, _: Network, _: &[Asset]) -> Result<(), VerifyError> {
        Self::answer()
    }

    async fn verify(&self, _: &Terms, _: TxHash) -> Result<Verdict, VerifyError> {
        Self::answer()
    }

    async fn head(&self) -> Result<ChainTime, VerifyError> {
        Self::answer()
    }

    async fn horizon(&self) -> Result<ChainTime, VerifyError> {
        Self::answer()
    }
}

/// Builds a merchant that sells nothing, to answer questions about past sales.
pub(crate) async fn asking(fixed: &Fixed, ledger: AnyLedger) -> Result<(Merchant, Vec<Backend>), Failure> {
    let mut chains = Vec::new();
    for network in &fixed.networks {
        chains.push(Backend::connect(network).await?);
    }
    let backends = Backends { ledger, chains };
    // This key seals no quotes.
    let keys = SealingKeys::random().map_err(Failure::environment)?;
    let merchant = backends.merchant(fixed)?.sealing_keys(keys).build().await.map_err(Failure::usage)?;
    Ok((merchant, backends.chains))
}

/// Builds the proxy to the configured upstream.
///
/// # Errors
/// Fails if the URL cannot be an upstream.
pub(crate) fn proxy(fixed: &Fixed) -> Result<Proxy, Failure> {
    let public = fixed.public_url.as_deref().and_then(|url| url.parse::<Uri>().ok());
    Proxy::new(fixed.upstream.clone(), public, fixed.timeout)
}
