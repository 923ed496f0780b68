//! `Receipts`: each fetched once, kept with the moment it was fetched. Verdicts are never kept.

use std::{sync::Arc, time::Duration};

use moka::{future::Cache, policy::EvictionPolicy};
use tokio::time::timeout;

use super::{
    flight::Flights,
    gate::Gate,
    rpc::{NoAnswer, Pool},
    view::Receipt,
};
use crate::{clock::Clock, protocol::TxHash, verify::VerifyError};

/// How long a receipt that nobody asks for is kept.
const IDLE: Duration = Duration::from_secs(600);
/// How many transactions that were asked for in vain are remembered, each for one block time.
const MISSES_MAX: u64 = 65_536;

/// A receipt, and when it was fetched (monotonic).
#[derive(Debug)]
pub(super) struct Found {
    pub(super) receipt: Receipt,
    fetched_at: Duration,
}

/// A transaction that was asked for in vain: there is none, or no usable answer.
#[derive(Clone, Debug)]
struct Miss {
    error: Option<VerifyError>,
    asked_at: Duration,
}

#[derive(Debug)]
pub(super) struct Receipts {
    /// By bytes: some receipts are a hundred thousand times as large as others.
    found: Cache<TxHash, Arc<Found>>,
    /// Apart, so that a flood of made-up hashes pushes out no receipt.
    misses: Cache<TxHash, Miss>,
    under_way: Flights<TxHash, Option<Arc<Found>>>,
    pool: Arc<Pool>,
    gate: Gate,
    clock: Arc<dyn Clock>,
    block_time: Duration,
    patience: Duration,
}

impl Receipts {
    pub(super) fn new(
        pool: Arc<Pool>,
        gate: Gate,
        clock: Arc<dyn Clock>,
        block_time: Duration,
        patience: Duration,
        cache_bytes: u64,
    ) -> Self {
        // Least recently used: the default policy refuses newcomers where a cache is full of favourites.
        let found =
            Cache::builder().eviction_policy(EvictionPolicy::lru()).time_to_idle(IDLE).max_capacity(cache_bytes);
        let found = found.weigher(|_, found: &Arc<Found>| u32::try_from(found.receipt.weight()).unwrap_or(u32::MAX));
        let misses =
            Cache::builder().eviction_policy(EvictionPolicy::lru()).time_to_idle(IDLE).max_capacity(MISSES_MAX);
        let (found, misses, under_way) = (found.build(), misses.build(), Flights::default());
        Self { found, misses, under_way, pool, gate, clock, block_time, patience }
    }

    /// Whether it is known, without asking anybody, that there is no receipt at present.
    pub(super) async fn is_known_absent(&self, transaction: TxHash) -> bool {
        let miss = self.recent_miss(transaction).await;
        miss.is_some_and(|miss| miss.error.is_none()) && !self.found.contains_key(&transaction)
    }

    /// The receipt, if there is one; from memory, if it is there.
    pub(super) async fn get(self: &Arc<Self>, transaction: TxHash) -> Result<Option<Arc<Found>>, VerifyError> {
        if let Some(found) = self.found.get(&transaction).await {
            return Ok(Some(found));
        }
        if self.is_known_absent(transaction).await {
            return Ok(None);
        }
        self.look_up(transaction).await
    }

    /// The receipt as it is now, for one that turned out not to be in the chain; fetched at most once a block time.
    pub(super) async fn again(
        self: &Arc<Self>,
        transaction: TxHash,
        doubted: Arc<Found>,
    ) -> Result<Option<Arc<Found>>, VerifyError> {
        if self.is_recent(doubted.fetched_at) {
            return Ok(Some(doubted));
        }
        self.look_up(transaction).await
    }

    async fn look_up(self: &Arc<Self>, transaction: TxHash) -> Result<Option<Arc<Found>>, VerifyError> {
        let fetch = || {
            let this = Arc::clone(self);
            async move {
                let fetched = timeout(this.patience, this.fetch(transaction));
                fetched.await.unwrap_or_else(|_| Err(VerifyError::unavailable()))
            }
        };
        self.under_way.join(transaction, fetch).await
    }

    async fn fetch(&self, transaction: TxHash) -> Result<Option<Arc<Found>>, VerifyError> {
        // Here and not before: those who waited for a look-up that failed come back at once.
        if let Some(error) = self.recent_miss(transaction).await.and_then(|miss| miss.error) {
            return Err(error);
        }
        let _turn = self.gate.enter().await?;
        let receipt = self.pool.receipt(transaction).await;
        let fetched_at = self.clock.monotonic();
        let receipt = match receipt {
            Ok(Some(receipt)) => receipt,
            Ok(None) => {
                self.found.invalidate(&transaction).await;
                self.misses.insert(transaction, Miss { error: None, asked_at: fetched_at }).await;
                return Ok(None);
            }
            Err(NoAnswer { error, unusable }) => {
                // Only what an endpoint that is up said of this very transaction. That all are down, that there is no turn
                // or no time left has nothing to do with it, and may be over at once.
                if unusable {
                    let miss = Miss { error: Some(error.clone()), asked_at: fetched_at };
                    self.misses.insert(transaction, miss).await;
                }
                return Err(error);
            }
        };
        let found = Arc::new(Found { receipt, fetched_at });
        self.found.insert(transaction, Arc::clone(&found)).await;
        Ok(Some(found))
    }

    async fn recent_miss(&self, transaction: TxHash) -> Option<Miss> {
        self.misses.get(&transaction).await.filter(|miss| self.is_recent(miss.asked_at))
    }

    fn is_recent(&self, fetched_at: Duration) -> bool {
        self.clock.monotonic() < fetched_at + self.block_time
    }
}
