//! `Receipts`: fetches each receipt once, with its transaction, and keeps it with the time of the fetch. Verdicts are
//! never kept.

use std::{sync::Arc, time::Duration};

use moka::{
    future::{Cache, CacheBuilder},
    policy::EvictionPolicy,
};
use tokio::time::timeout;

use super::{
    endpoint_pool::EndpointPool,
    gate::Gate,
    head::Head,
    pool_answer::{NoAnswer, PoolAnswer, Whom},
    single_flight::SingleFlight,
    view::{TxReceipt, TxRecord},
};
use crate::{clock::Clock, protocol::TxHash, verify::VerifyError};

/// How long an unused receipt is kept.
const IDLE: Duration = Duration::from_secs(600);
/// How many transactions that were looked up in vain are remembered, each until the next block.
const MISSES_MAX: u64 = 65_536;

/// The approximate size of a cache entry without its record, in bytes: measured.
const ENTRY: usize = 320;

/// A transaction with its receipt, and when they were fetched (monotonic).
#[derive(Debug)]
pub(super) struct Found {
    pub(super) record: TxRecord,
    fetched_at: Duration,
    /// The endpoint that was believed alone, without asking the others.
    by: Option<usize>,
}

/// A transaction that was looked up in vain: it does not exist, or there was no usable answer.
#[derive(Clone, Debug)]
struct Miss {
    error: Option<VerifyError>,
    asked_at: Duration,
}

#[derive(Debug)]
pub(super) struct Receipts {
    /// Limited by bytes: some receipts are a hundred thousand times as large as others.
    found: Cache<TxHash, Arc<Found>>,
    /// A cache of its own, so that a flood of made-up hashes evicts no receipt.
    misses: Cache<TxHash, Miss>,
    under_way: SingleFlight<TxHash, Option<Arc<Found>>>,
    pool: Arc<EndpointPool>,
    /// Tells when there was a new block.
    head: Arc<Head>,
    gate: Gate,
    clock: Arc<dyn Clock>,
    block_time: Duration,
    patience: Duration,
}

fn cache(bytes: u64) -> Cache<TxHash, Arc<Found>> {
    let weight = |found: &Found| ENTRY + size_of::<Found>() + found.record.allocated();
    least_recently_used(bytes)
        .weigher(move |_, found: &Arc<Found>| u32::try_from(weight(found)).unwrap_or(u32::MAX))
        .build()
}

/// The default policy of the cache refuses new entries while old ones are used often.
fn least_recently_used<V: Clone + Send + Sync + 'static>(capacity: u64) -> CacheBuilder<TxHash, V, Cache<TxHash, V>> {
    Cache::builder().eviction_policy(EvictionPolicy::lru()).time_to_idle(IDLE).max_capacity(capacity)
}

impl Found {
    pub(super) const fn receipt(&self) -> &TxReceipt {
        &self.record.receipt
    }
}

impl Receipts {
    pub(super) fn new(
        pool: Arc<EndpointPool>,
        head: Arc<Head>,
        gate: Gate,
        clock: Arc<dyn Clock>,
        block_time: Duration,
        patience: Duration,
        cache_bytes: u64,
    ) -> Self {
        let (found, misses) = (cache(cache_bytes), least_recently_used(MISSES_MAX).build());
        let under_way = SingleFlight::default();
        Self { found, misses, under_way, pool, head, gate, clock, block_time, patience }
    }

    /// Returns the receipt, if there is one, from the cache if possible. Its absence is remembered until the next
    /// block.
    pub(super) async fn get(self: &Arc<Self>, transaction: TxHash) -> Result<Option<Arc<Found>>, VerifyError> {
        if let Some(found) = self.found.get(&transaction).await {
            return Ok(Some(found));
        }
        match self.misses.get(&transaction).await {
            Some(Miss { error: None, asked_at }) if self.is_current(asked_at) => Ok(None),
            _ => self.look_up(transaction, None).await,
        }
    }

    /// Returns the present receipt, after the cached one turned out not to be in the chain, or to pay nothing. Fetches
    /// at most once a block; but if another block at its height contradicts the receipt, the other endpoints are asked
    /// at once.
    pub(super) async fn again(
        self: &Arc<Self>,
        transaction: TxHash,
        doubted: Arc<Found>,
        contradicted: bool,
    ) -> Result<Option<Arc<Found>>, VerifyError> {
        let others = contradicted && doubted.by.is_some();
        if self.is_current(doubted.fetched_at) && !others {
            return Ok(Some(doubted));
        }
        self.look_up(transaction, Some(doubted)).await
    }

    async fn look_up(
        self: &Arc<Self>,
        transaction: TxHash,
        doubted: Option<Arc<Found>>,
    ) -> Result<Option<Arc<Found>>, VerifyError> {
        let fetch = || {
            let (this, doubted) = (Arc::clone(self), doubted.clone());
            async move {
                let fetched = timeout(this.patience, this.fetch(transaction, doubted));
                fetched.await.unwrap_or_else(|_| Err(VerifyError::unavailable()))
            }
        };
        self.under_way.join(transaction, fetch).await
    }

