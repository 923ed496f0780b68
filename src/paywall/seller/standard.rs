//! `Standard`: the settler of a merchant, and which of its tokens can be paid by authorization.

use std::{
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

/// How long after a failed attempt the next one is made.
const REST: Duration = Duration::from_secs(5);

/// Sells by the standard's signed payments. Clones are the same.
#[derive(Clone)]
pub(crate) struct Standard {
    pub(crate) settler: Arc<dyn ErasedSettler>,
    pub(crate) promises: Promises,
    inner: Arc<Inner>,
}

struct Inner {
    network: Network,
    assets: Vec<Asset>,
    /// `None` where nothing reads the chain.
    verifier: Option<Arc<dyn ErasedVerifier>>,
    clock: Arc<dyn Clock>,
    tokens: OnceLock<Vec<TokenDomain>>,
    /// When the last attempt began, in monotonic time.
    last: Mutex<Option<Duration>>,
}

impl Standard {
    pub(crate) fn new(
        settler: Arc<dyn ErasedSettler>,
        network: Network,
        assets: Vec<Asset>,
        verifier: Option<Arc<dyn ErasedVerifier>>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (tokens, last) = (OnceLock::new(), Mutex::default());
        Self {
            settler,
            promises: Promises::default(),
            inner: Arc::new(Inner { network, assets, verifier, clock, tokens, last }),
        }
    }

    /// The tokens that can be paid by authorization; `None` while that is not known.
    pub(crate) fn tokens(&self) -> Option<&[TokenDomain]> {
        self.inner.tokens.get().map(Vec::as_slice)
    }

    /// The domain of one of them.
    pub(crate) fn token(&self, contract: Address) -> Option<&TokenDomain> {
        self.tokens()?.iter().find(|domain| domain.token == contract)
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

    /// Learns them in the background, now and then, where that failed at the start: quotes do not wait for it.
    pub(crate) fn learn_later(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let now = self.inner.clock.monotonic();
        let mut last = self.inner.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_some_and(|last| now < last + REST) {
            return;
        }
        *last = Some(now);
        let standard = self.clone();
        drop(runtime.spawn(async move {
            if let Err(error) = standard.learn().await {
                tracing::warn!(%error, "signed payments cannot be taken yet; quotes ask for transfers alone");
            }
        }));
    }
}
