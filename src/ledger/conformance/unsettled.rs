//! Payments that are not settled yet: a lease that ran out keeps them for its intent.

use std::time::Duration;

use super::{
    super::{AttemptOutcome, Claim, CommitOutcome, Lease, Ledger, RenewOutcome, ReserveOutcome},
    Harness,
    fixture::{Fault, Fixture, HEAD, LONG, MARK, PAID, claim, must_be},
    mark::{nudge, refused},
    race,
};
use crate::protocol::{Binding, ChainTime, Transfer, TxHash};

/// How often the race is run, at most.
const ROUNDS: usize = 50;
/// How many at once.
const TASKS: usize = 16;

/// An authorization that is not settled yet.
fn unsettled<H: Harness>(fixture: &Fixture<'_, H>) -> Transfer {
    let paid = fixture.paid();
    let nonce = *paid.transaction.as_bytes();
    Transfer { transaction: TxHash::NONE, block_number: 0, ..paid }.with_binding(Binding::none().with_nonce(nonce))
}

/// The same, once it is.
fn settled<H: Harness>(fixture: &Fixture<'_, H>, unsettled: &Transfer) -> Transfer {
    let paid = fixture.paid();
    Transfer { transaction: paid.transaction, position: 5, block_number: paid.block_number, ..unsettled.clone() }
}

fn soon(retry_after: Duration) -> bool {
    !retry_after.is_zero() && retry_after <= LONG
}

pub(super) async fn its_own_intent_goes_on<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let old = fixture.hold(&claim).await?;
    fixture.run_out().await;
    let foreign = fixture.claim(fixture.intent(), claim.transfers());
    for ledger in [&fixture.ledger, &fixture.twin, &fixture.ledger] {
        must_be!(
            ledger.reserve(&foreign).await?,
            ReserveOutcome::Busy { retry_after } if soon(retry_after),
            "what another intent's lease ran out on"
        );
    }
    let new = fixture.hold(&fixture.claim(claim.intent(), claim.transfers())).await?;
    must_be!(new.fencing_token(), fence if fence != old.fencing_token(), "the fence of the second lease");
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "what is held again");
    must_be!(fixture.ledger.commit(&old, None).await?, CommitOutcome::LeaseLost, "commit of the first lease");
    must_be!(fixture.ledger.commit(&new, None).await?, CommitOutcome::Done, "commit of the second lease");
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::PaymentUsed, "what is sold");
    // The other intent is free for what is its own.
    let _ = fixture.sell(&fixture.claim(foreign.intent(), &[unsettled(fixture)])).await?;
    Ok(())
}

pub(super) async fn a_foreign_claim_changes_nothing<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let late = fixture.hold(&claim).await?;
    // The other intent has a lease that ran out as well, and takes that over elsewhere.
    let other = fixture.intent();
    let _ = fixture.hold(&fixture.brief(other, &[unsettled(fixture)])).await?;
    fixture.run_out().await;
    let foreign = fixture.claim(other, claim.transfers());
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "a foreign claim");
    must_be!(fixture.ledger.renew(&late).await?, RenewOutcome::Held, "the late holder's renewal");
    fixture.run_out().await;
    must_be!(fixture.twin.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "a foreign claim after that");
    must_be!(fixture.ledger.commit(&late, None).await?, CommitOutcome::Done, "the late holder's commit");
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::PaymentUsed, "the payment in the end");
    Ok(())
}

