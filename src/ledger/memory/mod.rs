//! `MemoryLedger`: a ledger for one process, behind one lock.

mod account_ledger;
mod accounts;
mod answer_store;
mod purchases;
mod settlements;
mod state;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

pub use state::LedgerCounts;
use state::State;

use super::{
    AccountLedger, Announcements, BookedSale, Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, LedgerSize,
    Maintenance, RenewOutcome, ReserveOutcome, Sale, Settling,
};
use crate::{
    clock::{Clock, SystemClock},
    protocol::{ChainTime, IntentKey, Network, PaymentId},
};

/// A ledger in memory: for tests, for development, and for services where a restart may refuse every earlier payment.
///
/// Clones share one ledger: give each merchant of a process a clone. Two processes cannot share it, and must not serve one recipient.
///
/// A sale is remembered until its payment is too old to be shown again. It takes 300 bytes or less, and is never
/// dropped for lack of space. If a reorganisation drops a transfer, it is recognised when it is mined again within a
/// day, or later if it was shown meanwhile. After that it buys one more answer; the verifier's finality decides how
/// likely that is. A lease that ran out is forgotten after an hour.
///
/// ```
/// use tower_x402::{ledger::{Ledger as _, MemoryLedger}, protocol::{ChainTime, Network}};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let ledger = MemoryLedger::new();
/// ledger.begin(Network::BASE, ChainTime::from_unix(1_795_280_400)).await?; // payments up to here are refused
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
    /// Creates an empty ledger, which grants nothing until it has [begun](Ledger::begin).
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemClock)
    }

    /// Creates an empty ledger that measures leases by this clock's [monotonic](Clock::monotonic) time.
    #[must_use]
    pub fn with_clock(clock: impl Clock) -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::default(), clock: Box::new(clock) }) }
    }

    /// Sets the limit for all [answers](super::KeptAnswer) in bytes; 64 MiB by default. If there is not enough space,
    /// the oldest are dropped first.
    ///
    /// # Errors
    /// [`Unavailable`](super::LedgerErrorKind::Unavailable) if a panic left its contents in doubt.
    pub fn answers_up_to(self, bytes: usize) -> Result<Self, LedgerError> {
        self.state()?.answers = answer_store::AnswerStore::with_capacity(bytes);
        Ok(self)
    }

    /// Returns counts since the ledger was made, and the numbers of its present records.
    ///
    /// # Errors
    /// [`Unavailable`](super::LedgerErrorKind::Unavailable) if a panic left its contents in doubt.
    pub fn counts(&self) -> Result<LedgerCounts, LedgerError> {
        Ok(self.state()?.counts())
    }

    /// Fails for good once a panic poisoned the lock, since the contents may include half a sale.
    fn state(&self) -> Result<MutexGuard<'_, State>, LedgerError> {
        self.shared.state.lock().map_err(|_| LedgerError::unavailable())
    }

    /// Reads the clock before the lock is taken: a clock is foreign code, and may panic.
    fn now(&self) -> Duration {
        self.shared.clock.monotonic()
    }
}

impl Default for MemoryLedger {
    fn default() -> Self {
        Self::new()
    }
}

