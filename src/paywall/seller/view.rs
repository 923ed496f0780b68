//! `View`: how a merchant learns the time of the chain, and whether it can look up payments there.

use std::sync::Arc;

use crate::{
    clock::Clock,
    protocol::{Asset, ChainTime, Network},
    verify::{ErasedVerifier, VerifyError},
};

/// How a merchant sees one chain.
#[derive(Clone)]
pub(crate) enum View {
    /// A verifier reads it.
    Read(Arc<dyn ErasedVerifier>),
    /// Nothing reads it: the merchant trusts its settler, and the clock stands for the head.
    Unread(Arc<dyn Clock>),
}

impl View {
    /// Returns the verifier; `None` where nothing reads the chain.
    pub(crate) const fn reader(&self) -> Option<&Arc<dyn ErasedVerifier>> {
        match self {
            Self::Read(verifier) => Some(verifier),
            Self::Unread(_) => None,
        }
    }

    /// Returns the time of the head.
    pub(crate) async fn head(&self) -> Result<ChainTime, VerifyError> {
        match self {
            Self::Read(verifier) => verifier.head().await,
            Self::Unread(clock) => Ok(ChainTime::from_unix(clock.unix())),
        }
    }

    /// Returns the latest time that any of the verifier's nodes has seen.
    pub(crate) async fn horizon(&self) -> Result<ChainTime, VerifyError> {
        match self {
            Self::Read(verifier) => verifier.horizon().await,
            Self::Unread(_) => self.head().await,
        }
    }

    /// Proves that this is the right chain, and returns the time at which a new ledger begins.
    pub(crate) async fn start(&self, network: Network, accepted: &[Asset]) -> Result<ChainTime, VerifyError> {
        if let Self::Read(verifier) = self {
            verifier.check(network, accepted).await?;
        }
        self.horizon().await
    }
}
