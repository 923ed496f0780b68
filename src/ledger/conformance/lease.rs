//! Leases: who holds, for how long, and what is left to who held before.

use std::time::Duration;

use super::{
    super::{Commit, Handler, Ledger, Renewal, Reservation},
    Harness,
    stage::{Fault, LONG, Stage, must_be},
};
use crate::protocol::Transfer;

pub(super) async fn held_is_busy<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.claim(stage.intent(), &[stage.paid()]);
    let lease = stage.hold(&claim).await?;
    let soon = |after: Duration| !after.is_zero() && after <= LONG;
    must_be!(stage.twin.reserve(&claim).await?, Reservation::Busy { retry_after } if soon(retry_after), "the held pair");
    let other = stage.claim(stage.intent(), claim.transfers());
    must_be!(stage.reserve(&other).await?, Reservation::Busy { retry_after } if soon(retry_after), "the held payment");
    must_be!(stage.ledger.commit(&lease).await?, Commit::Done, "the holder's commit");
    // Of several that are held, the first to run out is told, whichever it is.
    let first = stage.paid();
    let both = [first.clone(), Transfer { position: 1, ..first }];
    for earlier in [&both[..1], &both[1..]] {
        let _ = stage.hold(&stage.brief(stage.intent(), earlier)).await?;
    }
    let short = stage.harness.lease();
    let waits = stage.claim(stage.intent(), &both);
    must_be!(stage.reserve(&waits).await?, Reservation::Busy { retry_after } if retry_after <= short, "two held");
    stage.run_out().await;
    for (long, brief) in [(0, 1), (1, 0)] {
        let held = stage.hold(&stage.claim(stage.intent(), &both[long..=long])).await?;
        let _ = stage.hold(&stage.brief(stage.intent(), &both[brief..=brief])).await?;
        must_be!(
            stage.reserve(&waits).await?,
            Reservation::Busy { retry_after } if retry_after <= short,
            "one held for long, one briefly"
        );
        stage.ledger.release(&held, Handler::Started).await?;
        stage.run_out().await;
    }
    Ok(())
}

pub(super) async fn intent_holds_one<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let intent = stage.intent();
    let lease = stage.hold(&stage.claim(intent, &[stage.paid()])).await?;
    let other = stage.claim(intent, &[stage.paid()]);
    must_be!(stage.reserve(&other).await?, Reservation::Busy { .. }, "a held intent with another payment");
    let _ = stage.hold(&stage.claim(stage.intent(), other.transfers())).await?;
    must_be!(stage.ledger.commit(&lease).await?, Commit::Done, "the holder's commit");
    Ok(())
}

pub(super) async fn released_is_lost<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.claim(stage.intent(), &[stage.paid()]);
    for handler in [Handler::Started, Handler::NotStarted] {
        let lease = stage.hold(&claim).await?;
        stage.ledger.release(&lease, handler).await?;
        must_be!(stage.ledger.renew(&lease).await?, Renewal::LeaseLost, "renewal of a released lease");
        must_be!(stage.ledger.commit(&lease).await?, Commit::LeaseLost, "commit of a released lease");
        must_be!(stage.ledger.is_consumed(claim.intent()).await?, false, "the intent of a released lease is consumed");
    }
    let _ = stage.sell(&claim).await?;
    Ok(())
}

pub(super) async fn run_out_is_taken_over<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.brief(stage.intent(), &[stage.paid()]);
    let old = stage.hold(&claim).await?;
    stage.run_out().await;
    let new = stage.sell(&stage.brief(stage.intent(), claim.transfers())).await?;
    must_be!(new.fence(), fence if fence != old.fence(), "the fence of who took over");
    must_be!(stage.ledger.is_consumed(claim.intent()).await?, false, "the old holder's intent is consumed");
    must_be!(stage.reserve(&claim).await?, Reservation::PaymentUsed, "the old holder's pair");
    Ok(())
}

pub(super) async fn taken_over_is_lost<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.brief(stage.intent(), &[stage.paid()]);
    let old = stage.hold(&claim).await?;
    stage.run_out().await;
    let new = stage.hold(&stage.claim(stage.intent(), claim.transfers())).await?;
    must_be!(stage.ledger.renew(&old).await?, Renewal::LeaseLost, "the old holder's renewal");
    must_be!(stage.ledger.commit(&old).await?, Commit::LeaseLost, "the old holder's commit");
    stage.ledger.release(&old, Handler::Started).await?;
    stage.ledger.release(&old, Handler::NotStarted).await?;
    must_be!(stage.reserve(&claim).await?, Reservation::Busy { .. }, "the pair after the old holder's release");
    must_be!(stage.ledger.renew(&new).await?, Renewal::Held, "the new holder's renewal");
    must_be!(stage.ledger.commit(&new).await?, Commit::Done, "the new holder's commit");
    must_be!(stage.ledger.commit(&old).await?, Commit::LeaseLost, "the old holder's commit after the sale");
    stage.ledger.release(&old, Handler::Started).await?;
    must_be!(stage.reserve(&claim).await?, Reservation::PaymentUsed, "the payment in the end");
    Ok(())
}

