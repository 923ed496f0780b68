//! `Head`: the chain's present end, as a cell. Whoever finds it older than one block time has it refreshed, in one look-up
//! for all. Nothing runs while nobody asks, and nothing has to be stopped.

use std::{
    cmp::Ordering,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    Finality,
    chain::{Chain, Step},
    flight::Flights,
    gate::Gate,
    judge::Tip,
    rpc::{Asked, Pool, Tag},
    view::Block,
};
use crate::{
    clock::Clock,
    protocol::ChainTime,
    verify::{VerifyError, VerifyErrorKind},
};

/// A head is stale when refreshes over that long brought no newer block.
const QUIET_MAX: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Head {
    cell: Mutex<Option<Cell>>,
    refreshes: Flights<(), Tip>,
    look_ups: Flights<u64, Option<Block>>,
    pool: Arc<Pool>,
    gate: Gate,
    clock: Arc<dyn Clock>,
    finality: Finality,
    block_time: Duration,
    /// How far from the local clock the head may be.
    max_age: Option<Duration>,
}

/// Times are monotonic.
#[derive(Debug)]
struct Cell {
    chain: Chain,
    /// The latest time that any head had: nodes that take turns in being behind bring nothing newer.
    newest: ChainTime,
    confirmed: Option<u64>,
    /// The endpoint that named the head.
    source: usize,
    refreshed_at: Duration,
    /// Since when refreshes have brought nothing newer.
    quiet_since: Option<Duration>,
    /// Whether the refresh under way brought something newer.
    moved: bool,
}

impl Head {
    pub(super) fn new(
        pool: Arc<Pool>,
        gate: Gate,
        clock: Arc<dyn Clock>,
        finality: Finality,
        block_time: Duration,
        max_age: Option<Duration>,
    ) -> Self {
        let (refreshes, look_ups) = (Flights::default(), Flights::default());
        Self { cell: Mutex::new(None), refreshes, look_ups, pool, gate, clock, finality, block_time, max_age }
    }

    /// The head, not older than one block time.
    pub(super) async fn tip(self: &Arc<Self>) -> Result<Tip, VerifyError> {
        let known = self.cell().as_ref().filter(|cell| self.is_fresh(cell)).map(Cell::tip);
        let tip = match known {
            Some(tip) => tip,
            None => self.refreshes.join((), || Arc::clone(self).refresh()).await?,
        };
        if self.is_stale(&tip) { Err(VerifyError::new(VerifyErrorKind::StaleHead)) } else { Ok(tip) }
    }

    /// The sealed block at that height, up to the head.
    pub(super) async fn block(self: &Arc<Self>, number: u64) -> Result<Option<Block>, VerifyError> {
        let known = self.cell().as_ref().and_then(|cell| cell.chain.at(number));
        match known {
            Some(block) => Ok(Some(block)),
            None => self.look_ups.join(number, || Arc::clone(self).look_up(number)).await,
        }
    }

    async fn look_up(self: Arc<Self>, number: u64) -> Result<Option<Block>, VerifyError> {
        let _turn = self.gate.enter().await?;
        let known = self.cell().as_ref().map(|cell| (*cell.chain.head(), cell.chain.generation()));
        // Its time decides how old a payment is, and the head stands on it.
        let possible =
            |block: &Block| known.is_none_or(|(head, _)| block.number > head.number || block.time <= head.time);
        let block = self.pool.block_if(Tag::Number(number), possible).await?;
        if let (Some(block), Some(cell), Some((_, generation))) = (block, self.cell().as_mut(), known) {
            cell.chain.learn(block, generation);
        }
        Ok(block)
    }

    /// Only one of these runs at a time.
    async fn refresh(self: Arc<Self>) -> Result<Tip, VerifyError> {
        let (latest, confirmed) = tokio::try_join!(self.latest(), self.confirmed_by_name())?;
        if let Some((source, latest)) = &latest
            && self.cell().as_ref().is_some_and(|cell| cell.chain.step_to(latest) == Step::Replaced)
        {
            // Nodes behind one address may be on different blocks; or another chain may be behind it by now.
            self.prove_again(*source).await?;
            tracing::debug!(endpoint = source, number = latest.number, "head replaced");
        }
        let now = self.clock.monotonic();
        let mut cell = self.cell();
        if let Some((source, latest)) = latest {
            let chain = Chain::new(latest);
            cell.get_or_insert_with(|| Cell::new(chain, source, now)).follow(latest, source);
        }
        let cell = cell.as_mut().ok_or_else(VerifyError::unavailable)?;
        cell.refreshed(now);
        cell.confirmed = match self.finality {
            Finality::Confirmations(deep) => cell.chain.head().number.checked_sub(u64::from(deep.saturating_sub(1))),
            Finality::Safe | Finality::Finalized => confirmed.map(|number| number.min(cell.chain.head().number)),
        };
        Ok(cell.tip())
    }

