//! `Head`: a cell with the chain's current head. A caller that finds it older than one block time, or waits for the
//! next block, starts a refresh that all callers share. There is no background task, so nothing has to be stopped.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    chain::Step,
    endpoint_pool::EndpointPool,
    finality::Finality,
    gate::Gate,
    head_state::{HeadState, Named, Now, is_leap},
    judge::Tip,
    pool_answer::{BlockTag, PoolAnswer},
    single_flight::SingleFlight,
    view::{Block, MinedIn, TxReceipt},
};
use crate::{
    clock::Clock,
    metrics,
    protocol::ChainTime,
    verify::{VerifyError, VerifyErrorKind},
};

/// A head is stale if refreshes over this time brought no newer block.
const QUIET_MAX: Duration = Duration::from_secs(60);
/// The shortest time between two refreshes for callers that wait for the next block.
const HURRY: Duration = Duration::from_millis(250);
#[derive(Debug)]
pub(super) struct Head {
    cell: Mutex<Option<HeadState>>,
    /// When the last refresh began, successful or not (monotonic).
    asked_at: Mutex<Option<Duration>>,
    refreshes: SingleFlight<(), Tip>,
    look_ups: SingleFlight<u64, Option<Block>>,
    pool: Arc<EndpointPool>,
    gate: Gate,
    clock: Arc<dyn Clock>,
    finality: Finality,
    block_time: Duration,
    /// How far from the local clock the head may be.
    max_age: Option<Duration>,
}

impl Head {
    pub(super) fn new(
        pool: Arc<EndpointPool>,
        gate: Gate,
        clock: Arc<dyn Clock>,
        finality: Finality,
        block_time: Duration,
        max_age: Option<Duration>,
    ) -> Self {
        let (refreshes, look_ups) = (SingleFlight::default(), SingleFlight::default());
        let (cell, asked_at) = (Mutex::new(None), Mutex::new(None));
        Self { cell, asked_at, refreshes, look_ups, pool, gate, clock, finality, block_time, max_age }
    }

    /// Returns the head, at most one block time old.
    pub(super) async fn tip(self: &Arc<Self>) -> Result<Tip, VerifyError> {
        let known = self.cell().as_ref().filter(|cell| self.is_fresh(cell)).map(HeadState::tip);
        let tip = match known {
            Some(tip) => tip,
            None => self.refreshes.join((), || Arc::clone(self).refresh(0)).await?,
        };
        if self.is_stale(&tip) { Err(VerifyError::new(VerifyErrorKind::StaleHead)) } else { Ok(tip) }
    }

    /// Returns the wall clock's time, if the chain's timestamps are expected to follow it.
    pub(super) fn wall_time(&self) -> Option<ChainTime> {
        self.max_age.map(|_| ChainTime::from_unix(self.clock.unix()))
    }

    /// Returns a head other than this one, if there is one by now. For a payment that may be in the next block or in
    /// the block `wanted`. However many callers wait, the chain is asked at most once in [`HURRY`].
    pub(super) async fn after(self: &Arc<Self>, tip: &Tip, wanted: u64) -> Option<Tip> {
        let known = self.cell().as_ref().map(HeadState::tip).filter(|known| known != tip);
        let newer = if let Some(known) = known {
            known
        } else if let Some(refreshed) = self.refreshes.join_under_way(&()).await {
            refreshed.ok()?
        } else if self.was_just_asked() {
            return None;
        } else {
            self.refreshes.join((), || Arc::clone(self).refresh(wanted)).await.ok()?
        };
        (newer != *tip && !self.is_stale(&newer)).then_some(newer)
    }

    /// When the last refresh that changed the head began (monotonic): earlier answers may be outdated.
    pub(super) fn moved_at(&self) -> Duration {
        self.cell().as_ref().map_or(Duration::ZERO, |cell| cell.moved_at)
    }

    /// Returns the sealed block at that height, up to the head.
    pub(super) async fn block(self: &Arc<Self>, number: u64) -> Result<Option<Block>, VerifyError> {
        let known = self.cell().as_ref().and_then(|cell| cell.chain.at(number));
        match known {
            Some(block) => Ok(Some(block)),
            None => self.look_ups.join(number, || Arc::clone(self).look_up(number)).await,
        }
    }

    /// Whether the receipt's block is a remembered one.
    pub(super) fn remembers(&self, receipt: &TxReceipt) -> bool {
        let block = |mined_in: MinedIn| self.cell().as_ref()?.chain.at(mined_in.number);
        receipt.mined_in.and_then(block).is_some_and(|block| receipt.is_of(&block))
    }

    /// Whether the receipt's block is the sealed block at its height.
    pub(super) async fn seals(self: &Arc<Self>, receipt: &TxReceipt) -> bool {
        let height = self.cell().as_ref().map(|cell| cell.chain.head().number);
        let Some(mined_in) = receipt.mined_in.filter(|mined_in| Some(mined_in.number) <= height) else { return false };
        let block = self.block(mined_in.number).await;
        block.ok().flatten().is_some_and(|block| receipt.is_of(&block))
    }

