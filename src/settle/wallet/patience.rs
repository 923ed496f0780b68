//! `Patience`: how long to wait for a block to reach the required depth, at the chain's own pace.

use std::{future::Future, pin::pin, time::Duration};

use futures_util::future::{Either, select};
use tokio::time::{Instant, sleep};

use super::core::{BLOCK_TIME, Core};

/// The block time of the slowest chains: no wait is longer than theirs.
const SLOWEST_BLOCK: Duration = Duration::from_secs(15);

/// A wait, with the chain's height at its beginning.
pub(super) struct Patience {
    since: Instant,
    /// `None` if no node reported it.
    height: Option<u64>,
}

impl Patience {
    pub(super) async fn begin(core: &Core) -> Self {
        Self { since: Instant::now(), height: height(core).await }
    }

    /// Returns whether the chain had time for a block to reach the required depth. A node that does not follow the
    /// chain delays callers no longer than a fast chain would.
    pub(super) async fn is_over(&self, core: &Core) -> bool {
        let waited = self.since.elapsed();
        if waited < core.certain_within() {
            return false;
        }
        let longest = core.within_blocks_of(SLOWEST_BLOCK);
        let passed = height(core).await.zip(self.height).map_or(0, |(now, then)| now.saturating_sub(then));
        waited >= longest || is_known(passed, core.blocks_to_certainty().into())
    }

    /// Awaits a future; returns `None` if the wait ends first.
    pub(super) async fn within<T>(&self, core: &Core, awaited: impl Future<Output = T>) -> Option<T> {
        let over = async {
            sleep(core.certain_within().saturating_sub(self.since.elapsed())).await;
            while !self.is_over(core).await {
                sleep(BLOCK_TIME).await;
            }
        };
        match select(pin!(awaited), pin!(over)).await {
            Either::Left((done, _)) => Some(done),
            Either::Right(_) => None,
        }
    }
}

/// Returns whether enough blocks have passed, or none, which shows that the node does not follow the chain.
const fn is_known(passed: u64, enough: u64) -> bool {
    passed == 0 || passed >= enough
}

async fn height(core: &Core) -> Option<u64> {
    core.account.nodes.first(|node| node.head()).await.ok().map(|head| head.number)
}
