//! `MerchantInner`: what all routes of a merchant share.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    ledger::ErasedLedger,
    paywall::{
        error::HealthError,
        seller::{
            catalog::Catalog, chain::Chain, quote_page::PageHook, standard::Standard, start::Start,
            unbound::UnboundPolicy, upkeep::Upkeep,
        },
    },
    protocol::{Address, Asset, Network, SealingKeys},
    verify::ErasedVerifier,
};

/// The settings of a merchant, its backends, and what it sells.
pub(crate) struct MerchantInner {
    pub(crate) network: Network,
    /// The present one first, then former ones.
    pub(crate) recipients: Vec<Address>,
    /// The tokens that a quote names.
    pub(crate) assets: Vec<Asset>,
    /// Those, and former ones that still count.
    pub(crate) accepted: Arc<[Asset]>,
    pub(crate) realm: String,
    pub(crate) keys: SealingKeys,
    pub(crate) chain: Chain,
    /// Where signed payments are taken.
    pub(crate) standard: Option<Standard>,
    /// Whether transfers are taken in the standard's header, too. Then the verifier reads the chain.
    pub(crate) client_submitted: bool,
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
    /// That of its routes, unless they have another.
    pub(crate) page: Option<PageHook>,
    pub(crate) start: Start,
    pub(crate) catalog: Catalog,
    pub(crate) upkeep: Upkeep,
}

impl MerchantInner {
    /// What reads the chain; `None` where nothing does.
    pub(crate) fn chain(&self) -> Option<&Arc<dyn ErasedVerifier>> {
        self.chain.reader()
    }

    pub(crate) fn decimals(&self) -> u8 {
        self.assets.first().map_or(0, Asset::decimals)
    }

    pub(crate) fn symbol(&self) -> &str {
        self.assets.first().map_or("", Asset::symbol)
    }

    pub(crate) fn recipient(&self) -> Address {
        self.recipients.first().copied().unwrap_or(Address::ZERO)
    }

    /// Whether all ways to pay are known: it may not be known yet which tokens can be paid by authorization.
    pub(crate) fn knows_ways_to_pay(&self) -> bool {
        self.standard.as_ref().is_none_or(|standard| standard.tokens().is_some())
    }

    /// Learns which tokens can be paid by authorization. A settler that is silent is asked again later: transfers are taken meanwhile.
    pub(crate) async fn learn_tokens(&self) -> Result<(), HealthError> {
        let Some(standard) = &self.standard else { return Ok(()) };
        match standard.learn().await {
            Err(error) if error.is_transient() && self.chain().is_some() => {
                tracing::warn!(%error, "signed payments cannot be taken yet; quotes ask for transfers alone");
                Ok(())
            }
            learnt => learnt.map(drop),
        }
    }

    /// Makes sure, before anything is quoted or sold, that the merchant has started.
    pub(crate) async fn started(&self) -> Result<(), HealthError> {
        self.start.ensure().await
    }
}

/// No keys, no backends: nothing in here prints a secret.
impl fmt::Debug for MerchantInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merchant")
            .field("network", &self.network)
            .field("recipients", &self.recipients)
            .field("assets", &self.assets)
            .field("realm", &self.realm)
            .finish_non_exhaustive()
    }
}
