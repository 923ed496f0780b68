//! Questions whose callers leave: each is dropped at every await point.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use super::{
    super::{CommitOutcome, Ledger, RenewOutcome, ReserveOutcome},
    fixture::{BEGUN, Fault, Fixture, must_be},
    harness::Harness,
};

/// More polls than any question needs.
pub(super) const POLLS: usize = 64;

/// Polls a question this many times, each time after it was woken, and drops it. Returns `None` if it was not answered
/// by then.
pub(super) async fn broken_off<T>(question: impl Future<Output = T>, polls: usize) -> Option<T> {
    let (mut question, mut left) = (pin!(question), polls);
    poll_fn(|cx| match question.as_mut().poll(cx) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => {
            left = left.saturating_sub(1);
            if left == 0 { Poll::Ready(None) } else { Poll::Pending }
        }
    })
    .await
}

pub(super) async fn a_dropped_claim_runs_out<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let mut dropped = Vec::new();
    for polls in 1..=POLLS {
        let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
        let answer = broken_off(fixture.ledger.reserve(&claim), polls).await;
        dropped.push(claim);
        if let Some(answer) = answer {
            must_be!(answer?, ReserveOutcome::Granted(_), "a claim on what is free");
            break;
        }
    }
    fixture.run_out().await;
    for claim in dropped {
        must_be!(
            fixture.ledger.consumed(claim.intent()).await?.is_some(),
            false,
            "the intent of a dropped claim is consumed"
        );
        let _ = fixture.sell(&fixture.claim(fixture.intent(), claim.payments())).await?;
        let _ = fixture.sell(&fixture.claim(claim.intent(), &[fixture.paid()])).await?;
    }
    Ok(())
}

pub(super) async fn a_dropped_commit_is_repeated<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for polls in 1..=POLLS {
        let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
        let lease = fixture.hold(&claim).await?;
        let answer = broken_off(fixture.ledger.commit(&lease, None), polls).await;
        must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "a commit after a dropped one");
        must_be!(fixture.reserve(&claim).await?, ReserveOutcome::IntentConsumed, "the pair after that");
        if answer.is_some() {
            break;
        }
    }
    Ok(())
}

pub(super) async fn a_dropped_record_is_repeated<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for polls in 1..=POLLS {
        let lease = fixture.hold(&fixture.claim(fixture.intent(), &[fixture.paid()])).await?;
        let answer = broken_off(fixture.ledger.settling(&lease, &BEGUN), polls).await;
        must_be!(fixture.ledger.settling(&lease, &BEGUN).await?, RenewOutcome::Held, "a record after a dropped one");
        let removed = broken_off(fixture.ledger.not_settled(&lease), polls).await;
        let renewed = broken_off(fixture.ledger.renew(&lease), polls).await;
        must_be!(fixture.ledger.renew(&lease).await?, RenewOutcome::Held, "a renewal after a dropped one");
        must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the holder's commit");
        if answer.is_some() && removed.is_some() && renewed.is_some() {
            break;
        }
    }
    Ok(())
}

pub(super) async fn a_dropped_release_is_repeated<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for polls in 1..=POLLS {
        let paid = [fixture.paid()];
        let lease = fixture.hold(&fixture.claim(fixture.intent(), &paid)).await?;
        let answer = broken_off(fixture.ledger.release(&lease), polls).await;
        fixture.ledger.release(&lease).await?;
        let other = fixture.hold(&fixture.claim(fixture.intent(), &paid)).await?;
        must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::LeaseLost, "commit of the released lease");
        must_be!(fixture.ledger.commit(&other, None).await?, CommitOutcome::Done, "commit of the next holder");
        if answer.is_some() {
            break;
        }
    }
    Ok(())
}