    async fn look_up(self: Arc<Self>, number: u64) -> Result<Option<Block>, VerifyError> {
        let _turn = self.gate.enter(None).await?;
        let known = self.cell().as_ref().map(|cell| (*cell.chain.head(), cell.chain.generation()));
        // A block's time decides the age of payments. An ancestor of the head cannot be later than the head.
        let possible =
            |block: &Block| known.is_none_or(|(head, _)| block.number > head.number || block.time <= head.time);
        let block = self.pool.block_if(BlockTag::Number(number), self.source(), possible).await?;
        if let (Some(block), Some(cell), Some((_, generation))) = (block, self.cell().as_mut(), known) {
            cell.chain.learn(block, generation);
        }
        Ok(block)
    }

    /// Refreshes the head. Only one refresh runs at a time.
    async fn refresh(self: Arc<Self>, wanted: u64) -> Result<Tip, VerifyError> {
        let began = self.clock.monotonic();
        *self.asked_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(began);
        let (latest, confirmed) = tokio::try_join!(self.proven(wanted), self.confirmed_by_name())?;
        let now = self.clock.monotonic();
        let mut cell = self.cell();
        if let Some((source, latest)) = latest {
            cell.get_or_insert_with(|| HeadState::new(latest, source, began)).follow(latest, source, began);
        }
        let cell = cell.as_mut().ok_or_else(VerifyError::unavailable)?;
        cell.refreshed(now);
        metrics::head(|| self.clock.unix().saturating_sub(cell.chain.head().time.unix()));
        cell.confirmed = match self.finality {
            Finality::Confirmations(deep) => cell.chain.head().number.checked_sub(u64::from(deep.saturating_sub(1))),
            Finality::Safe | Finality::Finalized => confirmed.map(|number| number.min(cell.chain.head().number)),
        };
        Ok(cell.tip())
    }

    /// Returns the latest block. If the block is doubtful, its endpoint has proved its chain again.
    async fn proven(&self, wanted: u64) -> Result<Option<Named>, VerifyError> {
        for _ in 0..=self.pool.endpoints.len() {
            let Some((source, latest)) = self.latest(wanted).await? else { return Ok(None) };
            if !self.is_doubtful(&latest) {
                return Ok(Some((source, latest)));
            }
            tracing::debug!(endpoint = source, number = latest.number, "another head than expected");
            if self.pool.prove_again(source).await {
                return Ok(Some((source, latest)));
            }
        }
        Err(self.pool.no_answer())
    }

    /// Whether the block is no plausible successor: nodes behind one address may be on different blocks, or it may
    /// serve another chain by now.
    fn is_doubtful(&self, latest: &Block) -> bool {
        self.cell()
            .as_ref()
            .is_some_and(|cell| cell.chain.step_to(latest) == Step::Replaced || is_leap(cell.chain.head(), latest))
    }

    /// Returns the latest block and its source; `None` if no endpoint has one that could replace the known head.
    async fn latest(&self, wanted: u64) -> Result<Option<Named>, VerifyError> {
        let now = self.now();
        let possible = |latest: &Block| !self.is_from_the_future(latest);
        let settles = |endpoint: usize, latest: &Block| match self.cell().as_ref() {
            Some(cell) => cell.settles((endpoint, latest), wanted, &now),
            None => !now.is_stale(latest),
        };
        let answers = match self.pool.latest(possible, settles).await? {
            PoolAnswer::Decided(endpoint, latest) => return Ok(Some((endpoint, latest))),
            PoolAnswer::Doubtful(answers) => answers,
        };
        let mut cell = self.cell();
        let Some(cell) = cell.as_mut() else {
            // All answers are stale.
            return Ok(answers.into_iter().max_by_key(|(_, latest)| latest.number));
        };
        let wrong = self.pool.endpoints.get(cell.source).is_none_or(|endpoint| endpoint.wrong().is_some());
        Ok(cell.choose(answers, wrong, &self.now()))
    }

    async fn confirmed_by_name(&self) -> Result<Option<u64>, VerifyError> {
        let tag = match self.finality {
            Finality::Confirmations(_) => return Ok(None),
            Finality::Safe => BlockTag::Safe,
            Finality::Finalized => BlockTag::Finalized,
        };
        let block = self.pool.block_if(tag, self.source(), |_| true).await?;
        Ok(block.map(|block| block.number))
    }

    fn is_fresh(&self, cell: &HeadState) -> bool {
        self.clock.monotonic() < cell.refreshed_at + self.block_time
    }

    fn was_just_asked(&self) -> bool {
        let asked_at = *self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        asked_at.is_some_and(|at| self.clock.monotonic() < at + HURRY)
    }

    fn is_from_the_future(&self, latest: &Block) -> bool {
        let impossible = self.now().is_from_the_future(latest);
        if impossible {
            tracing::warn!("an endpoint's latest block is far ahead of the local clock; check which of them is wrong");
        }
        impossible
    }

    fn is_stale(&self, tip: &Tip) -> bool {
        let quiet = || self.cell().as_ref().is_some_and(|cell| cell.quiet_for() > QUIET_MAX);
        self.now().is_stale(&tip.head) || self.max_age.is_some() && quiet()
    }

    fn now(&self) -> Now {
        let Self { clock, max_age, block_time, .. } = self;
        Now { monotonic: clock.monotonic(), unix: clock.unix(), max_age: *max_age, block_time: *block_time }
    }

    /// The endpoint that named the head, which is the first to ask about its ancestors.
    fn source(&self) -> Option<usize> {
        self.cell().as_ref().map(|cell| cell.source)
    }

    fn cell(&self) -> MutexGuard<'_, Option<HeadState>> {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
