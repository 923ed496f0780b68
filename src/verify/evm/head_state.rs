//! `HeadState`: the known head, its source, and the rule for its replacement. Pure: its inputs are answers and their
//! times.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::{
    chain::Chain,
    judge::Tip,
    view::{Block, BlockHash},
};
use crate::protocol::ChainTime;

/// How many block times the source of the head may be silent, or stand still, before other endpoints count.
const SILENCE: u32 = 3;
/// After how many block times without a newer block all endpoints are asked.
const PATIENCE: u32 = 2;
/// A head that is higher than this plus a hundred blocks for each second of chain time is a leap. It counts only
/// without a better answer, and from an endpoint that proves its chain again.
const LEAP_MAX: u64 = 256;

/// The latest block according to an endpoint, with the endpoint's index.
pub(super) type Named = (usize, Block);

/// The time at which answers are judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) monotonic: Duration,
    /// In Unix seconds.
    pub(super) unix: u64,
    /// How far from this time a head may be; `None` on a chain without regular blocks.
    pub(super) max_age: Option<Duration>,
    pub(super) block_time: Duration,
}

/// Times are monotonic.
#[derive(Debug)]
pub(super) struct HeadState {
    pub(super) chain: Chain,
    /// The latest time of any head, so that nodes that are behind in turns do not count as progress.
    newest: ChainTime,
    pub(super) confirmed: Option<u64>,
    /// The endpoint that named the head.
    pub(super) source: usize,
    pub(super) refreshed_at: Duration,
    /// When the refresh that brought this head began.
    pub(super) moved_at: Duration,
    /// Since when the source has not answered.
    silent_since: Option<Duration>,
    /// Since when refreshes have brought nothing newer.
    quiet_since: Option<Duration>,
    /// The height that each endpoint named when it first answered since then.
    heard: BTreeMap<usize, u64>,
    /// The head at which each endpoint was given up: it must leave that head before it is followed again.
    given_up: HashMap<usize, BlockHash>,
    /// Whether the present refresh brought a newer block.
    moved: bool,
}

impl Now {
    /// Whether the block is too far in the future. If believed, it would make every payment too old, and no later head
    /// would be newer.
    pub(super) fn is_from_the_future(&self, block: &Block) -> bool {
        self.max_age.is_some_and(|max_age| block.time.unix().saturating_sub(self.unix) > max_age.as_secs())
    }

    pub(super) fn is_stale(&self, block: &Block) -> bool {
        self.max_age.is_some_and(|max_age| self.unix.saturating_sub(block.time.unix()) > max_age.as_secs())
    }

    /// Whether one head is later than the other, or nearer to the present. The head of a lagging node is neither.
    fn is_nearer(&self, one: &Block, other: &Block) -> bool {
        let away = |block: &Block| self.unix.abs_diff(block.time.unix());
        one.time > other.time || self.max_age.is_some() && away(one) < away(other)
    }

    fn is_after(&self, since: Option<Duration>, blocks: u32) -> bool {
        since.is_some_and(|since| self.monotonic >= since + blocks * self.block_time)
    }
}

impl HeadState {
    pub(super) fn new(head: Block, source: usize, began: Duration) -> Self {
        Self {
            chain: Chain::new(head),
            newest: head.time,
            confirmed: None,
            source,
            refreshed_at: began,
            moved_at: began,
            silent_since: None,
            quiet_since: None,
            heard: BTreeMap::new(),
            given_up: HashMap::new(),
            moved: true,
        }
    }

    pub(super) const fn tip(&self) -> Tip {
        Tip { head: *self.chain.head(), confirmed: self.confirmed }
    }

    /// How long refreshes have brought no newer block.
    pub(super) fn quiet_for(&self) -> Duration {
        self.quiet_since.map_or(Duration::ZERO, |since| self.refreshed_at.saturating_sub(since))
    }

