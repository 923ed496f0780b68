//! `MemoryLedger`: one process, one lock; a restart refuses what was paid before it.

mod attempt_log;
mod state;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

pub use state::Counts;
use state::State;

use super::{AttemptOutcome, Claim, CommitOutcome, Lease, Ledger, LedgerError, RenewOutcome, ReserveOutcome};
use crate::{
    clock::{Clock, SystemClock},
    protocol::{ChainTime, IntentKey},
};

/// A ledger in memory: for tests, for development, and for those who accept that a restart refuses every payment
/// made before it.
///
/// Clones are handles on one ledger: give each merchant of a process a clone. Two processes cannot share it, and one
/// recipient must not be served by two of them.
///
/// What was sold is remembered until the payment's age rules out its return, at 300 bytes a sale or less, and is never
/// dropped for want of space. A transfer that a reorganisation drops is known again if it is mined again within a day, and
/// later if somebody showed it meanwhile; what comes later still would buy once more than it paid, as much as one that never
/// comes back does: how likely that is, the verifier's finality decides. A lease that nobody asked about is forgotten an hour after it ran out, the count
/// of attempts an hour after the last one, or earlier where over 65,536 pairs were tried within that hour.
///
/// ```
/// use tower_x402::{ledger::{Ledger as _, MemoryLedger}, protocol::ChainTime};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let ledger = MemoryLedger::new();
/// ledger.begin(ChainTime::from_unix(1_795_280_400)).await?;      // payments up to here are refused
/// assert_eq!(ledger.counts()?.consumed, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct MemoryLedger {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    clock: Box<dyn Clock>,
}

impl MemoryLedger {
    /// A ledger that remembers nothing yet, and refuses everything until it is [begun](Ledger::begin).
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemClock)
    }

    /// The same, with leases and cool-downs measured by this clock's [monotonic](Clock::monotonic) time.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::default(), clock: Box::new(clock) }) }
    }

    /// What happened since the ledger was made, and what it holds now.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when a panic left its contents in doubt.
    pub fn counts(&self) -> Result<Counts, LedgerError> {
        Ok(self.state()?.counts())
    }

    /// Forgets every sale that may be forgotten when the head is at `head`; tells how many. Selling does the same, a few at a
    /// time.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`] when a panic left its contents in doubt.
    pub fn sweep(&self, head: ChainTime) -> Result<u64, LedgerError> {
        let mut state = self.state()?;
        let before = state.counts().remembered;
        while state.forget_sales(head) > 0 {}
        Ok(u64::try_from(before - state.counts().remembered).unwrap_or(u64::MAX))
    }

    /// A lock that a panic poisoned stays shut: what it guards may be half of a sale.
    fn state(&self) -> Result<MutexGuard<'_, State>, LedgerError> {
        self.shared.state.lock().map_err(|_| LedgerError::Unavailable)
    }

    /// Read before the lock is taken: a clock is foreign code.
    fn now(&self) -> Duration {
        self.shared.clock.monotonic()
    }
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::new()
    }
}

/// Says how much it holds, not what.
impl fmt::Debug for MemoryLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLedger").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Ledger for MemoryLedger {
    async fn begin(&self, now: ChainTime) -> Result<ChainTime, LedgerError> {
        Ok(self.state()?.begin(now))
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        let now = self.now();
        self.state()?.reserve(claim, now).ok_or(LedgerError::Unavailable)
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        let now = self.now();
        Ok(self.state()?.renew(lease, now))
    }

    async fn commit(&self, lease: &Lease) -> Result<CommitOutcome, LedgerError> {
        Ok(self.state()?.commit(lease))
    }

    async fn release(&self, lease: &Lease, handler: AttemptOutcome) -> Result<(), LedgerError> {
        let now = self.now();
        self.state()?.release(lease, handler, now);
        Ok(())
    }

    async fn is_consumed(&self, intent: IntentKey) -> Result<bool, LedgerError> {
        Ok(self.state()?.is_consumed(intent))
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.state().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_under_the_lock_shuts_the_ledger() {
        let ledger = MemoryLedger::new();
        ledger.begin(ChainTime::from_unix(1)).await.unwrap();
        let held = ledger.clone();
        let _ = std::thread::spawn(move || {
            let _state = held.state();
            panic!("with the lock held");
        })
        .join();
        let shut = Err(LedgerError::Unavailable);
        assert_eq!(ledger.health().await, shut);
        assert_eq!(ledger.begin(ChainTime::from_unix(2)).await.map(drop), shut);
        assert_eq!(ledger.is_consumed(IntentKey::new([0; 16])).await, Err(LedgerError::Unavailable));
        assert_eq!(ledger.counts().map(drop), shut);
    }
}
