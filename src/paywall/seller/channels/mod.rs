//! `Channels`: the settler of channels of a network, which of its tokens they are in, and what the chain says of each.

pub(crate) mod due;
mod mirror;
pub(crate) mod policy;
mod reading;
pub(crate) mod record;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use mirror::Mirror;
pub(crate) use mirror::{Channel, Mirrored, Unread};
use policy::ChannelPolicy;

use crate::{
    clock::Clock,
    paywall::{
        error::HealthError,
        seller::{
            standard::Rest,
            time_limits::{settler_in_time, verifier_in_time},
        },
    },
    protocol::{Address, Asset, Network, TokenDomain, channel::ChannelTerms},
    settle::ErasedChannelSettler,
    verify::ErasedVerifier,
};

/// Sells by channels. Clones are the same.
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
    rest: Rest,
}

/// A token in which there are channels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChannelToken {
    /// The asset, and its domain, under which deposits are signed.
    pub(crate) asset: Asset,
    pub(crate) domain: TokenDomain,
    pub(crate) terms: ChannelTerms,
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
        Self { settler, policy, lease, inner: Arc::new(Inner { network, assets, verifier, tokens, mirror, rest }) }
    }

    pub(crate) fn network(&self) -> Network {
        self.inner.network
    }

    /// The tokens in which there are channels; `None` while that is not known.
    pub(crate) fn tokens(&self) -> Option<&[ChannelToken]> {
        self.inner.tokens.get().map(Vec::as_slice)
    }

    /// One of them.
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
            let contract = asset.contract();
            let authorizer = settler_in_time(self.settler.receiver_authorizer(self.inner.network, contract)).await?;
            match (authorizer, self.domain(contract).await?) {
                (Some(receiver_authorizer), Some(domain)) => {
                    let terms = self.policy.terms(receiver_authorizer);
                    tokens.push(ChannelToken { asset: asset.clone(), domain, terms });
                }
                _ => tracing::warn!(
                    token = %contract,
                    "there are no channels in this token: the settler keeps none, or the token has no EIP-3009"
                ),
            }
        }
        Ok(self.inner.tokens.get_or_init(|| tokens))
    }

    /// The domain that the token states.
    async fn domain(&self, token: Address) -> Result<Option<TokenDomain>, HealthError> {
        let Some(signatures) = self.inner.verifier.signatures() else { return Ok(None) };
        Ok(verifier_in_time(signatures.domain(token)).await?)
    }

    /// Learns them in the background, now and then, where that failed at the start: quotes do not wait for it.
    pub(crate) fn learn_later(&self) {
        let channels = self.clone();
        self.inner.rest.spawn(async move {
            if let Err(error) = channels.learn().await {
                tracing::warn!(%error, "channels cannot be used yet; quotes do not offer them");
            }
        });
    }
}
