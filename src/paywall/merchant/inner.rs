//! `MerchantInner`: what all routes of a merchant share.

use std::{fmt, sync::Arc, time::Duration};

use super::{catalog::Catalog, standard::Standard, start::Start};
use crate::{
    clock::Clock,
    ledger::ErasedLedger,
    paywall::{claimant::UnboundPolicy, error::HealthError, problem::Problem},
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
    pub(crate) verifier: Arc<dyn ErasedVerifier>,
    /// Whether the verifier does.
    pub(crate) reads_chain: bool,
    /// Where signed payments are taken.
    pub(crate) standard: Option<Standard>,
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
    pub(crate) start: Start,
    pub(crate) catalog: Catalog,
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

    /// Learns which tokens can be paid by authorization. A settler that is silent is asked again later: transfers are taken meanwhile.
    pub(crate) async fn learn_tokens(&self) -> Result<(), HealthError> {
        let Some(standard) = &self.standard else { return Ok(()) };
        match standard.learn().await {
            Err(error) if error.is_transient() => {
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
