//! `SellingChain`: one network of a merchant, with everything that belongs to it alone.

use std::sync::Arc;

use crate::{
    paywall::{
        error::HealthError,
        seller::{channels::Channels, permits::Permits, standard::Standard, start::Start, upkeep::Upkeep, view::View},
    },
    protocol::{Address, Asset, Network},
    verify::ErasedVerifier,
};

/// One network on which a merchant sells.
pub(crate) struct SellingChain {
    pub(crate) network: Network,
    /// The tokens that a quote names.
    pub(crate) assets: Vec<Asset>,
    /// The same tokens, and former ones that still count.
    pub(crate) accepted: Arc<[Asset]>,
    pub(crate) view: View,
    /// Set if signed payments are taken.
    pub(crate) standard: Option<Standard>,
    /// Set if permits are taken. Then something reads the chain.
    pub(crate) permits: Option<Permits>,
    /// Set if there are channels. Then something reads the chain.
    pub(crate) channels: Option<Channels>,
    pub(crate) start: Arc<Start>,
    pub(crate) upkeep: Upkeep,
}

impl SellingChain {
    /// Returns the verifier that reads the chain; `None` where nothing does.
    pub(crate) const fn reader(&self) -> Option<&Arc<dyn ErasedVerifier>> {
        self.view.reader()
    }

    /// Returns whether anything can be paid by a signature.
    pub(crate) const fn takes_signatures(&self) -> bool {
        self.standard.is_some() || self.permits.is_some() || self.channels.is_some()
    }

    /// Returns whether payments in this token count.
    pub(crate) fn accepts(&self, token: Address) -> bool {
        self.accepted.iter().any(|asset| asset.contract() == token)
    }

    /// Returns whether all ways to pay are known. They are not while it is unproved that this is the right chain, or unknown which tokens
    /// can be paid by a signature.
    pub(crate) fn knows_ways_to_pay(&self) -> bool {
        self.start.is_done()
            && self.standard.as_ref().is_none_or(|standard| standard.tokens().is_some())
            && self.permits.as_ref().is_none_or(|permits| permits.tokens().is_some())
            && self.channels.as_ref().is_none_or(|channels| channels.tokens().is_some())
    }

    /// Learns which tokens can be paid by a signature. If a settler does not answer, it is asked again later; meanwhile transfers are
    /// taken, if something reads the chain.
    pub(crate) async fn learn_tokens(&self) -> Result<(), HealthError> {
        let learnt = match &self.standard {
            Some(standard) => standard.learn().await.map(drop),
            None => Ok(()),
        };
        let learnt = match (&self.permits, learnt) {
            (Some(permits), Ok(())) => permits.learn().await.map(drop),
            (_, learnt) => learnt,
        };
        let learnt = match (&self.channels, learnt) {
            (Some(channels), Ok(())) => channels.learn().await.map(drop),
            (_, learnt) => learnt,
        };
        match learnt {
            Err(error) if error.is_transient() && self.reader().is_some() => {
                tracing::warn!(%error, "signed payments cannot be taken yet; quotes do not ask for them");
                Ok(())
            }
            learnt => learnt,
        }
    }

    /// Ensures that this network has started, before anything is sold on it.
    pub(crate) async fn started(&self) -> Result<(), HealthError> {
        self.start.ensure().await
    }

    /// Ensures the same, and that signed payments can be settled.
    pub(crate) async fn ready_for(&self, standard: &Standard) -> Result<(), HealthError> {
        self.started().await?;
        standard.learn().await.map(drop)
    }

    /// Ensures the same for permits.
    pub(crate) async fn ready_for_permits(&self, permits: &Permits) -> Result<(), HealthError> {
        self.started().await?;
        permits.learn().await.map(drop)
    }

    /// Ensures the same for channels.
    pub(crate) async fn ready_for_channels(&self, channels: &Channels) -> Result<(), HealthError> {
        self.started().await?;
        channels.learn().await.map(drop)
    }

    /// Checks that sales can be made on this network right now, as far as its own backends tell.
    pub(crate) async fn health(&self) -> Result<(), HealthError> {
        self.started().await?;
        self.view.head().await?;
        if let Some(standard) = &self.standard {
            standard.learn().await?;
            standard.settler.health().await?;
        }
        if let Some(permits) = &self.permits {
            permits.learn().await?;
        }
        if let Some(channels) = &self.channels {
            channels.learn().await?;
        }
        Ok(())
    }
}
