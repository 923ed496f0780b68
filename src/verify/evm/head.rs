//! `Head`: the chain's present end, as a cell. Whoever finds it older than one block time, or waits for the next block, has
//! it refreshed, in one look-up for all. Nothing runs while nobody asks, and nothing has to be stopped.

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
/// How long it is at least between two refreshes for those who wait for the next block.
const HURRY: Duration = Duration::from_millis(250);
/// For how many block times an endpoint that named the head may be silent before the highest of the others counts.
const SILENCE: u32 = 3;
/// A head that is further up than this, and a hundred blocks more for each second of chain time, is a leap. It counts only
/// where nobody knows better, and from an endpoint that proves its chain again.
const LEAP_MAX: u64 = 256;

#[derive(Debug)]
pub(super) struct Head {
    cell: Mutex<Option<Cell>>,
    /// When the last refresh began, whatever came of it (monotonic).
    asked_at: Mutex<Option<Duration>>,
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
    /// When the refresh began that brought this head.
    moved_at: Duration,
    /// Since when the source has not answered.
    silent_since: Option<Duration>,
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
        let (cell, asked_at) = (Mutex::new(None), Mutex::new(None));
        Self { cell, asked_at, refreshes, look_ups, pool, gate, clock, finality, block_time, max_age }
    }

    /// The head, not older than one block time.
    pub(super) async fn tip(self: &Arc<Self>) -> Result<Tip, VerifyError> {
        let known = self.cell().as_ref().filter(|cell| self.is_fresh(cell)).map(Cell::tip);
        let tip = match known {
            Some(tip) => tip,
            None => self.refreshes.join((), || Arc::clone(self).refresh(0)).await?,
        };
        if self.is_stale(&tip) { Err(VerifyError::new(VerifyErrorKind::StaleHead)) } else { Ok(tip) }
    }

    /// The time of day, where the chain keeps it.
    pub(super) fn present(&self) -> Option<ChainTime> {
        self.max_age.map(|_| ChainTime::from_unix(self.clock.unix()))
    }

    /// Another head than this one, if there is one by now, for a payment that may be in the next block or in the one
    /// `wanted`. However many wait, however often, the chain is asked once in [`HURRY`].
    pub(super) async fn after(self: &Arc<Self>, tip: &Tip, wanted: u64) -> Option<Tip> {
        let known = self.cell().as_ref().map(Cell::tip).filter(|known| known != tip);
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

    /// When the last look began that found another head (monotonic): what was heard before it may have changed.
    pub(super) fn moved_at(&self) -> Duration {
        self.cell().as_ref().map_or(Duration::ZERO, |cell| cell.moved_at)
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
        let _turn = self.gate.enter(None).await?;
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
    async fn refresh(self: Arc<Self>, wanted: u64) -> Result<Tip, VerifyError> {
        let began = self.clock.monotonic();
        *self.asked_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(began);
        let (latest, confirmed) = tokio::try_join!(self.proven(wanted), self.confirmed_by_name())?;
        let now = self.clock.monotonic();
        let mut cell = self.cell();
        if let Some((source, latest)) = latest {
            cell.get_or_insert_with(|| Cell::new(latest, source, began)).follow(latest, source, began);
        }
        let cell = cell.as_mut().ok_or_else(VerifyError::unavailable)?;
        cell.refreshed(now);
        cell.confirmed = match self.finality {
            Finality::Confirmations(deep) => cell.chain.head().number.checked_sub(u64::from(deep.saturating_sub(1))),
            Finality::Safe | Finality::Finalized => confirmed.map(|number| number.min(cell.chain.head().number)),
        };
        Ok(cell.tip())
    }

    /// The latest block, from an endpoint that proved its chain once more where the block gives reason to doubt it.
    async fn proven(&self, wanted: u64) -> Result<Option<(usize, Block)>, VerifyError> {
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

    /// Nodes behind one address may be on different blocks; or another chain may be behind it by now.
    fn is_doubtful(&self, latest: &Block) -> bool {
        self.cell()
            .as_ref()
            .is_some_and(|cell| cell.chain.step_to(latest) == Step::Replaced || is_leap(cell.chain.head(), latest))
    }

    /// What is the latest block, and who says so; `None` if nobody knows of anything that could replace the known one.
    async fn latest(&self, wanted: u64) -> Result<Option<(usize, Block)>, VerifyError> {
        let possible = |latest: &Block| !self.is_from_the_future(latest);
        let known = self.cell().as_ref().map(|cell| (*cell.chain.head(), cell.source, cell.quiet_since));
        let Some((head, source, quiet_since)) = known else {
            return self.pool.latest(possible, |_, _| true).await.map(Asked::into_decided);
        };
        // Between two blocks there is nothing newer, and that is no reason to ask everybody. For long it is, and so is a
        // receipt of a block that somebody must have.
        let patient = quiet_since.is_none_or(|since| self.clock.monotonic() < since + 3 * self.block_time);
        let settles = |endpoint: usize, latest: &Block| match latest.number.cmp(&head.number) {
            Ordering::Greater => latest.number >= wanted && !is_leap(&head, latest),
            Ordering::Equal => latest.number >= wanted && (patient || latest.hash != head.hash),
            // Lower: a reorganisation if it says so who named the head; anybody else may just be behind.
            Ordering::Less => endpoint == source,
        };
        match self.pool.latest(possible, settles).await? {
            Asked::Decided(endpoint, latest) => Ok(Some((endpoint, latest))),
            Asked::Doubtful(answers) => Ok(self.highest(&head, source, answers)),
        }
    }

    /// Which of several answers counts, none of which does alone.
    fn highest(&self, head: &Block, source: usize, answers: Vec<(usize, Block)>) -> Option<(usize, Block)> {
        let heard = answers.iter().any(|(endpoint, _)| *endpoint == source);
        if let (true, Some(cell)) = (heard, self.cell().as_mut()) {
            cell.silent_since = None;
        }
        let highest = answers.into_iter().max_by_key(|(_, latest)| (!is_leap(head, latest), latest.number))?;
        match highest.1.number.cmp(&head.number) {
            Ordering::Greater => Some(highest),
            Ordering::Equal => None,
            Ordering::Less => {
                let given_up = !heard && self.is_given_up(source);
                given_up.then(|| {
                    tracing::warn!(
                        endpoint = source,
                        "an endpoint that named a higher head is silent; the others count"
                    );
                    highest
                })
            }
        }
    }

    /// Whether the endpoint that named the head has been silent for too long, or is not believed any more.
    fn is_given_up(&self, source: usize) -> bool {
        let now = self.clock.monotonic();
        let wrong = self.pool.endpoints.get(source).is_none_or(|endpoint| endpoint.wrong().is_some());
        let mut cell = self.cell();
        let Some(cell) = cell.as_mut() else { return false };
        let silent_since = *cell.silent_since.get_or_insert(now);
        let given_up = wrong || now >= silent_since + SILENCE * self.block_time;
        if given_up {
            // What it said does not count, for what is newer either.
            cell.newest = ChainTime::from_unix(0);
        }
        given_up
    }

    async fn confirmed_by_name(&self) -> Result<Option<u64>, VerifyError> {
        let tag = match self.finality {
            Finality::Confirmations(_) => return Ok(None),
            Finality::Safe => Tag::Safe,
            Finality::Finalized => Tag::Finalized,
        };
        self.pool.block(tag).await.map(|block| block.map(|block| block.number))
    }

    fn is_fresh(&self, cell: &Cell) -> bool {
        self.clock.monotonic() < cell.refreshed_at + self.block_time
    }

    fn was_just_asked(&self) -> bool {
        let asked_at = *self.asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        asked_at.is_some_and(|at| self.clock.monotonic() < at + HURRY)
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

/// Whether it is further up than any chain gets in the time between.
fn is_leap(head: &Block, latest: &Block) -> bool {
    let seconds = latest.time.unix().saturating_sub(head.time.unix());
    latest.number.saturating_sub(head.number) > LEAP_MAX.saturating_add(seconds.saturating_mul(100))
}

impl Cell {
    fn new(head: Block, source: usize, began: Duration) -> Self {
        Self {
            chain: Chain::new(head),
            newest: head.time,
            confirmed: None,
            source,
            refreshed_at: began,
            moved_at: began,
            silent_since: None,
            quiet_since: None,
            moved: true,
        }
    }

    const fn tip(&self) -> Tip {
        Tip { head: *self.chain.head(), confirmed: self.confirmed }
    }

    /// Goes on from this head, which a look that began then brought.
    fn follow(&mut self, latest: Block, source: usize, began: Duration) {
        if latest.hash != self.chain.head().hash {
            self.moved_at = began;
        }
        self.chain.adopt(latest);
        self.source = source;
        self.moved |= latest.time > self.newest;
        self.newest = self.newest.max(latest.time);
        self.silent_since = None;
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
