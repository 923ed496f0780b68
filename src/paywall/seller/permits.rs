//! `Permits`: a network's settler of permits, and the tokens that can be paid by one.

use std::sync::{Arc, OnceLock};

use crate::{
    paywall::{
        error::HealthError,
        seller::{
            promises::Promises,
            standard::Rest,
            time_limits::{settler_in_time, verifier_in_time},
        },
    },
    protocol::{Address, Asset, Network, permit2::PermitScheme},
    settle::ErasedPermitSettler,
    verify::ErasedVerifier,
};

/// Sells by permits. Clones share their state.
#[derive(Clone)]
pub(crate) struct Permits {
    pub(crate) settler: Arc<dyn ErasedPermitSettler>,
    /// Shared with those of signed authorizations: the payer has one balance.
    pub(crate) promises: Promises,
    inner: Arc<Inner>,
}

struct Inner {
    network: Network,
    assets: Vec<Asset>,
    verifier: Arc<dyn ErasedVerifier>,
    tokens: OnceLock<Vec<Token>>,
    rest: Rest,
}

/// A token that can be paid by a permit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) contract: Address,
    /// Whether permits of `exact` are taken.
    pub(crate) exact: bool,
    /// The account that sends permits of `upto`, as quotes name it; `None` if none are taken.
    pub(crate) facilitator: Option<Address>,
    /// Name and version of its domain, if it has one: clients need it to sign an allowance.
    pub(crate) domain: Option<(String, String)>,
}

impl Permits {
    pub(crate) fn new(
        settler: Arc<dyn ErasedPermitSettler>,
        network: Network,
        assets: Vec<Asset>,
        verifier: Arc<dyn ErasedVerifier>,
        promises: Promises,
        rest: Rest,
    ) -> Self {
        let inner = Inner { network, assets, verifier, tokens: OnceLock::new(), rest };
        Self { settler, promises, inner: Arc::new(inner) }
    }

    /// Returns the tokens that can be paid by a permit; `None` while that is not known.
    pub(crate) fn tokens(&self) -> Option<&[Token]> {
        self.inner.tokens.get().map(Vec::as_slice)
    }

    /// Returns the token of this contract, if it is one of them.
    pub(crate) fn token(&self, contract: Address) -> Option<&Token> {
        self.tokens()?.iter().find(|token| token.contract == contract)
    }

    /// Learns the tokens, unless they are known.
    pub(crate) async fn learn(&self) -> Result<&[Token], HealthError> {
        if let Some(known) = self.tokens() {
            return Ok(known);
        }
        let mut tokens = Vec::new();
        for asset in &self.inner.assets {
            let contract = asset.contract();
            let terms = |scheme| settler_in_time(self.settler.terms(self.inner.network, contract, scheme));
            let exact = terms(PermitScheme::Exact).await?.is_some();
            let up_to = terms(PermitScheme::UpTo).await?;
            let facilitator = up_to.and_then(|terms| terms.facilitators().first().copied());
            if !exact && facilitator.is_none() {
                tracing::warn!(token = %contract, "this token cannot be paid by a permit: the settler takes none");
                continue;
            }
            let domain = self.domain(contract).await?;
            tokens.push(Token { contract, exact, facilitator, domain });
        }
        Ok(self.inner.tokens.get_or_init(|| tokens))
    }

    /// Returns the domain that the token states.
    async fn domain(&self, token: Address) -> Result<Option<(String, String)>, HealthError> {
        let Some(signatures) = self.inner.verifier.signatures() else { return Ok(None) };
        let domain = verifier_in_time(signatures.domain(token)).await?;
        Ok(domain.map(|domain| (domain.name, domain.version)))
    }

    /// Learns the tokens in the background, at intervals, if that failed at the start: quotes do not wait for it.
    pub(crate) fn learn_later(&self) {
        let permits = self.clone();
        self.inner.rest.spawn(async move {
            if let Err(error) = permits.learn().await {
                tracing::warn!(%error, "permits cannot be taken yet; quotes do not ask for them");
            }
        });
    }
}