pub(super) async fn once_settled_it_is_taken_over<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let first = unsettled(fixture);
    let claim = fixture.brief(fixture.intent(), std::slice::from_ref(&first));
    let old = fixture.hold(&claim).await?;
    fixture.run_out().await;
    let foreign = fixture.claim(fixture.intent(), &[settled(fixture, &first)]);
    let new = fixture.hold(&foreign).await?;
    must_be!(new.is_resumed(), false, "a lease of another intent is resumed");
    must_be!(fixture.ledger.commit(&old, None).await?, CommitOutcome::LeaseLost, "the old holder's commit");
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::Busy { .. }, "the old holder's claim");
    must_be!(fixture.ledger.commit(&new, None).await?, CommitOutcome::Done, "the new holder's commit");
    // The other way round: what the present claim shows decides.
    let second = unsettled(fixture);
    let _ = fixture.hold(&fixture.brief(fixture.intent(), &[settled(fixture, &second)])).await?;
    fixture.run_out().await;
    let foreign = fixture.claim(fixture.intent(), std::slice::from_ref(&second));
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "shown as if it were not settled");
    // Of the two forms of one payment in one claim, the settled one.
    let both = fixture.claim(fixture.intent(), &[second.clone(), settled(fixture, &second)]);
    let taken = fixture.hold(&both).await?;
    must_be!(taken.transfer().is_settled(), true, "the transfer that is taken is settled");
    Ok(())
}

pub(super) async fn a_released_one_is_free<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    for handler in [AttemptOutcome::Started, AttemptOutcome::NotStarted] {
        let lease = fixture.hold(&claim).await?;
        fixture.ledger.release(&lease, handler).await?;
    }
    let late = fixture.hold(&claim).await?;
    fixture.run_out().await;
    fixture.ledger.release(&late, AttemptOutcome::Started).await?;
    let lease = fixture.sell(&fixture.claim(fixture.intent(), claim.transfers())).await?;
    must_be!(lease.is_resumed(), false, "a lease on what was released is resumed");
    Ok(())
}

pub(super) async fn refused_as_if_held<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let lapsed = unsettled(fixture);
    let _ = fixture.hold(&fixture.brief(fixture.intent(), std::slice::from_ref(&lapsed))).await?;
    fixture.run_out().await;
    let with = |other: Transfer| fixture.claim(fixture.intent(), &[lapsed.clone(), other]);
    let below = fixture.paid_at(MARK);
    must_be!(fixture.reserve(&with(below)).await?, ReserveOutcome::Busy { .. }, "beside one below the mark");
    let sold = fixture.sell(&fixture.claim(fixture.intent(), &[fixture.paid()])).await?;
    let used = with(sold.transfer().clone());
    must_be!(fixture.reserve(&used).await?, ReserveOutcome::Busy { .. }, "beside one that is sold");
    let own = fixture.claim(sold.intent(), std::slice::from_ref(&lapsed));
    must_be!(fixture.reserve(&own).await?, ReserveOutcome::IntentConsumed, "of an intent that bought its answer");
    let old = Transfer { block_time: ChainTime::from_unix(MARK), ..lapsed.clone() };
    let old = fixture.claim(fixture.intent(), &[old]);
    must_be!(fixture.reserve(&old).await?, ReserveOutcome::Busy { .. }, "shown with a time below the mark");
    let free = fixture.paid();
    let taken = fixture.hold(&with(free.clone())).await?;
    must_be!(taken.transfer(), transfer if *transfer == free, "the transfer that is taken beside a free one");
    Ok(())
}

pub(super) async fn resumption_is_told<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for first in [unsettled(fixture), fixture.paid()] {
        let claim = fixture.brief(fixture.intent(), &[first]);
        must_be!(fixture.hold(&claim).await?.is_resumed(), false, "the first lease is resumed");
        for _ in 0..2 {
            fixture.run_out().await;
            must_be!(fixture.hold(&claim).await?.is_resumed(), true, "one after a lease of its own ran out is resumed");
        }
        fixture.run_out().await;
        let lease = fixture.hold(&claim).await?;
        fixture.ledger.release(&lease, AttemptOutcome::Started).await?;
        must_be!(fixture.hold(&claim).await?.is_resumed(), false, "one after a release is resumed");
        fixture.run_out().await;
        // Its intent goes on with another payment.
        let other = fixture.brief(claim.intent(), &[fixture.paid()]);
        must_be!(fixture.hold(&other).await?.is_resumed(), false, "one on another payment is resumed");
    }
    let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let _ = fixture.hold(&claim).await?;
    fixture.run_out().await;
    let foreign = fixture.hold(&fixture.claim(fixture.intent(), claim.transfers())).await?;
    must_be!(foreign.is_resumed(), false, "one after another intent's lease ran out is resumed");
    Ok(())
}

