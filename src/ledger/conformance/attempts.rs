//! Attempts in vain, and the pauses after them.

use std::time::Duration;

use super::{
    super::{AttemptOutcome, Ledger, ReserveOutcome},
    fixture::{Fault, Fixture, must_be},
    harness::Harness,
};
use crate::protocol::Transfer;

const MINUTE: Duration = Duration::from_secs(60);

pub(super) async fn sixteen_then_a_pause<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    fixture.fail(&claim, 16).await?;
    let pause = |after: Duration| !after.is_zero() && after <= MINUTE;
    for ledger in [&fixture.ledger, &fixture.twin] {
        must_be!(
            ledger.reserve(&claim).await?,
            ReserveOutcome::TooManyAttempts { retry_after } if pause(retry_after),
            "the seventeenth attempt"
        );
    }
    Ok(())
}

pub(super) async fn not_started_is_none<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    for started in [0, 15] {
        fixture.fail(&claim, started).await?;
        for _ in 0..20 {
            let lease = fixture.hold(&claim).await?;
            fixture.ledger.release(&lease, AttemptOutcome::NotStarted).await?;
            // A second release gives back nothing more.
            fixture.ledger.release(&lease, AttemptOutcome::NotStarted).await?;
        }
    }
    fixture.fail(&claim, 1).await?;
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::TooManyAttempts { .. }, "the attempt after sixteen");
    Ok(())
}

pub(super) async fn strangers_do_not_count<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let paid = [fixture.paid()];
    let [stranger, payer] = [fixture.intent(), fixture.intent()];
    fixture.fail(&fixture.claim(stranger, &paid), 16).await?;
    let refused = fixture.claim(stranger, &paid);
    must_be!(fixture.reserve(&refused).await?, ReserveOutcome::TooManyAttempts { .. }, "the stranger's next attempt");
    fixture.fail(&fixture.claim(stranger, &[fixture.paid()]), 1).await?;
    fixture.fail(&fixture.claim(payer, &paid), 15).await?;
    let _ = fixture.sell(&fixture.claim(payer, &paid)).await?;
    Ok(())
}

pub(super) async fn running_out_counts<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let (intent, paid) = (fixture.intent(), [fixture.paid()]);
    fixture.fail(&fixture.claim(intent, &paid), 14).await?;
    // One is taken over by a stranger, one is not.
    let _ = fixture.hold(&fixture.brief(intent, &paid)).await?;
    fixture.run_out().await;
    fixture.fail(&fixture.claim(fixture.intent(), &paid), 1).await?;
    let _ = fixture.hold(&fixture.brief(intent, &paid)).await?;
    fixture.run_out().await;
    must_be!(
        fixture.reserve(&fixture.brief(intent, &paid)).await?,
        ReserveOutcome::TooManyAttempts { retry_after } if retry_after <= MINUTE,
        "the attempt after sixteen"
    );
    Ok(())
}

pub(super) async fn no_other_transfer_instead<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let intent = fixture.intent();
    let first = fixture.paid();
    let both = [first.clone(), Transfer { position: 1, ..first }];
    fixture.fail(&fixture.claim(intent, &both), 16).await?;
    let refused = fixture.claim(intent, &both);
    must_be!(
        fixture.reserve(&refused).await?,
        ReserveOutcome::TooManyAttempts { .. },
        "a pause, and a second transfer"
    );
    // Once the first one is another's, the second is the one it would get, and that pair is fresh.
    let _ = fixture.sell(&fixture.claim(fixture.intent(), &both[..1])).await?;
    let lease = fixture.hold(&refused).await?;
    must_be!(lease.payment().position(), Some(1), "the transfer that is left");
    Ok(())
}

pub(super) async fn pauses_double<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    fixture.fail(&claim, 15).await?;
    for minutes in [1, 2, 4, 8, 15, 15] {
        fixture.fail(&claim, 1).await?;
        let pause = MINUTE * minutes;
        let second = Duration::from_secs(1);
        let about = |after: Duration| after <= pause && after + second >= pause;
        must_be!(
            fixture.reserve(&claim).await?,
            ReserveOutcome::TooManyAttempts { retry_after } if about(retry_after),
            "the pause"
        );
        fixture.harness.pass(pause - second).await;
        must_be!(
            fixture.reserve(&claim).await?,
            ReserveOutcome::TooManyAttempts { retry_after } if retry_after <= second,
            "a second before the end of the pause"
        );
        // A handler that is not started leaves the pause as it was: over, and no longer.
        fixture.harness.pass(second).await;
        let lease = fixture.hold(&claim).await?;
        fixture.ledger.release(&lease, AttemptOutcome::NotStarted).await?;
    }
    let _ = fixture.sell(&claim).await?;
    Ok(())
}

pub(super) async fn pauses_begin_at_the_end<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
    fixture.fail(&claim, 15).await?;
    let _ = fixture.hold(&claim).await?;
    fixture.run_out().await;
    fixture.harness.pass(MINUTE / 2).await;
    // Asking neither ends the attempt nor begins the pause.
    for _ in 0..2 {
        must_be!(
            fixture.reserve(&claim).await?,
            ReserveOutcome::TooManyAttempts { retry_after } if retry_after <= MINUTE / 2,
            "half a minute after the lease ran out"
        );
    }
    fixture.harness.pass(MINUTE / 2).await;
    let slow = fixture.hold(&claim).await?;
    fixture.harness.pass(claim.lease() / 2).await;
    fixture.ledger.release(&slow, AttemptOutcome::Started).await?;
    fixture.harness.pass(MINUTE).await;
    must_be!(
        fixture.reserve(&claim).await?,
        ReserveOutcome::TooManyAttempts { retry_after } if retry_after <= MINUTE,
        "one of two minutes after a release"
    );
    fixture.harness.pass(MINUTE).await;
    let _ = fixture.hold(&claim).await?;
    fixture.run_out().await;
    // A stranger takes the payment over, late, and gives it back, later: neither moves the end of that attempt.
    let pause = 4 * MINUTE;
    fixture.harness.pass(MINUTE).await;
    let stranger = fixture.hold(&fixture.brief(fixture.intent(), claim.payments())).await?;
    fixture.harness.pass(stranger.length() / 2).await;
    fixture.ledger.release(&stranger, AttemptOutcome::Started).await?;
    let left = pause - MINUTE - stranger.length() / 2;
    must_be!(
        fixture.reserve(&claim).await?,
        ReserveOutcome::TooManyAttempts { retry_after } if retry_after <= left,
        "the rest of four minutes"
    );
    fixture.harness.pass(left).await;
    // Nor does a stranger's lease that ran out begin a new pause.
    let _ = fixture.hold(&fixture.brief(fixture.intent(), claim.payments())).await?;
    fixture.run_out().await;
    let _ = fixture.hold(&claim).await?;
    Ok(())
}
