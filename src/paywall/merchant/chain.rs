//! `Chain`: the settings of one network, and their checks.

use std::{fmt, sync::Arc, time::Duration};

use crate::{
    clock::Clock,
    ledger::ErasedLedger,
    paywall::{
        error::BuildError,
        seller::{
            chain::SellingChain,
            channels::{Channels, policy::ChannelPolicy},
            permits::Permits,
            standard::{Rest, Standard},
            start::Start,
            text,
            upkeep::Upkeep,
            view::View,
        },
    },
    protocol::{Address, Asset, Network},
    settle::{ChannelSettler, ErasedChannelSettler, ErasedPermitSettler, ErasedSettler, PermitSettler, Settler},
    verify::{ErasedVerifier, Verifier},
};

/// One network on which a merchant sells, for [`MerchantBuilder::chain`](crate::MerchantBuilder::chain).
///
/// [`verifier`](Self::verifier), [`settler`](Self::settler) or both are required. Its tokens must have the same decimals as those of the
/// merchant's first network.
#[must_use]
pub struct Chain {
    pub(super) network: Network,
    assets: Vec<Asset>,
    former_assets: Vec<Asset>,
    verifier: Option<Arc<dyn ErasedVerifier>>,
    settler: Option<Arc<dyn ErasedSettler>>,
    permit_settler: Option<Arc<dyn ErasedPermitSettler>>,
    channel_settler: Option<Arc<dyn ErasedChannelSettler>>,
    channel_policy: ChannelPolicy,
}

impl Chain {
    /// Returns the settings of a network: its USDC is accepted, unless set otherwise.
    pub const fn new(network: Network) -> Self {
        Self {
            network,
            assets: Vec::new(),
            former_assets: Vec::new(),
            verifier: None,
            settler: None,
            permit_settler: None,
            channel_settler: None,
            channel_policy: ChannelPolicy::new(),
        }
    }

    /// Sets the verifier of payments on this network; see [`MerchantBuilder::verifier`](crate::MerchantBuilder::verifier).
    pub fn verifier(mut self, verifier: impl Verifier) -> Self {
        self.verifier = Some(Arc::new(verifier));
        self
    }

    /// Sets the settler of signed payments on this network; see [`MerchantBuilder::settler`](crate::MerchantBuilder::settler).
    pub fn settler(mut self, settler: impl Settler) -> Self {
        self.settler = Some(Arc::new(settler));
        self
    }

    /// Sets the settler of permits on this network; see [`MerchantBuilder::permit_settler`](crate::MerchantBuilder::permit_settler).
    pub fn permit_settler(mut self, settler: impl PermitSettler) -> Self {
        self.permit_settler = Some(Arc::new(settler));
        self
    }

    /// Sets the settler of payment channels on this network; see
    /// [`MerchantBuilder::channel_settler`](crate::MerchantBuilder::channel_settler).
    pub fn channel_settler(mut self, settler: impl ChannelSettler) -> Self {
        self.channel_settler = Some(Arc::new(settler));
        self
    }

    /// Sets the terms for channels on this network, and when they are claimed.
    pub fn channel_policy(mut self, policy: ChannelPolicy) -> Self {
        self.channel_policy = policy;
        self
    }

    /// Adds an accepted token. If none is added, the network's USDC is accepted.
    pub fn asset(mut self, asset: Asset) -> Self {
        self.assets.push(asset);
        self
    }

    /// Adds a token that quotes no longer name, but in which payments still count.
    pub fn former_asset(mut self, asset: Asset) -> Self {
        self.former_assets.push(asset);
        self
    }

    /// Checks the settings. `client_submitted` tells whether the merchant must be able to see transfers.
    pub(super) fn check(
        self,
        recipients: &[Address],
        client_submitted: bool,
        (ledger, clock, lease): (&Arc<dyn ErasedLedger>, &Arc<dyn Clock>, Duration),
    ) -> Result<SellingChain, BuildError> {
        let Self {
            network,
            mut assets,
            former_assets,
            verifier,
            settler,
            permit_settler,
            channel_settler,
            channel_policy,
        } = self;
        if client_submitted && verifier.is_none() {
            return Err(BuildError::NoVerifierForTransfers);
        }
        if settler.is_some() && verifier.as_ref().is_some_and(|verifier| verifier.signatures().is_none()) {
            return Err(BuildError::NoSignatures);
        }
        let permit_settler = match (permit_settler, &verifier) {
            (None, _) => None,
            (Some(settler), Some(verifier)) if verifier.signatures().is_some() => Some((settler, Arc::clone(verifier))),
            (Some(_), _) => return Err(BuildError::NoVerifierForPermits),
        };
        channel_policy.check()?;
        let channels = match (channel_settler, &verifier) {
            (None, _) => None,
            (Some(_), _) if ledger.accounts().is_none() => return Err(BuildError::NoAccounts),
            (Some(settler), Some(verifier)) if verifier.signatures().is_some() => Some((settler, Arc::clone(verifier))),
            (Some(_), _) => return Err(BuildError::NoVerifierForChannels),
        };
        let view = match (&verifier, &settler) {
            (Some(verifier), _) => View::Read(Arc::clone(verifier)),
            (None, Some(_)) => View::Unread(Arc::clone(clock)),
            (None, None) => return Err(BuildError::NoVerifier),
        };
        if assets.is_empty() {
            assets.push(Asset::usdc_of(network).ok_or(BuildError::NoAsset { network })?);
        }
        let accepted: Arc<[Asset]> = assets.iter().chain(&former_assets).cloned().collect();
        check_assets(network, &accepted)?;
        check_recipients(recipients, &accepted)?;
        let start = Start::new(network, Arc::clone(&accepted), view.clone(), Arc::clone(ledger), Arc::clone(clock));
        let standard =
            settler.map(|settler| Standard::new(settler, network, assets.clone(), verifier, Arc::clone(clock)));
        let promises = standard.as_ref().map(|standard| standard.promises.clone()).unwrap_or_default();
        let permits = permit_settler.map(|(settler, verifier)| {
            Permits::new(settler, network, assets.clone(), verifier, promises, Rest::new(clock))
        });
        let channels = channels.map(|(settler, verifier)| {
            Channels::new(settler, (channel_policy, lease), (network, assets.clone()), verifier, clock)
        });
        Ok(SellingChain {
            network,
            assets,
            accepted,
            view,
            standard,
            permits,
            channels,
            start: Arc::new(start),
            upkeep: Upkeep::default(),
        })
    }
}

/// Prints no backends, and so no secrets.
impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chain").field("network", &self.network).field("assets", &self.assets).finish_non_exhaustive()
    }
}

fn check_assets(network: Network, assets: &[Asset]) -> Result<(), BuildError> {
    let expected = assets.first().map_or(0, Asset::decimals);
    for asset in assets {
        let contract = asset.contract();
        if asset.network() != network {
            return Err(BuildError::WrongNetwork { contract, asset: asset.network(), merchant: network });
        }
        if asset.decimals() != expected {
            return Err(BuildError::MixedDecimals { contract, expected, found: asset.decimals() });
        }
        if asset.decimals() > 77 {
            return Err(BuildError::OutOfRange { what: "decimals" });
        }
        text::check("a symbol", asset.symbol())?;
    }
    Ok(())
}

fn check_recipients(recipients: &[Address], assets: &[Asset]) -> Result<(), BuildError> {
    match recipients.iter().find(|&&r| r == Address::ZERO || assets.iter().any(|asset| asset.contract() == r)) {
        Some(&recipient) => Err(BuildError::InvalidRecipient { recipient }),
        None => Ok(()),
    }
}
