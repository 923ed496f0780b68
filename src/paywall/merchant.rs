//! `Merchant`: who is paid, on which chain, in which tokens, and what remembers it.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use http::{StatusCode, request::Parts};

use super::{
    layer::X402Layer,
    pricing::{AsyncClosure, Price, PriceTag, Prices, Pricing},
};
use crate::{
    ConfigError,
    clock::{Clock, SystemClock},
    ledger::{ErasedLedger, Ledger},
    protocol::{Address, Amount, Asset, Network, SealingKeys},
    verify::{ErasedVerifier, Verifier},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const TEXT_MAX: usize = 100;

/// Who is paid, on which chain, in which tokens; what tells whether, and what remembers it. Makes the layers.
///
/// ```
/// # #[cfg(feature = "test-util")]
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use tower_x402::{Merchant, ledger::MemoryLedger, protocol::{ChainTime, SealingKeys}, testing::ScriptedVerifier};
///
/// let merchant = Merchant::builder("0x70997970C51812dc3A010C7d01b50e0d17dc79C8".parse()?)
///     // In production: `EvmVerifier::connect([url]).await?`.
///     .verifier(ScriptedVerifier::new(ChainTime::from_unix(1_795_280_000)))
///     .ledger(MemoryLedger::new())
///     .sealing_keys(SealingKeys::random()?)
///     .build()
///     .await?;
/// let layer = merchant.charge("demand-insights", "0.49 USDC")?.label("Demand insights")?;
/// # let _ = layer;
/// // One name, one price.
/// assert!(merchant.charge("demand-insights", "0.50 USDC").is_err());
/// # Ok::<(), tower_x402::ConfigError>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Merchant {
    pub(crate) shared: Arc<Shared>,
}

/// What every route of a merchant shares.
pub(crate) struct Shared {
    pub(crate) network: Network,
    /// The present one first, then former ones.
    pub(crate) recipients: Vec<Address>,
    /// The tokens that a quote names.
    pub(crate) assets: Vec<Asset>,
    /// Those, and former ones that still count.
    pub(crate) accepted: Arc<[Asset]>,
    pub(crate) realm: String,
    pub(crate) keys: SealingKeys,
    pub(crate) verifier: Arc<dyn ErasedVerifier>,
    pub(crate) ledger: Arc<dyn ErasedLedger>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) quote_ttl: Duration,
    pub(crate) quote_grace: Duration,
    pub(crate) max_payment_age: Duration,
    pub(crate) max_hold: Duration,
    pub(crate) lease: Duration,
    pub(crate) contact: Option<String>,
    resources: Mutex<HashMap<Arc<str>, Entry>>,
}

/// What one resource name stands for.
struct Entry {
    /// `None` where a closure decides, which equals no other.
    price: Option<Amount>,
    label: Option<Arc<str>>,
    layers: u32,
}

impl Shared {
    pub(crate) fn decimals(&self) -> u8 {
        self.assets.first().map_or(0, Asset::decimals)
    }

    pub(crate) fn symbol(&self) -> &str {
        self.assets.first().map_or("", Asset::symbol)
    }

    pub(crate) fn recipient(&self) -> Address {
        self.recipients.first().copied().unwrap_or(Address::ZERO)
    }

    /// Enters a name with its price; answers the label that it has already.
    fn register(&self, resource: &Arc<str>, price: Option<Amount>) -> Result<Option<Arc<str>>, ConfigError> {
        let mut resources = self.resources.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match resources.get_mut(resource) {
            Some(entry) if price.is_some() && entry.price == price => {
                entry.layers += 1;
                Ok(entry.label.clone())
            }
            Some(_) => Err(conflict(resource)),
            None => {
                resources.insert(Arc::clone(resource), Entry { price, label: None, layers: 1 });
                Ok(None)
            }
        }
    }

    /// Enters a name's label: one for all layers of that name.
    pub(crate) fn register_label(&self, resource: &Arc<str>, label: &Arc<str>) -> Result<(), ConfigError> {
        let mut resources = self.resources.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let entry = resources.get_mut(resource).ok_or_else(|| conflict(resource))?;
        match &entry.label {
            Some(known) if known == label => Ok(()),
            None if entry.layers == 1 => {
                entry.label = Some(Arc::clone(label));
                Ok(())
            }
            Some(_) | None => Err(conflict(resource)),
        }
    }
}

