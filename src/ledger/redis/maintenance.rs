//! The operators' questions to the server.

use std::sync::atomic::Ordering;

use super::{
    super::{LedgerCounts, LedgerError, LedgerSize, Maintenance},
    handle::RedisLedger,
    words::{chain, seconds, word},
};
use crate::protocol::{ChainTime, Network};

impl RedisLedger {
    /// Returns counts since the ledger began, on all replicas, and its present contents.
    ///
    /// # Errors
    /// [`LedgerError`] if the server does not answer, or has contents of another version.
    pub async fn counts(&self) -> Result<LedgerCounts, LedgerError> {
        let answer: Vec<String> = self.ask(&self.inner.scripts.counts, &[]).await?;
        let [_, numbers @ ..] = answer.as_slice() else { return Err(LedgerError::incompatible()) };
        let numbers: Option<Vec<u64>> = numbers.iter().map(|number| number.parse().ok()).collect();
        let Some(&[reserved, consumed, released, expired, held, remembered]) = numbers.as_deref() else {
            return Err(LedgerError::incompatible());
        };
        let [held, remembered] = [held, remembered].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        Ok(LedgerCounts { reserved, consumed, released, expired, held, remembered })
    }

    async fn mark(&self, way: &str, network: Network, to: Option<ChainTime>) -> Result<Option<ChainTime>, LedgerError> {
        let words: Vec<_> = [way.to_owned(), chain(network)].into_iter().chain(to.map(seconds)).collect();
        let answer: Vec<String> = self.ask(&self.inner.scripts.mark, &words).await?;
        word(&answer, &[("done", ())])?;
        let mark = answer.get(1).and_then(|mark| time(mark));
        if mark.is_none() && to.is_some() && self.inner.begun.load(Ordering::Relaxed) {
            return Err(self.inner.not_begun());
        }
        Ok(mark)
    }
}

impl Maintenance for RedisLedger {
    async fn size(&self) -> Result<LedgerSize, LedgerError> {
        let LedgerCounts { held, remembered, .. } = self.counts().await?;
        let [held, remembered] = [held, remembered].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
        Ok(LedgerSize { held, remembered })
    }

    async fn low_water_mark(&self, network: Network) -> Result<Option<ChainTime>, LedgerError> {
        self.mark("tell", network, None).await
    }

    async fn raise_mark_to(&self, network: Network, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.mark("raise", network, Some(time)).await
    }

    async fn lower_mark_to(&self, network: Network, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.mark("lower", network, Some(time)).await
    }
}

/// Parses chain time from a script's answer, in whole seconds; `None` if the word is empty.
pub(super) fn time(seconds: &str) -> Option<ChainTime> {
    seconds.parse().ok().map(ChainTime::from_unix)
}