    /// Whether an endpoint's answer is new enough to ask no other.
    pub(super) fn settles(&self, (endpoint, latest): (usize, &Block), wanted: u64, now: &Now) -> bool {
        let head = self.chain.head();
        if now.is_stale(latest) || self.is_given_up_with(endpoint, latest) {
            return false;
        }
        match latest.number.cmp(&head.number) {
            Ordering::Greater => latest.number >= wanted && !is_leap(head, latest),
            // Between two blocks there is nothing newer, and no reason to ask all endpoints. A long silence is a
            // reason, and so is a receipt of a later block.
            Ordering::Equal => {
                latest.number >= wanted && (latest.hash != head.hash || !now.is_after(self.quiet_since, PATIENCE))
            }
            // From the head's source this is a reorganisation; another endpoint may only be behind.
            Ordering::Less => endpoint == self.source,
        }
    }

    /// Chooses among several answers if none decides alone. `wrong` says that the source is no longer believed.
    pub(super) fn choose(&mut self, mut answers: Vec<Named>, wrong: bool, now: &Now) -> Option<Named> {
        for (endpoint, latest) in &answers {
            self.heard.entry(*endpoint).or_insert(latest.number);
        }
        let gone = self.is_gone(&answers, wrong, now);
        answers.retain(|(endpoint, latest)| !self.is_given_up_with(*endpoint, latest));
        let head = *self.chain.head();
        let rank = |(_, latest): &Named| (!now.is_stale(latest), !is_leap(&head, latest), latest.number);
        let best = answers.iter().copied().max_by_key(rank)?;
        if best.1.number > head.number || now.is_stale(&head) && !now.is_stale(&best.1) {
            return Some(best);
        }
        if gone && best.1.hash != head.hash {
            return Some(best);
        }
        answers.retain(|answer| self.overtakes(answer, now));
        answers.into_iter().max_by_key(rank)
    }

    /// Whether the source has been silent for too long, is no longer believed, or names another head.
    fn is_gone(&mut self, answers: &[Named], wrong: bool, now: &Now) -> bool {
        let head = self.chain.head();
        if let Some((_, latest)) = answers.iter().find(|(endpoint, _)| *endpoint == self.source) {
            self.silent_since = None;
            return latest.number <= head.number && latest.hash != head.hash;
        }
        self.silent_since.get_or_insert(now.monotonic);
        wrong || now.is_after(self.silent_since, SILENCE)
    }

    /// Whether this endpoint advances, and is nearer to the present than the head of a source that stands still.
    fn overtakes(&self, (endpoint, latest): &Named, now: &Now) -> bool {
        let head = self.chain.head();
        let advances = self.heard.get(endpoint).is_some_and(|first| latest.number > *first);
        let stands_still = now.is_after(self.quiet_since, SILENCE);
        stands_still && *endpoint != self.source && advances && !is_leap(head, latest) && now.is_nearer(latest, head)
    }

    fn is_given_up_with(&self, endpoint: usize, latest: &Block) -> bool {
        self.given_up.get(&endpoint) == Some(&latest.hash)
    }

    /// Adopts this head. `began` is when the refresh that brought it began.
    pub(super) fn follow(&mut self, latest: Block, source: usize, began: Duration) {
        let head = *self.chain.head();
        if source != self.source && latest.number < head.number {
            tracing::warn!(
                endpoint = self.source,
                "an endpoint named a higher head and does not go on; the others count"
            );
            // Its head does not count, even compared with newer blocks.
            self.given_up.insert(self.source, head.hash);
            self.newest = ChainTime::from_unix(0);
        }
        if latest.hash != head.hash {
            self.moved_at = began;
        }
        self.chain.adopt(latest);
        self.source = source;
        self.moved |= latest.time > self.newest;
        self.newest = self.newest.max(latest.time);
        self.silent_since = None;
    }

    pub(super) fn refreshed(&mut self, now: Duration) {
        self.refreshed_at = now;
        if std::mem::take(&mut self.moved) {
            self.quiet_since = None;
            self.heard.clear();
        } else {
            self.quiet_since.get_or_insert(now);
        }
    }
}