fn conflict(resource: &str) -> ConfigError {
    ConfigError::ConflictingResource { resource: resource.to_owned() }
}

/// No keys, no backends: nothing in here prints a secret.
impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merchant")
            .field("network", &self.network)
            .field("recipients", &self.recipients)
            .field("assets", &self.assets)
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}

impl Merchant {
    /// Begins a merchant who is paid at that address: on Base, in USDC, unless told otherwise.
    #[must_use]
    pub fn builder(recipient: Address) -> MerchantBuilder {
        MerchantBuilder::new(recipient)
    }

    /// A layer that charges a fixed price, such as `"0.49 USDC"`, for the resource of that name.
    ///
    /// The name is the seller's own, 1 to 100 characters, and never taken from a URL: routes that share one sell the same thing.
    ///
    /// # Errors
    /// [`ConfigError`] for a price or name that cannot be, and for a name that has another price already.
    pub fn charge(&self, resource: &str, price: impl Into<PriceTag>) -> Result<X402Layer, ConfigError> {
        let amount = price.into().amount(self.shared.decimals(), self.shared.symbol())?;
        self.layer(resource, Prices::Fixed(amount), Some(amount))
    }

    /// A layer whose price a closure tells from the request's head and body.
    ///
    /// It is asked when quoting and again when redeeming. An intent quoted at less than the price is now honoured
    /// only for the very request that was quoted.
    ///
    /// # Errors
    /// [`ConfigError`] for a name that cannot be, or that is taken: clone the layer to use it twice.
    pub fn price_with(
        &self,
        resource: &str,
        price: impl Fn(&Parts, &Bytes) -> Price + Send + Sync + 'static,
    ) -> Result<X402Layer, ConfigError> {
        self.layer(resource, Prices::Now(Arc::new(price)), None)
    }

    /// As [`price_with`](Self::price_with), with an async closure.
    ///
    /// # Errors
    /// As [`price_with`](Self::price_with).
    pub fn price_with_async<F, Fut>(&self, resource: &str, price: F) -> Result<X402Layer, ConfigError>
    where
        F: Fn(Parts, Bytes) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Price> + Send + 'static,
    {
        self.price_by(resource, AsyncClosure(price))
    }

    /// As [`price_with`](Self::price_with), with a [`Pricing`] of one's own.
    ///
    /// # Errors
    /// As [`price_with`](Self::price_with).
    pub fn price_by(&self, resource: &str, pricing: impl Pricing) -> Result<X402Layer, ConfigError> {
        self.layer(resource, Prices::Later(Arc::new(pricing)), None)
    }

    fn layer(&self, resource: &str, prices: Prices, price: Option<Amount>) -> Result<X402Layer, ConfigError> {
        check_text("a resource", resource)?;
        let resource = Arc::from(resource);
        let label = self.shared.register(&resource, price)?;
        Ok(X402Layer::new(Arc::clone(&self.shared), resource, label, prices))
    }

    /// Who is paid.
    #[must_use]
    pub fn recipient(&self) -> Address {
        self.shared.recipient()
    }

    /// On which chain.
    #[must_use]
    pub fn network(&self) -> Network {
        self.shared.network
    }

    /// The tokens that quotes name, the first of which gives prices their currency.
    #[must_use]
    pub fn assets(&self) -> &[Asset] {
        &self.shared.assets
    }

    /// Whether sales can be made right now: the chain can be asked and the ledger written to.
    ///
    /// # Errors
    /// [`ConfigError::Verifier`], [`ConfigError::Ledger`].
    pub async fn health(&self) -> Result<(), ConfigError> {
        self.shared.verifier.head().await?;
        self.shared.ledger.health().await?;
        Ok(())
    }
}

/// Refuses text that is empty, too long, or could break a header or a log line.
pub(crate) fn check_text(what: &'static str, text: &str) -> Result<(), ConfigError> {
    if text.is_empty() || text.chars().count() > TEXT_MAX || text.chars().any(char::is_control) {
        return Err(ConfigError::BadText { what, max: TEXT_MAX });
    }
    Ok(())
}