pub(super) async fn resumed_since_the_first<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let first = unsettled(fixture);
    let intent = fixture.intent();
    // The head moves on between them.
    let at = |time, transfer: &Transfer| {
        fixture.brief(intent, &[Transfer { block_time: ChainTime::from_unix(time), ..transfer.clone() }])
    };
    let since = |lease: &Lease| lease.resumed_since().map(ChainTime::unix);
    must_be!(since(&fixture.hold(&at(PAID, &first)).await?), None, "since when the first lease is resumed");
    for time in [PAID + 2, PAID + 40, PAID + 40, PAID - 2] {
        fixture.run_out().await;
        let lease = fixture.hold(&at(time, &first)).await?;
        must_be!(since(&lease), Some(PAID), "since when one after a lease of its own ran out is resumed");
        // What is renewed runs out as well.
        must_be!(fixture.twin.renew(&lease).await?, RenewOutcome::Held, "renewal of a resumed lease");
    }
    // Refused meanwhile, others change nothing.
    fixture.run_out().await;
    let foreign = fixture.claim(fixture.intent(), std::slice::from_ref(&first));
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "a foreign claim");
    let shown = fixture.hold(&at(PAID + 60, &settled(fixture, &first))).await?;
    must_be!(since(&shown), Some(PAID), "since when one is resumed that shows it settled");
    fixture.ledger.release(&shown, AttemptOutcome::Started).await?;
    must_be!(since(&fixture.hold(&at(PAID + 80, &first)).await?), None, "since when one after a release is resumed");
    fixture.run_out().await;
    let lease = fixture.hold(&at(PAID + 90, &first)).await?;
    must_be!(since(&lease), Some(time) if time == PAID + 80, "since when one after that is resumed");
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "commit of a resumed lease");
    Ok(())
}

pub(super) async fn no_second_beside_it<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let late = fixture.hold(&claim).await?;
    fixture.run_out().await;
    let second = fixture.claim(claim.intent(), &[unsettled(fixture)]);
    for ledger in [&fixture.ledger, &fixture.twin, &fixture.ledger] {
        must_be!(
            ledger.reserve(&second).await?,
            ReserveOutcome::Busy { retry_after } if soon(retry_after),
            "a second payment that is not settled"
        );
    }
    must_be!(fixture.ledger.renew(&late).await?, RenewOutcome::Held, "the late holder's renewal");
    fixture.run_out().await;
    let both = [second.transfers(), claim.transfers()].concat();
    let first = fixture.hold(&fixture.claim(claim.intent(), &both)).await?;
    must_be!(first.is_resumed(), true, "of both, the first is resumed");
    fixture.ledger.release(&first, AttemptOutcome::Started).await?;
    let lease = fixture.sell(&second).await?;
    must_be!(lease.is_resumed(), false, "the second, once the first was released, is resumed");
    // One that is settled is paid already.
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let _ = fixture.hold(&claim).await?;
    fixture.run_out().await;
    let _ = fixture.sell(&fixture.claim(claim.intent(), &[fixture.paid()])).await?;
    let _ = fixture.sell(&fixture.claim(fixture.intent(), claim.transfers())).await?;
    Ok(())
}

