//! `ReorgMonitor`: checks payments again once their block is `safe`, and reports vanished ones. It revokes nothing.
//!
//! It runs with redemptions, at most once a minute, and costs one call for each block that had payments.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use super::{
    endpoint_pool::EndpointPool,
    pool_answer::BlockTag,
    view::{Block, BlockHash},
};
use crate::{clock::Clock, metrics, protocol::TxHash, verify::VerifyError};

const EVERY: Duration = Duration::from_secs(60);
/// The most payments that are watched at once: several minutes with many payments a second.
const WATCHED_MAX: usize = 4_096;

#[derive(Debug)]
pub(super) struct ReorgMonitor {
    state: Mutex<State>,
    vanished: AtomicU64,
    pool: Arc<EndpointPool>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct State {
    paid: HashMap<TxHash, (u64, BlockHash)>,
    /// The highest block that is known to be safe.
    safe: u64,
    /// When to check next, in monotonic time; `None` if there is nothing to check.
    due: Option<Duration>,
}

impl ReorgMonitor {
    pub(super) fn new(pool: Arc<EndpointPool>, clock: Arc<dyn Clock>) -> Self {
        Self { state: Mutex::default(), vanished: AtomicU64::new(0), pool, clock }
    }

    /// Returns the number of payments that were in a sealed block when they were judged, and in none once that height
    /// was safe.
    pub(super) fn vanished(&self) -> u64 {
        self.vanished.load(Ordering::Relaxed)
    }

    /// Remembers a payment, and checks the earlier ones if it is time.
    pub(super) fn paid(self: &Arc<Self>, transaction: TxHash, block: &Block) {
        let now = self.clock.monotonic();
        let mut state = self.state();
        if block.number > state.safe && state.paid.len() < WATCHED_MAX {
            state.paid.insert(transaction, (block.number, block.hash));
            state.due.get_or_insert(now + EVERY);
        }
        if state.due.is_some_and(|due| due <= now) {
            state.due = Some(now + EVERY);
            let this = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = this.look().await {
                    tracing::debug!(%error, "payments not looked at again");
                }
            });
        }
    }

    async fn look(&self) -> Result<(), VerifyError> {
        let Some(safe) = self.pool.block(BlockTag::Safe).await? else { return Ok(()) };
        let mut blocks = BTreeMap::<u64, Vec<(TxHash, BlockHash)>>::new();
        for (transaction, (number, hash)) in &self.state().paid {
            if *number <= safe.number {
                blocks.entry(*number).or_default().push((*transaction, *hash));
            }
        }
        for (number, paid) in blocks {
            let block = self.pool.block(BlockTag::Number(number)).await?;
            for (transaction, hash) in paid {
                if block.is_none_or(|block| block.hash != hash) {
                    self.look_for(transaction).await?;
                }
                self.state().paid.remove(&transaction);
            }
        }
        let mut state = self.state();
        state.safe = safe.number;
        if state.paid.is_empty() {
            state.due = None;
        }
        Ok(())
    }

    /// Looks for a payment whose block is gone: it may be in another block.
    async fn look_for(&self, transaction: TxHash) -> Result<(), VerifyError> {
        let receipt = self.pool.receipt(transaction).await?;
        if receipt.is_some_and(|receipt| receipt.mined_in.is_some() && receipt.success == Some(true)) {
            tracing::debug!(%transaction, "a payment moved to another block");
            return Ok(());
        }
        self.vanished.fetch_add(1, Ordering::Relaxed);
        metrics::reorganised();
        tracing::warn!(%transaction, "a payment that was accepted is no longer in the chain");
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