/// Collects what a [`Merchant`] needs. Whatever would sell wrongly is refused by [`build`](Self::build).
#[must_use]
pub struct MerchantBuilder {
    network: Network,
    recipients: Vec<Address>,
    assets: Vec<Asset>,
    former_assets: Vec<Asset>,
    realm: String,
    keys: Option<SealingKeys>,
    verifier: Option<Arc<dyn ErasedVerifier>>,
    ledger: Option<Arc<dyn ErasedLedger>>,
    clock: Arc<dyn Clock>,
    quote_ttl: Duration,
    quote_grace: Duration,
    max_payment_age: Duration,
    max_hold: Duration,
    lease: Duration,
    contact: Option<String>,
}

impl MerchantBuilder {
    fn new(recipient: Address) -> Self {
        Self {
            network: Network::BASE,
            recipients: vec![recipient],
            assets: Vec::new(),
            former_assets: Vec::new(),
            realm: String::new(),
            keys: None,
            verifier: None,
            ledger: None,
            clock: Arc::new(SystemClock),
            quote_ttl: Duration::from_secs(15 * 60),
            quote_grace: Duration::from_secs(60),
            max_payment_age: DAY,
            max_hold: Duration::from_secs(10 * 60),
            lease: Duration::from_secs(60),
            contact: None,
        }
    }

    /// What tells whether a payment was made. Required.
    pub fn verifier(mut self, verifier: impl Verifier) -> Self {
        self.verifier = Some(Arc::new(verifier));
        self
    }

    /// What remembers what was sold. Required. One recipient on one chain has one ledger, however many merchants
    /// and processes there are: share it.
    pub fn ledger(mut self, ledger: impl Ledger) -> Self {
        self.ledger = Some(Arc::new(ledger));
        self
    }