/// Shows the numbers of records, not their contents.
impl fmt::Debug for MemoryLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryLedger").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Ledger for MemoryLedger {
    async fn begin(&self, network: Network, now: ChainTime) -> Result<ChainTime, LedgerError> {
        Ok(self.state()?.begin(network, now))
    }

    async fn reserve(&self, claim: &Claim) -> Result<ReserveOutcome, LedgerError> {
        let now = self.now();
        self.state()?.reserve(claim, now).ok_or(LedgerError::unavailable())
    }

    async fn renew(&self, lease: &Lease) -> Result<RenewOutcome, LedgerError> {
        let now = self.now();
        Ok(self.state()?.renew(lease, now))
    }

    async fn settling(&self, lease: &Lease, settling: &Settling) -> Result<RenewOutcome, LedgerError> {
        let now = self.now();
        Ok(self.state()?.settling(lease, *settling, now))
    }

    async fn not_settled(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.state()?.not_settled(lease);
        Ok(())
    }

    async fn commit(&self, lease: &Lease, answer: Option<&KeptAnswer>) -> Result<CommitOutcome, LedgerError> {
        let now = self.now();
        let sold_at = UNIX_EPOCH + Duration::from_secs(self.shared.clock.unix());
        Ok(self.state()?.commit(lease, answer, now, sold_at))
    }

    async fn release(&self, lease: &Lease) -> Result<(), LedgerError> {
        self.state()?.release(lease);
        Ok(())
    }

    async fn consumed(&self, intent: IntentKey) -> Result<Option<Sale>, LedgerError> {
        let now = self.now();
        Ok(self.state()?.consumed(intent, now))
    }

    async fn begun(&self, intent: IntentKey, payment: PaymentId) -> Result<Option<Settling>, LedgerError> {
        Ok(self.state()?.begun(intent, payment))
    }

    async fn begun_among(
        &self,
        intent: IntentKey,
        payments: &[PaymentId],
    ) -> Result<Option<(PaymentId, Settling)>, LedgerError> {
        Ok(self.state()?.begun_among(intent, payments))
    }

    async fn health(&self) -> Result<(), LedgerError> {
        self.state().map(drop)
    }

    async fn sweep(&self, network: Network, head: ChainTime) -> Result<u64, LedgerError> {
        let now = self.now();
        Ok(u64::try_from(self.state()?.sweep(network, head, now)).unwrap_or(u64::MAX))
    }

    fn announcements(&self) -> Option<&impl Announcements> {
        Some(self)
    }

    fn accounts(&self) -> Option<&impl AccountLedger> {
        Some(self)
    }

    fn answer_space(&self) -> Option<usize> {
        self.state().ok().map(|state| state.answers.capacity())
    }
}

impl Announcements for MemoryLedger {
    async fn unannounced(&self, after: Option<&BookedSale>, most: usize) -> Result<Vec<BookedSale>, LedgerError> {
        fn place(sale: &BookedSale) -> (SystemTime, String) {
            (sale.sold_at, sale.payment.to_string())
        }
        let after = after.map(place);
        let mut sales: Vec<_> = self.state()?.unannounced.values().cloned().collect();
        sales.retain(|sale| after.as_ref().is_none_or(|after| place(sale) > *after));
        sales.sort_by_cached_key(place);
        sales.truncate(most);
        Ok(sales)
    }

    async fn announced(&self, payment: PaymentId) -> Result<(), LedgerError> {
        self.state()?.unannounced.remove(&payment.compact());
        Ok(())
    }
}

impl Maintenance for MemoryLedger {
    async fn size(&self) -> Result<LedgerSize, LedgerError> {
        let LedgerCounts { held, remembered, .. } = self.state()?.counts();
        let [held, remembered] = [held, remembered].map(|number| u64::try_from(number).unwrap_or(u64::MAX));
        Ok(LedgerSize { held, remembered })
    }

    async fn low_water_mark(&self, network: Network) -> Result<Option<ChainTime>, LedgerError> {
        Ok(self.state()?.move_mark(network, |mark| mark))
    }

    async fn raise_mark_to(&self, network: Network, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        Ok(self.state()?.move_mark(network, |mark| mark.max(time)))
    }

    async fn lower_mark_to(&self, network: Network, time: ChainTime) -> Result<Option<ChainTime>, LedgerError> {
        Ok(self.state()?.move_mark(network, |mark| mark.min(time)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_under_the_lock_shuts_the_ledger() {
        let ledger = MemoryLedger::new();
        ledger.begin(Network::BASE, ChainTime::from_unix(1)).await.unwrap();
        let held = ledger.clone();
        let _ = std::thread::spawn(move || {
            let _state = held.state();
            panic!("with the lock held");
        })
        .join();
        let shut = Err(LedgerError::unavailable());
        assert_eq!(ledger.health().await, shut);
        assert_eq!(ledger.begin(Network::BASE, ChainTime::from_unix(2)).await.map(drop), shut);
        assert_eq!(ledger.consumed(IntentKey::new([0; 16])).await, Err(LedgerError::unavailable()));
        assert_eq!(ledger.counts().map(drop), shut);
    }
}
