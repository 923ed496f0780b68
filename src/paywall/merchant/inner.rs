//! `MerchantInner`: what all routes of a merchant share.

use std::{fmt, sync::Arc, time::Duration};

use super::{catalog::Catalog, standard::Standard, start::Start, upkeep::Upkeep};
use crate::{
    clock::Clock,
    ledger::ErasedLedger,
    paywall::{claimant::UnboundPolicy, error::HealthError, problem::Problem, quote_page::PageHook},
    protocol::{Address, Asset, Network, SealingKeys, Way},
    verify::ErasedVerifier,
};

/// How long an authorization has to be valid beyond the longest hold, so that it can be settled.
const SETTLING_TIME: Duration = Duration::from_secs(120);

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
    pub(crate) verifier: Arc<dyn ErasedVerifier>,
    /// Whether the verifier does.
    pub(crate) reads_chain: bool,
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
        self.reads_chain.then_some(&self.verifier)
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

    /// The ways to pay that the standard's quotes name: those that official clients know first.
    pub(crate) fn ways_to_pay(&self) -> Vec<Way> {
        if let Some(standard) = &self.standard
            && standard.tokens().is_none()
        {
            standard.learn_later();
        }
        let life = self.quote_ttl.as_secs();
        let signed = self.standard.as_ref().and_then(Standard::tokens).unwrap_or_default();
        // It is settled when the handler is done, and must be valid still.
        let timeout = self.max_hold.saturating_add(SETTLING_TIME).as_secs().min(life);
        let mut ways: Vec<Way> = signed.iter().map(|token| Way::authorization(token, timeout)).collect();
        if self.client_submitted {
            let max_age = self.max_payment_age.as_secs();
            ways.extend(self.assets.iter().map(|asset| Way::submitted_transfer(asset.contract(), life, max_age)));
        }
        ways
    }

    /// Whether those are all, and stay so: it may not be known yet which tokens can be paid by authorization.
    pub(crate) fn knows_ways_to_pay(&self) -> bool {
        self.standard.as_ref().is_none_or(|standard| standard.tokens().is_some())
    }

    /// Learns which tokens can be paid by authorization. A settler that is silent is asked again later: transfers are taken meanwhile.
    pub(crate) async fn learn_tokens(&self) -> Result<(), HealthError> {
        let Some(standard) = &self.standard else { return Ok(()) };
        match standard.learn().await {
            Err(error) if error.is_transient() && self.reads_chain => {
                tracing::warn!(%error, "signed payments cannot be taken yet; quotes ask for transfers alone");
                Ok(())
            }
            learnt => learnt.map(drop),
        }
    }

    /// Makes sure, before anything is quoted or sold, that the merchant has started.
    pub(crate) async fn started(&self) -> Result<(), Problem> {
        self.start.ensure().await.map_err(Problem::from)
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