    /// What quotes are sealed with. Required; the same for all replicas.
    pub fn sealing_keys(mut self, keys: SealingKeys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// The chain; [`Network::BASE`] unless set.
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// A token that is accepted; the chain's USDC unless one is named. The first one gives prices their currency.
    pub fn asset(mut self, asset: Asset) -> Self {
        self.assets.push(asset);
        self
    }

    /// A token that quotes name no more, but that still counts in payments.
    pub fn former_asset(mut self, asset: Asset) -> Self {
        self.former_assets.push(asset);
        self
    }

    /// A recipient of before, whose open quotes are still honoured: payments to it count for them.
    pub fn former_recipient(mut self, recipient: Address) -> Self {
        self.recipients.push(recipient);
        self
    }

    /// Sets this merchant apart from others that share its sealing keys: none honours the other's quotes.
    pub fn realm(mut self, realm: impl Into<String>) -> Self {
        self.realm = realm.into();
        self
    }

    /// How long one may pay for a quote; 15 minutes unless set, 1 second to 30 days.
    pub fn quote_ttl(mut self, ttl: Duration) -> Self {
        self.quote_ttl = ttl;
        self
    }

    /// How much later than its expiry a quote's payment may be mined; 1 minute unless set, at most a day.
    pub fn quote_grace(mut self, grace: Duration) -> Self {
        self.quote_grace = grace;
        self
    }

    /// How old a payment may be, in chain time, when it is redeemed; 24 hours unless set, 1 second to a year.
    ///
    /// It bounds what a ledger must remember.
    pub fn max_payment_age(mut self, age: Duration) -> Self {
        self.max_payment_age = age;
        self
    }

    /// How long a handler may take for a paid answer; 10 minutes unless set, 1 second to a day.
    pub fn max_hold(mut self, hold: Duration) -> Self {
        self.max_hold = hold;
        self
    }

    /// How long a reservation outlives its holder's crash; 60 seconds unless set, 1 second to an hour. Renewed at a third of that.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How to reach the seller, told to payers whose payment is too old.
    pub fn contact(mut self, contact: impl Into<String>) -> Self {
        self.contact = Some(contact.into());
        self
    }

    /// The clock that quotes are dated by; for tests.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Checks everything, asks the chain for its id and head and the tokens for their decimals, and starts the ledger's memory.
    ///
    /// # Errors
    /// [`ConfigError`] names what would have sold wrongly.
    pub async fn build(self) -> Result<Merchant, ConfigError> {
        let verifier = self.verifier.clone().ok_or(ConfigError::NoVerifier)?;
        let ledger = self.ledger.clone().ok_or(ConfigError::NoLedger)?;
        let keys = self.keys.clone().ok_or(ConfigError::NoSealingKeys)?;
        let shared = self.check(Arc::clone(&verifier), Arc::clone(&ledger), keys)?;
        verifier.check(shared.network, &shared.accepted).await?;
        ledger.begin(verifier.head().await?).await?;
        Ok(Merchant { shared: Arc::new(shared) })
    }

    fn check(
        self,
        verifier: Arc<dyn ErasedVerifier>,
        ledger: Arc<dyn ErasedLedger>,
        keys: SealingKeys,
    ) -> Result<Shared, ConfigError> {
        let mut assets = self.assets;
        if assets.is_empty() {
            assets.push(Asset::usdc_of(self.network).ok_or(ConfigError::NoAsset { network: self.network })?);
        }
        let accepted: Arc<[Asset]> = assets.iter().chain(&self.former_assets).cloned().collect();
        check_assets(self.network, &accepted)?;
        check_recipients(&self.recipients, &accepted)?;
        for (what, text) in [("a realm", Some(&self.realm)), ("a contact", self.contact.as_ref())] {
            if let Some(text) = text.filter(|text| what != "a realm" || !text.is_empty()) {
                check_text(what, text)?;
            }
        }
        let second = Duration::from_secs(1);
        check_duration("quote_ttl", self.quote_ttl, second, 30 * DAY)?;
        check_duration("quote_grace", self.quote_grace, Duration::ZERO, DAY)?;
        check_duration("max_payment_age", self.max_payment_age, second, 365 * DAY)?;
        check_duration("max_hold", self.max_hold, second, DAY)?;
        check_duration("lease", self.lease, second, Duration::from_secs(60 * 60))?;
        Ok(Shared {
            network: self.network,
            recipients: self.recipients,
            assets,
            accepted,
            realm: self.realm,
            keys,
            verifier,
            ledger,
            clock: self.clock,
            quote_ttl: self.quote_ttl,
            quote_grace: self.quote_grace,
            max_payment_age: self.max_payment_age,
            max_hold: self.max_hold,
            lease: self.lease,
            contact: self.contact,
            resources: Mutex::default(),
        })
    }
}

/// No keys, no backends: nothing in here prints a secret.
impl fmt::Debug for MerchantBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MerchantBuilder")
            .field("network", &self.network)
            .field("recipients", &self.recipients)
            .field("assets", &self.assets)
            .finish_non_exhaustive()
    }
}

fn check_assets(network: Network, assets: &[Asset]) -> Result<(), ConfigError> {
    let expected = assets.first().map_or(0, Asset::decimals);
    for asset in assets {
        let contract = asset.contract();
        if asset.network() != network {
            return Err(ConfigError::WrongNetwork { contract, asset: asset.network(), merchant: network });
        }
        if asset.decimals() != expected {
            return Err(ConfigError::MixedDecimals { contract, expected, found: asset.decimals() });
        }
        if asset.decimals() > 77 {
            return Err(ConfigError::OutOfRange { what: "decimals" });
        }
        check_text("a symbol", asset.symbol())?;
    }
    Ok(())
}

fn check_recipients(recipients: &[Address], assets: &[Asset]) -> Result<(), ConfigError> {
    match recipients.iter().find(|&&r| r == Address::ZERO || assets.iter().any(|asset| asset.contract() == r)) {
        Some(&recipient) => Err(ConfigError::BadRecipient { recipient }),
        None => Ok(()),
    }
}

fn check_duration(what: &'static str, span: Duration, min: Duration, max: Duration) -> Result<(), ConfigError> {
    if (min..=max).contains(&span) { Ok(()) } else { Err(ConfigError::BadDuration { what, min, max }) }
}

/// Whether an answer is sold; what the layer asks of its rule.
pub(crate) fn delivers(status: StatusCode) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS
        || status.is_success()
        || status.is_redirection() && status != StatusCode::NOT_MODIFIED
}
