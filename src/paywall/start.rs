//! `Start`: what must be proved before the first quote and the first sale.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use tokio::{
    sync::Mutex,
    time::{Instant, sleep, timeout},
};

use super::{
    respond::{ASK_AGAIN, Problem},
    shared::Shared,
};
use crate::{HealthError, ledger::LedgerError, protocol::ProblemCode, verify::VerifyError};

/// How long the chain may take to be proved.
const VERIFIER_WAIT: Duration = Duration::from_secs(10);
/// How long the ledger may take to begin.
const LEDGER_WAIT: Duration = Duration::from_secs(5);
/// How long a failure stands before another attempt is made.
const REST: Duration = Duration::from_secs(1);
/// How long the chain may take, at opening, to reach the ledger's mark, and how often it is looked at.
const CATCHING_UP: (Duration, Duration) = (Duration::from_secs(30), Duration::from_millis(250));

/// Whether the chain proved to be the right one and the ledger has begun: once for all routes of a merchant.
#[derive(Default)]
pub(crate) struct Start {
    done: AtomicBool,
    /// The last attempt, where it failed: when, in monotonic time, and why. Who holds it makes the next one.
    failed: Mutex<Option<(Duration, HealthError)>>,
}

impl Start {
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Makes sure of it at opening, when nobody waits yet: a new ledger's mark is the present, and the next blocks are given
    /// the time to come.
    pub(crate) async fn open(&self, shared: &Shared) -> Result<(), HealthError> {
        let (patience, again) = CATCHING_UP;
        let (deadline, mut told) = (Instant::now() + patience, false);
        loop {
            match attempt(shared).await {
                Err(HealthError::HeadBehindMark { seconds })
                    if Duration::from_secs(seconds) <= patience && Instant::now() < deadline =>
                {
                    if !std::mem::replace(&mut told, true) {
                        tracing::info!(seconds, "waiting for the chain to reach the ledger's mark");
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

    /// Makes sure of it. Of many who ask at once one makes the attempt, and all are told what came of it.
    ///
    /// Dropping the future is harmless: every step can be repeated.
    pub(crate) async fn ensure(&self, shared: &Shared) -> Result<(), HealthError> {
        if self.is_done() {
            return Ok(());
        }
        let mut failed = self.failed.lock().await;
        if self.is_done() {
            return Ok(());
        }
        if let Some((at, error)) = &*failed
            && shared.clock.monotonic() < *at + REST
        {
            return Err(error.clone());
        }
        let attempt = attempt(shared).await;
        match &attempt {
            Ok(()) => self.done.store(true, Ordering::Release),
            Err(error) => {
                tracing::warn!(%error, "nothing can be sold yet");
                *failed = Some((shared.clock.monotonic(), error.clone()));
            }
        }
        attempt
    }
}

/// The chain first: a ledger begins at a time that is believed. Then the chain once more: who is quoted a price now pays in
/// one of the blocks to come, and that must be one that the ledger does not refuse.
async fn attempt(shared: &Shared) -> Result<(), HealthError> {
    let verifier = &shared.verifier;
    let now = asked(async {
        verifier.check(shared.network, &shared.accepted).await?;
        verifier.horizon().await
    });
    let now = now.await?;
    let mark = timeout(LEDGER_WAIT, shared.ledger.begin(now)).await.unwrap_or(Err(LedgerError::Unavailable))?;
    match mark.unix().saturating_sub(asked(verifier.head()).await?.unix()) {
        0 => Ok(()),
        seconds => Err(HealthError::HeadBehindMark { seconds }),
    }
}

async fn asked<T>(question: impl Future<Output = Result<T, VerifyError>>) -> Result<T, VerifyError> {
    timeout(VERIFIER_WAIT, question).await.unwrap_or(Err(VerifyError::unavailable()))
}

/// Whether it may come right without anybody changing the configuration.
pub(crate) fn may_pass(error: &HealthError) -> bool {
    match error {
        HealthError::Verifier(error) => error.is_transient(),
        HealthError::Ledger(error) => *error == LedgerError::Unavailable,
        HealthError::HeadBehindMark { .. } => true,
    }
}

impl Shared {
    /// Makes sure, before anybody is asked to pay or sold to, that the merchant has started.
    pub(crate) async fn started(&self) -> Result<(), Problem> {
        self.start.ensure(self).await.map_err(|error| {
            let code = match error {
                HealthError::Verifier(_) | HealthError::HeadBehindMark { .. } => ProblemCode::VerificationUnavailable,
                HealthError::Ledger(_) => ProblemCode::LedgerUnavailable,
            };
            Problem::after(code, ASK_AGAIN)
        })
    }
}

impl fmt::Debug for Start {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Start").field(&self.is_done()).finish()
    }
}
