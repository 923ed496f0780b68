//! Attempts in vain, and the pauses after them.

use std::time::Duration;

use super::{
    super::{Handler, Ledger, Reservation},
    Harness,
    stage::{Fault, Stage, must_be},
};
use crate::protocol::Transfer;

const MINUTE: Duration = Duration::from_secs(60);

pub(super) async fn sixteen_then_a_pause<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.claim(stage.intent(), &[stage.paid()]);
    stage.fail(&claim, 16).await?;
    let pause = |after: Duration| !after.is_zero() && after <= MINUTE;
    for ledger in [&stage.ledger, &stage.twin] {
        must_be!(
            ledger.reserve(&claim).await?,
            Reservation::TooManyAttempts { retry_after } if pause(retry_after),
            "the seventeenth attempt"
        );
    }
    Ok(())
}

pub(super) async fn not_started_is_none<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.claim(stage.intent(), &[stage.paid()]);
    for started in [0, 15] {
        stage.fail(&claim, started).await?;
        for _ in 0..20 {
            let lease = stage.hold(&claim).await?;
            stage.ledger.release(&lease, Handler::NotStarted).await?;
            // A second release gives back nothing more.
            stage.ledger.release(&lease, Handler::NotStarted).await?;
        }
    }
    stage.fail(&claim, 1).await?;
    must_be!(stage.reserve(&claim).await?, Reservation::TooManyAttempts { .. }, "the attempt after sixteen");
    Ok(())
}

pub(super) async fn strangers_do_not_count<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let paid = [stage.paid()];
    let [stranger, payer] = [stage.intent(), stage.intent()];
    stage.fail(&stage.claim(stranger, &paid), 16).await?;
    let refused = stage.claim(stranger, &paid);
    must_be!(stage.reserve(&refused).await?, Reservation::TooManyAttempts { .. }, "the stranger's next attempt");
    stage.fail(&stage.claim(stranger, &[stage.paid()]), 1).await?;
    stage.fail(&stage.claim(payer, &paid), 15).await?;
    let _ = stage.sell(&stage.claim(payer, &paid)).await?;
    Ok(())
}

pub(super) async fn running_out_counts<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let (intent, paid) = (stage.intent(), [stage.paid()]);
    stage.fail(&stage.claim(intent, &paid), 14).await?;
    // One is taken over by a stranger, one by nobody.
    let _ = stage.hold(&stage.brief(intent, &paid)).await?;
    stage.run_out().await;
    stage.fail(&stage.claim(stage.intent(), &paid), 1).await?;
    let _ = stage.hold(&stage.brief(intent, &paid)).await?;
    stage.run_out().await;
    must_be!(
        stage.reserve(&stage.brief(intent, &paid)).await?,
        Reservation::TooManyAttempts { retry_after } if retry_after <= MINUTE,
        "the attempt after sixteen"
    );
    Ok(())
}

pub(super) async fn no_other_transfer_instead<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let intent = stage.intent();
    let first = stage.paid();
    let both = [first.clone(), Transfer { position: 1, ..first }];
    stage.fail(&stage.claim(intent, &both), 16).await?;
    let refused = stage.claim(intent, &both);
    must_be!(stage.reserve(&refused).await?, Reservation::TooManyAttempts { .. }, "a pause, and a second transfer");
    // Once the first one is another's, the second is the one it would get, and that pair is fresh.
    let _ = stage.sell(&stage.claim(stage.intent(), &both[..1])).await?;
    let lease = stage.hold(&refused).await?;
    must_be!(lease.transfer().position, 1, "the transfer that is left");
    Ok(())
}

pub(super) async fn pauses_double<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.claim(stage.intent(), &[stage.paid()]);
    stage.fail(&claim, 15).await?;
    for minutes in [1, 2, 4, 8, 15, 15] {
        stage.fail(&claim, 1).await?;
        let pause = MINUTE * minutes;
        let second = Duration::from_secs(1);
        let about = |after: Duration| after <= pause && after + second >= pause;
        must_be!(
            stage.reserve(&claim).await?,
            Reservation::TooManyAttempts { retry_after } if about(retry_after),
            "the pause"
        );
        stage.harness.pass(pause - second).await;
        must_be!(
            stage.reserve(&claim).await?,
            Reservation::TooManyAttempts { retry_after } if retry_after <= second,
            "a second before the end of the pause"
        );
        // A handler that is not started leaves the pause as it was: over, and no longer.
        stage.harness.pass(second).await;
        let lease = stage.hold(&claim).await?;
        stage.ledger.release(&lease, Handler::NotStarted).await?;
    }
    let _ = stage.sell(&claim).await?;
    Ok(())
}

pub(super) async fn pauses_begin_at_the_end<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.brief(stage.intent(), &[stage.paid()]);
    stage.fail(&claim, 15).await?;
    let _ = stage.hold(&claim).await?;
    stage.run_out().await;
    stage.harness.pass(MINUTE / 2).await;
    // Asking neither ends the attempt nor begins the pause.
    for _ in 0..2 {
        must_be!(
            stage.reserve(&claim).await?,
            Reservation::TooManyAttempts { retry_after } if retry_after <= MINUTE / 2,
            "half a minute after the lease ran out"
        );
    }
    stage.harness.pass(MINUTE / 2).await;
    let slow = stage.hold(&claim).await?;
    stage.harness.pass(claim.lease() / 2).await;
    stage.ledger.release(&slow, Handler::Started).await?;
    stage.harness.pass(MINUTE).await;
    must_be!(
        stage.reserve(&claim).await?,
        Reservation::TooManyAttempts { retry_after } if retry_after <= MINUTE,
        "one of two minutes after a release"
    );
    stage.harness.pass(MINUTE).await;
    let _ = stage.hold(&claim).await?;
    stage.run_out().await;
    // A stranger takes the payment over, late, and gives it back, later: neither moves the end of that attempt.
    let pause = 4 * MINUTE;
    stage.harness.pass(MINUTE).await;
    let stranger = stage.hold(&stage.brief(stage.intent(), claim.transfers())).await?;
    stage.harness.pass(stranger.length() / 2).await;
    stage.ledger.release(&stranger, Handler::Started).await?;
    let left = pause - MINUTE - stranger.length() / 2;
    must_be!(
        stage.reserve(&claim).await?,
        Reservation::TooManyAttempts { retry_after } if retry_after <= left,
        "the rest of four minutes"
    );
    stage.harness.pass(left).await;
    // Nor does a stranger's lease that ran out begin a new pause.
    let _ = stage.hold(&stage.brief(stage.intent(), claim.transfers())).await?;
    stage.run_out().await;
    let _ = stage.hold(&claim).await?;
    Ok(())
}