    async fn fetch(&self, transaction: TxHash, doubted: Option<Arc<Found>>) -> Result<Option<Arc<Found>>, VerifyError> {
        // Checked here and not earlier: callers that waited for another look-up return at once, with the receipt that
        // it found or with its failure.
        let known = if doubted.is_some() { self.found.get(&transaction).await } else { None };
        if let (Some(known), Some(doubted)) = (known, &doubted)
            && !Arc::ptr_eq(&known, doubted)
        {
            return Ok(Some(known));
        }
        let miss = self.misses.get(&transaction).await;
        if let Some(Miss { error: Some(error), asked_at }) = &miss
            && self.is_current(*asked_at)
        {
            return Err(error.clone());
        }
        let asked_before = miss.map(|miss| miss.asked_at).or(doubted.as_ref().map(|doubted| doubted.fetched_at));
        let _turn = self.gate.enter(asked_before).await?;
        let asked = self.ask(transaction, doubted.as_deref()).await;
        let fetched_at = self.clock.monotonic();
        match asked {
            Ok(Some((by, record))) => {
                let found = Arc::new(Found { record, fetched_at, by });
                self.misses.invalidate(&transaction).await;
                self.found.insert(transaction, Arc::clone(&found)).await;
                Ok(Some(found))
            }
            Ok(None) => {
                self.found.invalidate(&transaction).await;
                self.misses.insert(transaction, Miss { error: None, asked_at: fetched_at }).await;
                Ok(None)
            }
            Err(NoAnswer { error, unusable }) => {
                // Remembers a failure only if an endpoint that is up said something about this very transaction. If all
                // are down, or there is no turn or no time left, the transaction is not the cause, and the failure may
                // end at once.
                if unusable {
                    let miss = Miss { error: Some(error.clone()), asked_at: fetched_at };
                    self.misses.insert(transaction, miss).await;
                }
                Err(error)
            }
        }
    }

    /// Returns the receipt, and the endpoint that was believed alone, if others exist. In doubt, a single endpoint is
    /// believed only for a receipt in a known canonical block; without doubt, for any receipt. The source of a receipt
    /// that is still current is not asked again.
    async fn ask(
        &self,
        transaction: TxHash,
        doubted: Option<&Found>,
    ) -> Result<Option<(Option<usize>, TxRecord)>, NoAnswer> {
        let recent = doubted.filter(|doubted| self.is_current(doubted.fetched_at));
        let whom = Whom { first: None, but: recent.and_then(|doubted| doubted.by) };
        let settles = |receipt: &TxReceipt| doubted.is_none() || self.head.remembers(receipt);
        let answers = match self.pool.records(transaction, whom, settles).await {
            Ok(PoolAnswer::Decided(endpoint, record)) => {
                let alone = self.pool.endpoints.len() > 1;
                return Ok(Some((alone.then_some(endpoint), record)));
            }
            Ok(PoolAnswer::Doubtful(answers)) => answers,
            // Failed endpoints have no vote.
            Err(NoAnswer { unusable: false, .. }) if recent.is_some() => Vec::new(),
            Err(none) => return Err(none),
        };
        let said_before = recent.map(|doubted| doubted.record.clone());
        let all: Vec<_> = answers.into_iter().map(|(_, record)| record).chain(said_before).collect();
        Ok(self.choose(all).await.map(|record| (None, record)))
    }

    /// Returns the record that is in the chain, or else any.
    async fn choose(&self, mut records: Vec<TxRecord>) -> Option<TxRecord> {
        let last = records.pop()?;
        for record in records {
            if self.head.seals(&record.receipt).await {
                return Some(record);
            }
        }
        Some(last)
    }

    /// Whether an answer from that time may still hold, because no new block has come since.
    fn is_current(&self, heard_at: Duration) -> bool {
        self.clock.monotonic() < heard_at + self.block_time && heard_at >= self.head.moved_at()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        protocol::Address,
        verify::evm::view::{Log, MinedIn, Transaction},
    };

    fn found(number: u64, logs: u32, call_data: Option<usize>) -> Arc<Found> {
        let log = |position| Log {
            position,
            emitter: Address::ZERO,
            topics: (0..3).map(|_| [1; 32]).collect(),
            data: vec![2; 32],
            transaction: None,
            block: None,
            removed: false,
        };
        let mined_in = Some(MinedIn { number, hash: [3; 32] });
        let logs = (0..logs).map(log).collect();
        let receipt = TxReceipt { transaction: transaction(number), mined_in, success: Some(true), logs };
        let call_data = call_data.map(|bytes| vec![4; bytes].into());
        let transaction = Transaction { sender: Address::ZERO, call_data, permit: None };
        let record = TxRecord { receipt, transaction };
        Arc::new(Found { record, fetched_at: Duration::ZERO, by: None })
    }

    fn transaction(number: u64) -> TxHash {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        TxHash::new(hash)
    }

    #[test]
    fn the_cache_weighs_about_what_it_takes() -> std::io::Result<()> {
        const MANY: u64 = 4_000;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        for (logs, call_data) in [(0, None), (1, None), (30, None), (1, Some(104)), (1, Some(4_000))] {
            let cache = cache(u64::MAX);
            let fill = async {
                for number in 0..MANY {
                    cache.insert(transaction(number), found(number, logs, call_data)).await;
                }
                cache.run_pending_tasks().await;
            };
            let taken = allocation_counter::measure(|| runtime.block_on(fill)).bytes_current.unsigned_abs();
            let (taken, weighed) = (taken / MANY, cache.weighted_size() / MANY);
            println!("{logs} logs, {call_data:?} bytes of call data: {taken} bytes, weighed {weighed}");
            assert!(
                (taken..=taken * 3 / 2).contains(&weighed),
                "{logs} logs, {call_data:?}: {taken} bytes, weighed {weighed}"
            );
        }
        Ok(())
    }
}
