//! `Channels`: a network's settler of channels, the tokens that have channels, and what the chain says about each channel.

mod again;
pub(crate) mod due;
mod gas;
mod mirror;
pub(crate) mod policy;
mod reading;
mod readings;
pub(crate) mod record;
mod tried;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use again::Again;
use mirror::Mirror;
pub(crate) use mirror::{Channel, Mirrored, Unread};
use policy::ChannelPolicy;
use readings::Readings;
use tried::Tried;

use crate::{
    clock::Clock,
    paywall::{
        error::HealthError,
        seller::{
            standard::Rest,
            time_limits::{settler_in_time, verifier_in_time},
        },
    },
    protocol::{
        Address, Asset, Network, TokenDomain,
        channel::{ChannelDeposit, ChannelTerms, DepositAuthorization},
    },
    settle::ErasedChannelSettler,
    verify::ErasedVerifier,
};

/// Sells by channels. Clones share their state.
#[derive(Clone)]
pub(crate) struct Channels {
    pub(crate) settler: Arc<dyn ErasedChannelSettler>,
    pub(crate) policy: ChannelPolicy,
    /// How long a reservation lasts.
    pub(crate) lease: Duration,
    inner: Arc<Inner>,
}

struct Inner {
    network: Network,
    assets: Vec<Asset>,
    verifier: Arc<dyn ErasedVerifier>,
    tokens: OnceLock<Vec<ChannelToken>>,
    mirror: Mirror,
    readings: Readings,
    again: Again,
    rest: Rest,
    tried: Tried,
}

/// A token that has channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelToken {
    pub(crate) asset: Asset,
    /// The domain under which deposits by EIP-3009 are signed; `None` if the token has no EIP-3009.
    pub(crate) domain: Option<TokenDomain>,
    /// Whether quotes ask for deposits by Permit2.
    pub(crate) by_permit2: bool,
    pub(crate) terms: ChannelTerms,
}

impl ChannelToken {
    /// Returns whether a deposit of this kind can be made in this token at all.
    pub(crate) const fn takes(&self, deposit: &ChannelDeposit) -> bool {
        match deposit.authorization {
            DepositAuthorization::Erc3009(_) => self.domain.is_some(),
            DepositAuthorization::Permit2(_) => true,
        }
    }
}

impl Channels {
    pub(crate) fn new(
        settler: Arc<dyn ErasedChannelSettler>,
        (policy, lease): (ChannelPolicy, Duration),
        (network, assets): (Network, Vec<Asset>),
        verifier: Arc<dyn ErasedVerifier>,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let (tokens, mirror, rest) = (OnceLock::new(), Mirror::new(clock, &policy), Rest::new(clock));
        let (readings, again, tried) = Default::default();
        let inner = Inner { network, assets, verifier, tokens, mirror, readings, again, rest, tried };
        Self { settler, policy, lease, inner: Arc::new(inner) }
    }

    pub(crate) fn network(&self) -> Network {
        self.inner.network
    }

    /// Returns the outcomes of the claims that this process tried.
    pub(crate) fn tried(&self) -> &Tried {
        &self.inner.tried
    }

    /// Returns whether the noted refund of a channel may be sent again now, and if so, notes that it is.
    pub(crate) fn begins_again(&self, channel: &Channel) -> bool {
        self.inner.again.begins(channel.account, self.inner.mirror.clock.monotonic())
    }

    /// Returns the tokens that have channels; `None` while that is not known.
    pub(crate) fn tokens(&self) -> Option<&[ChannelToken]> {
        self.inner.tokens.get().map(Vec::as_slice)
    }

    /// Returns the token of this contract, if it is one of them.
    pub(crate) fn token(&self, contract: Address) -> Option<&ChannelToken> {
        self.tokens()?.iter().find(|token| token.asset.contract() == contract)
    }

    /// Learns the tokens, unless they are known.
    pub(crate) async fn learn(&self) -> Result<&[ChannelToken], HealthError> {
        if let Some(known) = self.tokens() {
            return Ok(known);
        }
        let mut tokens = Vec::new();
        for asset in &self.inner.assets {
            match self.offered(asset).await? {
                Some(token) => tokens.push(token),
                None => tracing::warn!(
                    token = %asset.contract(),
                    "there are no channels in this token: the settler keeps none, or the token has no EIP-3009 and the settler makes no deposits by Permit2"
                ),
            }
        }
        Ok(self.inner.tokens.get_or_init(|| tokens))
    }

    /// Returns how channels are offered in this token; `None` if there are none.
    async fn offered(&self, asset: &Asset) -> Result<Option<ChannelToken>, HealthError> {
        let (network, contract) = (self.inner.network, asset.contract());
        let authorizer = settler_in_time(self.settler.receiver_authorizer(network, contract)).await?;
        let Some(receiver_authorizer) = authorizer else { return Ok(None) };
        let domain = self.domain(contract).await?;
        let is_wanted = domain.is_none() || self.policy.deposits_by_permit2;
        let by_permit2 = is_wanted && settler_in_time(self.settler.deposits_by_permit2(network, contract)).await?;
        if domain.is_none() && !by_permit2 {
            return Ok(None);
        }
        let terms = self.policy.terms(receiver_authorizer);
        Ok(Some(ChannelToken { asset: asset.clone(), domain, by_permit2, terms }))
    }

    /// Returns the domain that the token states.
    async fn domain(&self, token: Address) -> Result<Option<TokenDomain>, HealthError> {
        let Some(signatures) = self.inner.verifier.signatures() else { return Ok(None) };
        Ok(verifier_in_time(signatures.domain(token)).await?)
    }

    /// Learns the tokens in the background, at intervals, if that failed at the start: quotes do not wait for it.
    pub(crate) fn learn_later(&self) {
        let channels = self.clone();
        self.inner.rest.spawn(async move {
            if let Err(error) = channels.learn().await {
                tracing::warn!(%error, "channels cannot be used yet; quotes do not offer them");
            }
        });
    }
}
