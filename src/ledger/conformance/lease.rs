//! Leases: their holder, their length, and the rights of a former holder.

use std::time::Duration;

use super::{
    super::{CommitOutcome, Ledger, RenewOutcome, ReserveOutcome},
    fixture::{Fault, Fixture, LONG, must_be},
    harness::Harness,
};
use crate::protocol::Transfer;

pub(super) async fn held_is_busy<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    let lease = fixture.hold(&claim).await?;
    let soon = |after: Duration| !after.is_zero() && after <= LONG;
    must_be!(fixture.twin.reserve(&claim).await?, ReserveOutcome::IntentHeld { retry_after } if soon(retry_after), "the held pair");
    let other = fixture.claim(fixture.intent(), claim.payments());
    must_be!(fixture.reserve(&other).await?, ReserveOutcome::Busy { retry_after } if soon(retry_after), "the held payment");
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the holder's commit");
    // If several are held, `retry_after` is that of the first to expire, in any order.
    let first = fixture.paid();
    let both = [first.clone(), Transfer { position: 1, ..first }];
    for earlier in [&both[..1], &both[1..]] {
        let _ = fixture.hold(&fixture.brief(fixture.intent(), earlier)).await?;
    }
    let short = fixture.harness.lease();
    let waits = fixture.claim(fixture.intent(), &both);
    must_be!(fixture.reserve(&waits).await?, ReserveOutcome::Busy { retry_after } if retry_after <= short, "two held");
    fixture.run_out().await;
    for (long, brief) in [(0, 1), (1, 0)] {
        let held = fixture.hold(&fixture.claim(fixture.intent(), &both[long..=long])).await?;
        let _ = fixture.hold(&fixture.brief(fixture.intent(), &both[brief..=brief])).await?;
        must_be!(
            fixture.reserve(&waits).await?,
            ReserveOutcome::Busy { retry_after } if retry_after <= short,
            "one held for long, one briefly"
        );
        fixture.ledger.release(&held).await?;
        fixture.run_out().await;
    }
    Ok(())
}

pub(super) async fn intent_holds_one<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let intent = fixture.intent();
    let lease = fixture.hold(&fixture.claim(intent, &[fixture.paid()])).await?;
    let other = fixture.claim(intent, &[fixture.paid()]);
    must_be!(fixture.reserve(&other).await?, ReserveOutcome::IntentHeld { .. }, "a held intent with another payment");
    let _ = fixture.hold(&fixture.claim(fixture.intent(), other.payments())).await?;
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the holder's commit");
    Ok(())
}

pub(super) async fn released_is_lost<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    for _ in 0..2 {
        let lease = fixture.hold(&claim).await?;
        fixture.ledger.release(&lease).await?;
        must_be!(fixture.ledger.renew(&lease).await?, RenewOutcome::LeaseLost, "renewal of a released lease");
        must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::LeaseLost, "commit of a released lease");
        must_be!(
            fixture.ledger.consumed(claim.intent()).await?.is_some(),
            false,
            "the intent of a released lease is consumed"
        );
    }
    let _ = fixture.sell(&claim).await?;
    Ok(())
}

pub(super) async fn run_out_is_taken_over<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let old = fixture.hold(&claim).await?;
    fixture.run_out().await;
    let new = fixture.sell(&fixture.brief(fixture.intent(), claim.payments())).await?;
    must_be!(new.fencing_token(), fence if fence != old.fencing_token(), "the fence of the new holder");
    must_be!(fixture.ledger.consumed(claim.intent()).await?.is_some(), false, "the old holder's intent is consumed");
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::PaymentUsed, "the old holder's pair");
    Ok(())
}

pub(super) async fn taken_over_is_lost<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let old = fixture.hold(&claim).await?;
    fixture.run_out().await;
    let new = fixture.hold(&fixture.claim(fixture.intent(), claim.payments())).await?;
    must_be!(fixture.ledger.renew(&old).await?, RenewOutcome::LeaseLost, "the old holder's renewal");
    must_be!(fixture.ledger.commit(&old, None).await?, CommitOutcome::LeaseLost, "the old holder's commit");
    fixture.ledger.release(&old).await?;
    fixture.ledger.release(&old).await?;
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::Busy { .. }, "the pair after the old holder's release");
    must_be!(fixture.ledger.renew(&new).await?, RenewOutcome::Held, "the new holder's renewal");
    must_be!(fixture.ledger.commit(&new, None).await?, CommitOutcome::Done, "the new holder's commit");
    must_be!(
        fixture.ledger.commit(&old, None).await?,
        CommitOutcome::LeaseLost,
        "the old holder's commit after the sale"
    );
    fixture.ledger.release(&old).await?;
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::PaymentUsed, "the payment in the end");
    Ok(())
}

