//! How long the ledger, the verifier and the settler may take to answer one question.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Duration,
};

use tokio::{task::unconstrained, time::sleep};

use crate::{ledger::LedgerError, settle::SettleError, verify::VerifyError};

const LEDGER: Duration = Duration::from_secs(5);
/// For any verifier. A verifier with limits of its own does not reach this one.
const VERIFIER: Duration = Duration::from_secs(10);
/// For questions to a settler before anything is settled. A settler's own limit is a setting, and may be higher than the verifier's.
pub(crate) const SETTLER: Duration = Duration::from_secs(65);

/// Awaits the ledger's answer. A ledger that takes too long counts as failed.
pub(crate) async fn ledger_in_time<T>(answer: impl Future<Output = Result<T, LedgerError>>) -> Result<T, LedgerError> {
    let answer = within(|| LEDGER, answer).await.unwrap_or(Err(LedgerError::unavailable()));
    answer.inspect_err(|error| tracing::warn!(%error, "the ledger did not answer"))
}

/// Awaits the verifier's answer.
pub(crate) async fn verifier_in_time<T>(
    answer: impl Future<Output = Result<T, VerifyError>>,
) -> Result<T, VerifyError> {
    within(|| VERIFIER, answer).await.unwrap_or(Err(VerifyError::unavailable()))
}

/// Awaits the settler's answer to a question before the settlement.
pub(crate) async fn settler_in_time<T>(answer: impl Future<Output = Result<T, SettleError>>) -> Result<T, SettleError> {
    within(|| SETTLER, answer).await.unwrap_or(Err(SettleError::unavailable()))
}

/// Awaits an answer for this long; `None` if it does not come in time. If it is ready at once, no timer is created.
///
/// The timer is exempt from the task's cooperative budget: an answer that always uses it up would otherwise never be late.
pub(crate) async fn within<T>(limit: impl FnOnce() -> Duration, answer: impl Future<Output = T>) -> Option<T> {
    let mut answer = pin!(answer);
    let (mut limit, mut timer) = (Some(limit), pin!(None));
    poll_fn(|cx| {
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            return Poll::Ready(Some(answer));
        }
        if let Some(limit) = limit.take() {
            timer.set(Some(unconstrained(sleep(limit()))));
        }
        timer.as_mut().as_pin_mut().map_or(Poll::Pending, |timer| timer.poll(cx).map(|()| None))
    })
    .await
}
