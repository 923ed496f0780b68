//! `MerchantBuilder`: every setting, and what refuses those that would sell wrongly.

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::Duration,
};

use super::{
    merchant::Merchant,
    shared::Shared,
    start::{Start, may_pass},
};
use crate::{
    ConfigError,
    clock::{Clock, SystemClock},
    ledger::{ErasedLedger, Ledger},
    protocol::{Address, Asset, Network, SealingKeys},
    verify::{ErasedVerifier, Verifier},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
pub(super) const TEXT_MAX: usize = 100;

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
    lazily: bool,
}

impl MerchantBuilder {
    pub(super) fn new(recipient: Address) -> Self {
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
            lazily: false,
        }
    }

    /// What tells whether a payment was made. Required.
    pub fn verifier(mut self, verifier: impl Verifier) -> Self {
        self.verifier = Some(Arc::new(verifier));
        self
    }

    /// What remembers what was sold. Required. One recipient on one chain has one ledger, however many merchants
    /// and processes there are: share it, and give all who share it one [`max_payment_age`](Self::max_payment_age).
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

    /// Opens also while chain or ledger cannot be asked, so that what is free is served.
    ///
    /// [`build`](Self::build) then gives a merchant whose priced routes answer 503, `verification_unavailable` or
    /// `ledger_unavailable`, to everybody: until chain id and decimals are proved and the ledger has begun, nobody is asked
    /// to pay and nothing is sold. The next priced request, or [`Merchant::health`], makes up for it, at most once a
    /// second. An answer that contradicts the settings (another chain, other decimals) is an error of `build` all the same;
    /// one that comes later is told by `health`.
    ///
    /// The verifier must not need the chain either: see
    #[cfg_attr(feature = "evm", doc = "[`connect_lazily`](crate::verify::evm::EvmVerifierBuilder::connect_lazily).")]
    #[cfg_attr(not(feature = "evm"), doc = "`connect_lazily` of the `evm` feature.")]
    pub fn start_lazily(mut self) -> Self {
        self.lazily = true;
        self
    }

    /// Checks everything, asks the chain for its id and head and the tokens for their decimals, and starts the ledger's memory.
    ///
    /// A ledger that is new, or was emptied, begins in the present: what it may have sold before is not sold again. So that
    /// no payment for a quote of this merchant is refused with it, this waits for the chain to get there: a block or two,
    /// and half a minute at most.
    ///
    /// # Errors
    /// [`ConfigError`] names what would have sold wrongly, or [what cannot be reached](ConfigError::Verifier).
    pub async fn build(self) -> Result<Merchant, ConfigError> {
        let verifier = self.verifier.clone().ok_or(ConfigError::NoVerifier)?;
        let ledger = self.ledger.clone().ok_or(ConfigError::NoLedger)?;
        let keys = self.keys.clone().ok_or(ConfigError::NoSealingKeys)?;
        let lazily = self.lazily;
        let shared = self.check(verifier, ledger, keys)?;
        let started = match lazily {
            true => shared.start.ensure(&shared).await,
            false => shared.start.open(&shared).await,
        };
        match started {
            Err(error) if !(lazily && may_pass(&error)) => Err(error.into()),
            _ => Ok(Merchant { shared: Arc::new(shared) }),
        }
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
            start: Start::default(),
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

/// Refuses text that is empty, too long, or could break a header or a log line.
pub(crate) fn check_text(what: &'static str, text: &str) -> Result<(), ConfigError> {
    if text.is_empty() || text.chars().count() > TEXT_MAX || text.chars().any(char::is_control) {
        return Err(ConfigError::BadText { what, max: TEXT_MAX });
    }
    Ok(())
}
