//! Keeps a lease alive during work.

use std::{
    fmt,
    future::{Future, pending, poll_fn},
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use tokio::{
    sync::Notify,
    task::unconstrained,
    time::{Instant, sleep_until, timeout_at},
};

use crate::ledger::LedgerError;

/// How long one renewal may take, and how soon a failed one is retried. Both are less where leases are short.
const RENEW_TRY: Duration = Duration::from_secs(2);
const RENEW_AGAIN: Duration = Duration::from_secs(1);

/// How the work under a lease ended.
pub(crate) enum HoldOutcome<T> {
    Finished(T),
    LeaseLost,
    HeldTooLong,
    /// The client does not send the body that the handler waits for.
    BodyLate,
}

/// A renewal. It returns whether the lease is held.
pub(crate) type Renewal<'a> = Pin<Box<dyn Future<Output = Result<bool, LedgerError>> + Send + 'a>>;

/// Runs `work`, and renews the lease after each third of its length. Ends early when `late` is notified because the client sends too
/// slowly.
///
/// The first timer is created only if `work` has to wait. Renewal is exempt from the task's cooperative budget: otherwise, work that always
/// uses up the budget would never be ended, nor its lease renewed.
pub(crate) async fn keep<'a, T>(
    length: Duration,
    max_hold: Duration,
    late: Option<&Notify>,
    mut work: Pin<&mut impl Future<Output = T>>,
    renew: impl Fn() -> Renewal<'a>,
    name: impl fmt::Display,
) -> HoldOutcome<T> {
    let mut upkeep = pin!(unconstrained(upkeep(length, max_hold, renew, name)));
    let mut late = pin!(unconstrained(notified(late)));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(HoldOutcome::Finished(done)),
        Poll::Pending if late.as_mut().poll(cx).is_ready() => Poll::Ready(HoldOutcome::BodyLate),
        Poll::Pending => upkeep.as_mut().poll(cx),
    })
    .await
}

async fn upkeep<'a, T>(
    length: Duration,
    max_hold: Duration,
    renew: impl Fn() -> Renewal<'a>,
    name: impl fmt::Display,
) -> HoldOutcome<T> {
    let third = length / 3;
    let end = Instant::now() + max_hold;
    let mut next = Instant::now() + third;
    loop {
        sleep_until(next.min(end)).await;
        let now = Instant::now();
        if now >= end {
            return HoldOutcome::HeldTooLong;
        }
        match timeout_at(end.min(now + RENEW_TRY.min(third / 2)), renew()).await {
            Ok(Ok(true)) => next = now + third,
            Ok(Ok(false)) => return HoldOutcome::LeaseLost,
            Ok(Err(_)) | Err(_) => {
                tracing::warn!(%name, "lease not renewed; trying again");
                next = Instant::now() + RENEW_AGAIN.min(third / 4);
            }
        }
    }
}

async fn notified(late: Option<&Notify>) {
    match late {
        Some(late) => late.notified().await,
        None => pending().await,
    }
}