pub(super) async fn recorded_as_settled<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    const HOUR: u64 = 3_600;
    fixture.begin().await?;
    // Mined before it was asked to be, as far as clocks can tell; and long after.
    for block_time in [PAID - 50, PAID + 9 * HOUR] {
        let at = |head, intent, transfers: &[Transfer]| claim(intent, transfers, PAID, head, LONG);
        let sold = at(HEAD, fixture.intent(), &[unsettled(fixture)]);
        let reserved = &sold.transfers()[0];
        let block_time = ChainTime::from_unix(block_time);
        let mined = Transfer { block_time, ..settled(fixture, reserved) };
        let lease = fixture.hold(&sold).await?.settled_by(mined.clone());
        must_be!(fixture.twin.renew(&lease).await?, RenewOutcome::Held, "renewal of what was settled since");
        for ledger in [&fixture.ledger, &fixture.twin, &fixture.ledger] {
            must_be!(ledger.commit(&lease, None).await?, CommitOutcome::Done, "commit of what was settled since");
        }
        // Shown as if it were not settled yet, it has no block.
        let last = sold.keep_until(reserved).max(sold.keep_until(&mined)).unix();
        let shown = Transfer { block_time: ChainTime::from_unix(PAID + 20 * HOUR), ..reserved.clone() };
        for (head, transfer) in [(HEAD, &mined), (HEAD, &shown), (last, &shown), (last, &mined)] {
            let again = at(head, fixture.intent(), std::slice::from_ref(transfer));
            must_be!(fixture.reserve(&again).await?, ReserveOutcome::PaymentUsed, "the payment until its last second");
        }
        must_be!(fixture.ledger.consumed(sold.intent()).await?.is_some(), true, "until then its intent is consumed");
        nudge(fixture, last + 1, Some(block_time.unix())).await?;
        refused(fixture, last + 1, &at(HEAD, sold.intent(), &[mined])).await?;
        let above = at(last + 1, fixture.intent(), &[fixture.paid_at(block_time.unix() + 1)]);
        let lease = fixture.hold(&above).await?;
        fixture.ledger.release(&lease, AttemptOutcome::NotStarted).await?;
    }
    Ok(())
}

pub(super) async fn kept_for_its_intent<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let _ = fixture.hold(&claim).await?;
    let last = claim.keep_until(&claim.transfers()[0]).unix();
    for head in [last - 3_600, last] {
        // Longer than ledgers remember an idle lease.
        fixture.harness.pass(Duration::from_secs(3 * 3_600)).await;
        for _ in 0..4 {
            let other = fixture.young_claim(head, &[fixture.paid_at(head)]);
            let lease = fixture.twin.reserve(&other).await?;
            must_be!(lease, ReserveOutcome::Granted(_), "another payment");
            let foreign = fixture.claim_at(head, fixture.intent(), claim.transfers());
            for ledger in [&fixture.ledger, &fixture.twin] {
                must_be!(ledger.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "a foreign claim, hours later");
            }
        }
    }
    let lease = fixture.hold(&fixture.claim_at(last, claim.intent(), claim.transfers())).await?;
    must_be!(lease.is_resumed(), true, "its own lease, hours later, is resumed");
    Ok(())
}

pub(super) async fn only_its_intent_resumes<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let rounds = fixture.harness.rounds().clamp(1, ROUNDS);
    // All of them wait for one lease, where that takes real time.
    let mut claims: Vec<Claim> = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
        let _ = fixture.hold(&claim).await?;
        claims.push(claim);
    }
    fixture.run_out().await;
    for (round, claim) in claims.into_iter().enumerate() {
        // Whoever comes first is not the same in each round.
        let own = |task: usize| (task + round).is_multiple_of(4);
        let at_once = (0..TASKS)
            .map(|task| if own(task) { claim.intent() } else { fixture.intent() })
            .map(|intent| fixture.claim(intent, claim.transfers()))
            .collect();
        let grants = race::grants(fixture, at_once).await?;
        must_be!(grants.len(), 1, "grants of what ran out");
        must_be!(grants[0].intent(), intent if intent == claim.intent(), "the intent that goes on");
        must_be!(grants[0].is_resumed(), true, "its lease is resumed");
        race::settle(fixture, &grants).await?;
    }
    Ok(())
}
