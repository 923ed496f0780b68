//! `Standard`: a network's settler of signed authorizations, and the tokens that can be paid by one.

use std::{
    future::Future,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tokio::runtime::Handle;

use crate::{
    clock::Clock,
    paywall::{
        error::HealthError,
        seller::{
            promises::Promises,
            time_limits::{settler_in_time, verifier_in_time},
        },
    },
    protocol::{Address, Asset, Network, TokenDomain},
    settle::ErasedSettler,
    verify::ErasedVerifier,
};

/// The shortest time from the beginning of one attempt to that of the next.
const REST: Duration = Duration::from_secs(5);

/// Sells by the standard's signed payments. Clones share their state.
#[derive(Clone)]
pub(crate) struct Standard {
    pub(crate) settler: Arc<dyn ErasedSettler>,
    pub(crate) promises: Promises,
    inner: Arc<Inner>,
}

struct Inner {
    network: Network,
    assets: Vec<Asset>,
    /// `None` if nothing reads the chain.
    verifier: Option<Arc<dyn ErasedVerifier>>,
    tokens: OnceLock<Vec<TokenDomain>>,
    rest: Rest,
}

/// The rest between two attempts to learn something in the background.
pub(crate) struct Rest {
    clock: Arc<dyn Clock>,
    /// When the last attempt began, in monotonic time.
    last: Mutex<Option<Duration>>,
}

impl Rest {
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Self {
        Self { clock: Arc::clone(clock), last: Mutex::default() }
    }

    /// Makes an attempt, if the last one was long enough ago.
    pub(crate) fn spawn(&self, attempt: impl Future<Output = ()> + Send + 'static) {
        let Ok(runtime) = Handle::try_current() else { return };
        let now = self.clock.monotonic();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| now < last + REST) {
            return;
        }
        *last = Some(now);
        drop(runtime.spawn(attempt));
    }
}

impl Standard {
    pub(crate) fn new(
        settler: Arc<dyn ErasedSettler>,
        network: Network,
        assets: Vec<Asset>,
        verifier: Option<Arc<dyn ErasedVerifier>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (tokens, rest) = (OnceLock::new(), Rest::new(&clock));
        Self {
            settler,
            promises: Promises::default(),
            inner: Arc::new(Inner { network, assets, verifier, tokens, rest }),
        }
    }

    /// Returns the tokens that can be paid by authorization; `None` while that is not known.
    pub(crate) fn tokens(&self) -> Option<&[TokenDomain]> {
        self.inner.tokens.get().map(Vec::as_slice)
    }

    /// Returns the domain of this token, if it is one of them.
    pub(crate) fn token(&self, contract: Address) -> Option<&TokenDomain> {
        self.tokens()?.iter().find(|domain| domain.token == contract)
    }

    /// Returns whether a token can be paid by authorization, or may turn out to be.
    pub(crate) fn has_or_may_have(&self, contract: Address) -> bool {
        self.tokens().is_none() || self.token(contract).is_some()
    }

    /// Learns the tokens, unless they are known.
    pub(crate) async fn learn(&self) -> Result<&[TokenDomain], HealthError> {
        if let Some(known) = self.tokens() {
            return Ok(known);
        }
        let mut tokens = Vec::new();
        for asset in &self.inner.assets {
            match self.domain(asset.contract()).await? {
                Some(domain) => tokens.push(domain),
                None => tracing::warn!(
                    token = %asset.contract(),
                    "this token cannot be paid by a signed authorization: it has no EIP-3009, or the settler does not take it"
                ),
            }
        }
        Ok(self.inner.tokens.get_or_init(|| tokens))
    }

    async fn domain(&self, token: Address) -> Result<Option<TokenDomain>, HealthError> {
        let stated = match self.inner.verifier.as_ref().and_then(|verifier| verifier.signatures()) {
            Some(signatures) => match verifier_in_time(signatures.domain(token)).await? {
                None => return Ok(None),
                stated => stated,
            },
            None => None,
        };
        Ok(settler_in_time(self.settler.domain(self.inner.network, token, stated.as_ref())).await?)
    }

    /// Learns the tokens in the background, at intervals, if that failed at the start: quotes do not wait for it.
    pub(crate) fn learn_later(&self) {
        let standard = self.clone();
        self.inner.rest.spawn(async move {
            if let Err(error) = standard.learn().await {
                tracing::warn!(%error, "signed payments cannot be taken yet; quotes ask for transfers alone");
            }
        });
    }
}
