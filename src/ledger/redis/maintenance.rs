//! What operators ask of the server.

use std::sync::atomic::Ordering;

use super::{
    super::{Counts, Holdings, LedgerError, Maintenance},
    handle::RedisLedger,
    words::{seconds, word},
};
use crate::protocol::ChainTime;

impl RedisLedger {
    /// Returns counts since the ledger began, on all replicas, and its present contents.
    ///
    /// # Errors
    /// [`LedgerError`] if the server does not answer, or has contents of another version.
    pub async fn counts(&self) -> Result<Counts, LedgerError> {
        let answer: Vec<String> = self.ask(&self.inner.scripts.counts, &[]).await?;
        let [_, numbers @ .., mark] = answer.as_slice() else { return Err(LedgerError::incompatible()) };
        let numbers: Option<Vec<u64>> = numbers.iter().map(|number| number.parse().ok()).collect();
        let Some(&[reserved, consumed, released, expired, held, remembered]) = numbers.as_deref() else {
            return Err(LedgerError::incompatible());
        };
        let [held, remembered] = [held, remembered].map(|number| usize::try_from(number).unwrap_or(usize::MAX));
        Ok(Counts { reserved, consumed, released, expired, held, remembered, low_water_mark: time(mark) })
    }

    async fn move_mark(&self, way: &str, to: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        let answer: Vec<String> = self.ask(&self.inner.scripts.mark, &[way.to_owned(), seconds(to)]).await?;
        word(&answer, &[("done", ())])?;
        let mark = answer.get(1).and_then(|mark| time(mark));
        if mark.is_none() && self.inner.begun.load(Ordering::Relaxed) {
            return Err(self.inner.not_begun());
        }
        Ok(mark)
    }
}

impl Maintenance for RedisLedger {
    async fn holdings(&self) -> Result<Holdings, LedgerError> {
        let Counts { held, remembered, .. } = self.counts().await?;
        let [held, remembered] = [held, remembered].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
        Ok(Holdings { held, remembered })
    }

    async fn low_water_mark(&self) -> Result<Option<ChainTime>, LedgerError> {
        Ok(self.counts().await?.low_water_mark)
    }

    async fn raise_mark_to(&self, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.move_mark("raise", time).await
    }

    async fn lower_mark_to(&self, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        self.move_mark("lower", time).await
    }
}

/// Chain time as a script tells it, in whole seconds; none where it tells nothing.
pub(super) fn time(seconds: &str) -> Option<ChainTime> {
    seconds.parse().ok().map(ChainTime::from_unix)
}
