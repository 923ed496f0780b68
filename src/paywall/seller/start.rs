//! `Start`: what must be proved before the first quote and the first sale.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::Mutex,
    time::{Instant, sleep},
};

use crate::{
    clock::Clock,
    ledger::ErasedLedger,
    paywall::{
        error::HealthError,
        seller::{
            time_limits::{ledger_in_time, verifier_in_time},
            view::View,
        },
    },
    protocol::{Asset, Network},
};

/// How long after a failed attempt its error is reported without another attempt.
const REST: Duration = Duration::from_secs(1);
/// How long the chain may take, at opening, to reach the ledger's mark, and how often that is checked.
const CATCHING_UP: (Duration, Duration) = (Duration::from_secs(30), Duration::from_millis(250));

/// Proves that a chain is the right one, and lets the ledger begin: once for all routes of a merchant.
pub(crate) struct Start {
    network: Network,
    accepted: Arc<[Asset]>,
    view: View,
    ledger: Arc<dyn ErasedLedger>,
    clock: Arc<dyn Clock>,
    done: AtomicBool,
    /// The last attempt, if it failed: when, in monotonic time, and why. The holder of the lock makes the next one.
    failed: Mutex<Option<(Duration, HealthError)>>,
}

impl Start {
    pub(crate) fn new(
        network: Network,
        accepted: Arc<[Asset]>,
        view: View,
        ledger: Arc<dyn ErasedLedger>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { network, accepted, view, ledger, clock, done: AtomicBool::new(false), failed: Mutex::default() }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Makes the start at opening, when no request waits yet. The mark of a new ledger is the present, so this gives the next blocks the
    /// time to come.
    pub(crate) async fn open(&self) -> Result<(), HealthError> {
        let (patience, again) = CATCHING_UP;
        let (deadline, mut told) = (Instant::now() + patience, false);
        loop {
            match self.attempt().await {
                Err(HealthError::HeadBehindMark { by }) if by <= patience && Instant::now() < deadline => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::info!(seconds = by.as_secs(), "waiting for the chain to reach the ledger's mark");
                    }
                    sleep(again).await;
                }
                outcome => {
                    self.done.store(outcome.is_ok(), Ordering::Release);
                    return outcome;
                }
            }
        }
    }

    /// Ensures the start. Of several concurrent callers, one makes the attempt, and all get its result.
    ///
    /// Dropping the future is harmless: every step can be repeated.
    pub(crate) async fn ensure(&self) -> Result<(), HealthError> {
        if self.is_done() {
            return Ok(());
        }
        let mut failed = self.failed.lock().await;
        if self.is_done() {
            return Ok(());
        }
        if let Some((at, error)) = &*failed
            && self.clock.monotonic() < *at + REST
        {
            return Err(error.clone());
        }
        let attempt = self.attempt().await;
        match &attempt {
            Ok(()) => self.done.store(true, Ordering::Release),
            Err(error) => {
                tracing::warn!(%error, "nothing can be sold yet");
                *failed = Some((self.clock.monotonic(), error.clone()));
            }
        }
        attempt
    }

    /// Ensures the start in the background, if it failed at opening: quotes that other networks can serve do not wait for it.
    pub(crate) fn ensure_later(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else { return };
        // The holder of the lock is making an attempt.
        let Ok(failed) = self.failed.try_lock() else { return };
        if self.is_done() || failed.as_ref().is_some_and(|(at, _)| self.clock.monotonic() < *at + REST) {
            return;
        }
        let start = Arc::clone(self);
        drop(runtime.spawn(async move { start.ensure().await }));
    }

    /// Checks the chain first, so that the ledger begins at a time that is trusted. Then checks the head again: a price quoted now is paid
    /// in one of the coming blocks, and that must be one that the ledger does not refuse.
    async fn attempt(&self) -> Result<(), HealthError> {
        let now = verifier_in_time(self.view.start(self.network, &self.accepted)).await?;
        let mark = ledger_in_time(self.ledger.begin(self.network, now)).await?;
        match mark.unix().saturating_sub(verifier_in_time(self.view.head()).await?.unix()) {
            0 => Ok(()),
            seconds => Err(HealthError::HeadBehindMark { by: Duration::from_secs(seconds) }),
        }
    }
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Start").field(&self.is_done()).finish()
    }
}