pub(super) async fn own_lease_is_taken_over<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let (intent, paid) = (fixture.intent(), [fixture.paid()]);
    let old = fixture.hold(&fixture.brief(intent, &paid)).await?;
    fixture.run_out().await;
    let new = fixture.hold(&fixture.claim(intent, &paid)).await?;
    must_be!(new.fencing_token(), fence if fence != old.fencing_token(), "the fence of the second lease");
    must_be!(fixture.ledger.commit(&old, None).await?, CommitOutcome::LeaseLost, "commit of the first lease");
    fixture.ledger.release(&old).await?;
    must_be!(fixture.ledger.commit(&new, None).await?, CommitOutcome::Done, "commit of the second lease");
    must_be!(
        fixture.ledger.commit(&old, None).await?,
        CommitOutcome::LeaseLost,
        "commit of the first lease after the sale"
    );
    Ok(())
}

pub(super) async fn a_lost_renewal_changes_nothing<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    // A brief lease that was lost to a long one of the same pair, and the reverse.
    let brief = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let long = fixture.claim(brief.intent(), brief.payments());
    let old = fixture.hold(&brief).await?;
    fixture.run_out().await;
    let new = fixture.hold(&long).await?;
    must_be!(fixture.twin.renew(&old).await?, RenewOutcome::LeaseLost, "renewal of a lost lease, the shorter one");
    fixture.run_out().await;
    let foreign = fixture.claim(fixture.intent(), brief.payments());
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "a foreign claim during the longer lease");
    fixture.ledger.release(&new).await?;
    let last = fixture.hold(&brief).await?;
    must_be!(fixture.twin.renew(&new).await?, RenewOutcome::LeaseLost, "renewal of a lost lease, the longer one");
    fixture.run_out().await;
    let taken = fixture.hold(&foreign).await?;
    must_be!(fixture.ledger.commit(&last, None).await?, CommitOutcome::LeaseLost, "commit of the shorter lease");
    must_be!(fixture.ledger.commit(&taken, None).await?, CommitOutcome::Done, "commit of who took it over");
    Ok(())
}

pub(super) async fn take_over_frees_the_rest<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let [a, b] = [fixture.intent(), fixture.intent()];
    let [paid_a, paid_b] = [[fixture.paid()], [fixture.paid()]];
    let old_a = fixture.hold(&fixture.brief(a, &paid_a)).await?;
    let old_b = fixture.hold(&fixture.brief(b, &paid_b)).await?;
    fixture.run_out().await;
    // Intent `a` takes over the payment that `b` held, and so gives up its own.
    let crossed = fixture.hold(&fixture.claim(a, &paid_b)).await?;
    for lost in [&old_a, &old_b] {
        must_be!(fixture.ledger.renew(lost).await?, RenewOutcome::LeaseLost, "renewal of a lease that was taken over");
        must_be!(
            fixture.ledger.commit(lost, None).await?,
            CommitOutcome::LeaseLost,
            "commit of a lease that was taken over"
        );
    }
    let rest = fixture.hold(&fixture.claim(b, &paid_a)).await?;
    for held in [&crossed, &rest] {
        must_be!(fixture.ledger.commit(held, None).await?, CommitOutcome::Done, "commit of the new holder");
    }
    Ok(())
}

pub(super) async fn late_holder_commits<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let lease = fixture.hold(&claim).await?;
    fixture.run_out().await;
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "commit after the lease ran out");
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::IntentConsumed, "the pair after that");
    Ok(())
}

pub(super) async fn late_holder_renews<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let lease = fixture.hold(&claim).await?;
    fixture.run_out().await;
    must_be!(fixture.ledger.renew(&lease).await?, RenewOutcome::Held, "renewal after the lease ran out");
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::IntentHeld { .. }, "the pair after that");
    Ok(())
}

pub(super) async fn late_holder_releases<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let lease = fixture.hold(&claim).await?;
    fixture.run_out().await;
    fixture.ledger.release(&lease).await?;
    must_be!(fixture.ledger.renew(&lease).await?, RenewOutcome::LeaseLost, "renewal after a late release");
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::LeaseLost, "commit after a late release");
    let _ = fixture.sell(&claim).await?;
    Ok(())
}

pub(super) async fn renewal_prolongs<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let lease = fixture.hold(&claim).await?;
    let part = claim.lease() * 3 / 5;
    for _ in 0..3 {
        fixture.harness.pass(part).await;
        must_be!(fixture.twin.renew(&lease).await?, RenewOutcome::Held, "renewal in time");
    }
    fixture.harness.pass(part).await;
    let other = fixture.brief(fixture.intent(), claim.payments());
    let within = |after: Duration| after <= claim.lease() - part;
    must_be!(
        fixture.reserve(&other).await?,
        ReserveOutcome::Busy { retry_after } if within(retry_after),
        "the payment three fifths of a lease after the renewal"
    );
    fixture.harness.pass(part).await;
    let _ = fixture.hold(&other).await?;
    must_be!(fixture.ledger.renew(&lease).await?, RenewOutcome::LeaseLost, "renewal after the take-over");
    Ok(())
}