    /// What is the latest block, and who says so; `None` if nobody knows of anything that could replace the known one.
    async fn latest(&self) -> Result<Option<(usize, Block)>, VerifyError> {
        let possible = |latest: &Block| !self.is_from_the_future(latest);
        let known = self.cell().as_ref().map(|cell| (*cell.chain.head(), cell.source, cell.quiet_since));
        let Some((head, source, quiet_since)) = known else {
            return self.pool.latest(possible, |_, _| true).await.map(Asked::into_decided);
        };
        // Between two blocks there is nothing newer, and that is no reason to ask everybody. For long it is.
        let patient = quiet_since.is_none_or(|since| self.clock.monotonic() < since + 3 * self.block_time);
        let settles = |endpoint: usize, latest: &Block| match latest.number.cmp(&head.number) {
            Ordering::Greater => true,
            Ordering::Equal => patient || latest.hash != head.hash,
            // Lower: a reorganisation if it says so who named the head; anybody else may just be behind.
            Ordering::Less => endpoint == source,
        };
        self.pool.latest(possible, settles).await.map(Asked::into_decided)
    }

    async fn confirmed_by_name(&self) -> Result<Option<u64>, VerifyError> {
        let tag = match self.finality {
            Finality::Confirmations(_) => return Ok(None),
            Finality::Safe => Tag::Safe,
            Finality::Finalized => Tag::Finalized,
        };
        self.pool.block(tag).await.map(|block| block.map(|block| block.number))
    }

    async fn prove_again(&self, source: usize) -> Result<(), VerifyError> {
        match self.pool.endpoints.get(source) {
            Some(endpoint) => self.pool.prover.prove(endpoint).await,
            None => Err(VerifyError::unavailable()),
        }
    }

    fn is_fresh(&self, cell: &Cell) -> bool {
        self.clock.monotonic() < cell.refreshed_at + self.block_time
    }

    /// Believed once, it would make every payment too old, and no later head would be newer.
    fn is_from_the_future(&self, latest: &Block) -> bool {
        let ahead = latest.time.unix().saturating_sub(self.clock.unix());
        let impossible = self.max_age.is_some_and(|max_age| ahead > max_age.as_secs());
        if impossible {
            tracing::warn!("an endpoint's latest block is far ahead of the local clock; check which of them is wrong");
        }
        impossible
    }

    fn is_stale(&self, tip: &Tip) -> bool {
        let Some(max_age) = self.max_age else { return false };
        let behind = self.clock.unix().saturating_sub(tip.head.time.unix()) > max_age.as_secs();
        let quiet = self.cell().as_ref().is_some_and(|cell| {
            cell.quiet_since.is_some_and(|since| cell.refreshed_at.saturating_sub(since) > QUIET_MAX)
        });
        behind || quiet
    }

    fn cell(&self) -> MutexGuard<'_, Option<Cell>> {
        self.cell.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cell {
    const fn new(chain: Chain, source: usize, now: Duration) -> Self {
        let newest = chain.head().time;
        Self { chain, newest, confirmed: None, source, refreshed_at: now, quiet_since: None, moved: true }
    }

    const fn tip(&self) -> Tip {
        Tip { head: *self.chain.head(), confirmed: self.confirmed }
    }

    fn follow(&mut self, latest: Block, source: usize) {
        self.chain.adopt(latest);
        self.source = source;
        self.moved |= latest.time > self.newest;
        self.newest = self.newest.max(latest.time);
    }

    fn refreshed(&mut self, now: Duration) {
        self.refreshed_at = now;
        self.quiet_since = if std::mem::take(&mut self.moved) { None } else { self.quiet_since.or(Some(now)) };
    }
}

impl<T> Asked<T> {
    fn into_decided(self) -> Option<(usize, T)> {
        match self {
            Self::Decided(endpoint, answer) => Some((endpoint, answer)),
            Self::Doubtful(_) => None,
        }
    }
}