/// Whether the block is higher than any chain can get in the time between.
pub(super) fn is_leap(head: &Block, latest: &Block) -> bool {
    let seconds = latest.time.unix().saturating_sub(head.time.unix());
    latest.number.saturating_sub(head.number) > LEAP_MAX.saturating_add(seconds.saturating_mul(100))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_800_000_000;
    const MINUTE: Option<Duration> = Some(Duration::from_secs(60));

    /// A time in seconds after the start.
    fn at(seconds: u64, max_age: Option<Duration>) -> Now {
        let (monotonic, block_time) = (Duration::from_secs(seconds), Duration::from_secs(2));
        Now { monotonic, unix: START + seconds, max_age, block_time }
    }

    fn block(number: u64, seconds: u64) -> Block {
        let mut hash = [7; 32];
        hash[..8].copy_from_slice(&number.to_be_bytes());
        Block { number, hash, parent: [0; 32], time: ChainTime::from_unix(START + seconds) }
    }

    /// After how many seconds the second endpoint's head replaces that of the first, which stands still.
    fn replaced_after(stands: Block, max_age: Option<Duration>, moves: impl Fn(u64) -> Block) -> Option<(u64, u64)> {
        let mut cell = HeadState::new(stands, 0, Duration::ZERO);
        cell.refreshed(Duration::ZERO);
        (2..60).step_by(2).find_map(|seconds| {
            let now = at(seconds, max_age);
            let chosen = if cell.settles((0, &stands), 0, &now) {
                None
            } else {
                cell.choose(vec![(0, stands), (1, moves(seconds))], false, &now)
            };
            cell.refreshed(now.monotonic);
            chosen.map(|(_, latest)| (seconds, latest.number))
        })
    }

    #[test]
    fn a_head_that_stands_still_gives_way_to_a_lower_one_that_is_nearer_to_the_present() {
        for max_age in [MINUTE, None] {
            let lower = |seconds| block(100 + seconds / 2, seconds);
            assert_eq!(replaced_after(block(250, 1), max_age, lower), Some((8, 104)));
            // An endpoint without progress, or with a leap only, does not replace it.
            assert_eq!(replaced_after(block(250, 1), max_age, |_| block(100, 3)), None);
            assert_eq!(replaced_after(block(250, 1), max_age, |seconds| block(300_000_000 + seconds, 3)), None);
        }
        // Without a reference to the present, only the block's own time counts.
        for (max_age, after) in [(MINUTE, 8), (None, 42)] {
            let lower = |seconds| block(100 + seconds / 2, seconds);
            assert_eq!(replaced_after(block(250, 40), max_age, lower), Some((after, 100 + after / 2)));
        }
    }

    #[test]
    fn a_node_that_catches_up_with_a_chain_that_stands_still_takes_nothing_back() {
        for max_age in [MINUTE, None] {
            let behind = |seconds| block(10 + seconds, 0);
            assert_eq!(replaced_after(block(100, 0), max_age, behind), None);
            assert_eq!(replaced_after(block(30, 0), max_age, behind), Some((22, 32)), "once it is ahead");
        }
    }

    #[test]
    fn a_head_that_its_own_source_takes_back_does_not_stay() {
        let now = at(100, MINUTE);
        let mut cell = HeadState::new(block(100, 90), 0, now.monotonic);
        let old = block(20, 0);
        assert!(!cell.settles((0, &old), 0, &now), "it would be stale");
        assert_eq!(cell.choose(vec![(0, old)], false, &now), Some((0, old)));
        let (same, other) = (block(100, 90), block(98, 88));
        assert_eq!(cell.choose(vec![(0, old), (1, same)], false, &now), None);
        assert_eq!(cell.choose(vec![(0, old), (1, other)], false, &now), Some((1, other)));
    }
}
