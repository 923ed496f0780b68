//! `Patience`: for how long a block is waited for that is as deep as it is to be, at the chain's own pace.

use std::{future::Future, pin::pin, time::Duration};

use futures_util::future::{Either, select};
use tokio::time::{Instant, sleep};

use super::core::{BLOCK_TIME, Core};

/// The pace of the slowest chains. None is waited for longer.
const SLOWEST_BLOCK: Duration = Duration::from_secs(15);

/// A wait, and where the chain was at its beginning.
pub(super) struct Patience {
    since: Instant,
    /// `None` where no node said it.
    height: Option<u64>,
}

impl Patience {
    pub(super) async fn begin(core: &Core) -> Self {
        Self { since: Instant::now(), height: height(core).await }
    }

    /// Whether the chain had the time to bury a block as deep as it is to be. A node that does not follow the chain keeps nobody for longer than a fast
    /// chain takes.
    pub(super) async fn is_over(&self, core: &Core) -> bool {
        let waited = self.since.elapsed();
        if waited < core.certain_within() {
            return false;
        }
        let longest = core.within_blocks_of(SLOWEST_BLOCK);
        let passed = height(core).await.zip(self.height).map_or(0, |(now, then)| now.saturating_sub(then));
        waited >= longest || is_known(passed, core.blocks_to_certainty().into())
    }

    /// Awaits this; `None` where the wait is over before.
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

/// Whether so many blocks are enough, or show that the chain is not followed.
const fn is_known(passed: u64, enough: u64) -> bool {
    passed == 0 || passed >= enough
}

async fn height(core: &Core) -> Option<u64> {
    core.account.nodes.first(|node| node.head()).await.ok().map(|head| head.number)
}