pub(super) async fn own_lease_is_taken_over<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let (intent, paid) = (stage.intent(), [stage.paid()]);
    let old = stage.hold(&stage.brief(intent, &paid)).await?;
    stage.run_out().await;
    let new = stage.hold(&stage.claim(intent, &paid)).await?;
    must_be!(new.fence(), fence if fence != old.fence(), "the fence of the second lease");
    must_be!(stage.ledger.commit(&old).await?, Commit::LeaseLost, "commit of the first lease");
    stage.ledger.release(&old, Handler::Started).await?;
    must_be!(stage.ledger.commit(&new).await?, Commit::Done, "commit of the second lease");
    must_be!(stage.ledger.commit(&old).await?, Commit::LeaseLost, "commit of the first lease after the sale");
    Ok(())
}

pub(super) async fn take_over_frees_the_rest<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let [a, b] = [stage.intent(), stage.intent()];
    let [paid_a, paid_b] = [[stage.paid()], [stage.paid()]];
    let old_a = stage.hold(&stage.brief(a, &paid_a)).await?;
    let old_b = stage.hold(&stage.brief(b, &paid_b)).await?;
    stage.run_out().await;
    // Intent `a` takes over what `b` held, and so gives up what it held itself.
    let crossed = stage.hold(&stage.claim(a, &paid_b)).await?;
    for lost in [&old_a, &old_b] {
        must_be!(stage.ledger.renew(lost).await?, Renewal::LeaseLost, "renewal of a lease that was taken over");
        must_be!(stage.ledger.commit(lost).await?, Commit::LeaseLost, "commit of a lease that was taken over");
    }
    let rest = stage.hold(&stage.claim(b, &paid_a)).await?;
    for held in [&crossed, &rest] {
        must_be!(stage.ledger.commit(held).await?, Commit::Done, "commit of who took over");
    }
    Ok(())
}

pub(super) async fn late_holder_commits<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.brief(stage.intent(), &[stage.paid()]);
    let lease = stage.hold(&claim).await?;
    stage.run_out().await;
    must_be!(stage.ledger.commit(&lease).await?, Commit::Done, "commit after the lease ran out");
    must_be!(stage.reserve(&claim).await?, Reservation::IntentConsumed, "the pair after that");
    Ok(())
}

pub(super) async fn late_holder_renews<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.brief(stage.intent(), &[stage.paid()]);
    let lease = stage.hold(&claim).await?;
    stage.run_out().await;
    must_be!(stage.ledger.renew(&lease).await?, Renewal::Held, "renewal after the lease ran out");
    must_be!(stage.reserve(&claim).await?, Reservation::Busy { .. }, "the pair after that");
    Ok(())
}

pub(super) async fn late_holder_releases<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.brief(stage.intent(), &[stage.paid()]);
    let lease = stage.hold(&claim).await?;
    stage.run_out().await;
    stage.ledger.release(&lease, Handler::Started).await?;
    must_be!(stage.ledger.renew(&lease).await?, Renewal::LeaseLost, "renewal after a late release");
    must_be!(stage.ledger.commit(&lease).await?, Commit::LeaseLost, "commit after a late release");
    let _ = stage.sell(&claim).await?;
    Ok(())
}

pub(super) async fn renewal_prolongs<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let claim = stage.brief(stage.intent(), &[stage.paid()]);
    let lease = stage.hold(&claim).await?;
    let part = claim.lease() * 3 / 5;
    for _ in 0..3 {
        stage.harness.pass(part).await;
        must_be!(stage.twin.renew(&lease).await?, Renewal::Held, "renewal in time");
    }
    stage.harness.pass(part).await;
    let other = stage.brief(stage.intent(), claim.transfers());
    let within = |after: Duration| after <= claim.lease() - part;
    must_be!(
        stage.reserve(&other).await?,
        Reservation::Busy { retry_after } if within(retry_after),
        "the payment three fifths of a lease after the renewal"
    );
    stage.harness.pass(part).await;
    let _ = stage.hold(&other).await?;
    must_be!(stage.ledger.renew(&lease).await?, Renewal::LeaseLost, "renewal after the take-over");
    Ok(())
}
