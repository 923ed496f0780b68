//! Begun settlements: the record outlives its lease, and reserves the payment for its intent.

use std::time::Duration;

use super::{
    super::{Claim, CommitOutcome, Lease, Ledger, RenewOutcome, ReserveOutcome, Settling},
    fixture::{BEGUN, Fault, Fixture, HEAD, LONG, MARK, PAID, claim, mined, must_be, unsettled},
    harness::Harness,
    mark::{nudge, refused},
    race,
};
use crate::protocol::{Binding, ChainTime, Payment, Transfer, TxHash};

/// How often the race is run, at most.
const ROUNDS: usize = 50;
/// The number of concurrent tasks.
const TASKS: usize = 16;

/// The same payment once it is settled.
fn settled<H: Harness>(fixture: &Fixture<'_, H>, unsettled: &Payment) -> Transfer {
    let paid = fixture.paid();
    let nonce = unsettled.nonce().copied().unwrap_or_default();
    Transfer { position: 5, block_time: unsettled.time(), binding: Binding::none().with_nonce(nonce), ..paid }
}

/// The same authorization, shown at another time.
fn shown_at(signed: &Payment, time: u64) -> Payment {
    match signed {
        Payment::Authorization(signed) => signed.clone().with_shown(ChainTime::from_unix(time)).into(),
        Payment::Transfer(_) | Payment::Permit(_) | Payment::Voucher(_) => signed.clone(),
    }
}

/// Makes a claim that must be granted, and begins to settle its payment.
pub(super) async fn begin_settling<H: Harness>(fixture: &Fixture<'_, H>, claim: &Claim) -> Result<Lease, Fault> {
    let lease = fixture.hold(claim).await?;
    must_be!(fixture.ledger.settling(&lease, &BEGUN).await?, RenewOutcome::Held, "the record under a held lease");
    Ok(lease)
}

fn soon(retry_after: Duration) -> bool {
    !retry_after.is_zero() && retry_after <= LONG
}

/// A claim of another intent on the same payments.
fn foreign<H: Harness>(fixture: &Fixture<'_, H>, claim: &Claim) -> Claim {
    fixture.claim(fixture.intent(), claim.payments())
}

pub(super) async fn without_a_record_anyone_takes_over<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let old = fixture.hold(&claim).await?;
    must_be!(old.settling(), None, "the record of a first lease");
    fixture.run_out().await;
    let new = fixture.hold(&foreign(fixture, &claim)).await?;
    must_be!(new.settling(), None, "the record of a lease that took over another intent's");
    must_be!(fixture.ledger.settling(&old, &BEGUN).await?, RenewOutcome::LeaseLost, "the old holder's record");
    must_be!(fixture.ledger.commit(&new, None).await?, CommitOutcome::Done, "the new holder's commit");
    let again = fixture.brief(claim.intent(), &[unsettled(fixture)]);
    let _ = fixture.hold(&again).await?;
    fixture.run_out().await;
    must_be!(fixture.hold(&again).await?.settling(), None, "the record of a lease after one of its own that ran out");
    Ok(())
}

pub(super) async fn its_own_intent_goes_on<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let old = begin_settling(fixture, &claim).await?;
    fixture.run_out().await;
    let foreign = foreign(fixture, &claim);
    for ledger in [&fixture.ledger, &fixture.twin, &fixture.ledger] {
        must_be!(
            ledger.reserve(&foreign).await?,
            ReserveOutcome::Busy { retry_after } if soon(retry_after),
            "what is settled for another intent"
        );
    }
    let new = fixture.hold(&fixture.claim(claim.intent(), claim.payments())).await?;
    must_be!(new.settling(), Some(begun) if *begun == BEGUN, "the record in the second lease");
    must_be!(new.fencing_token(), fence if fence != old.fencing_token(), "the fence of the second lease");
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "what is held again");
    must_be!(fixture.ledger.commit(&old, None).await?, CommitOutcome::LeaseLost, "commit of the first lease");
    must_be!(fixture.ledger.commit(&new, None).await?, CommitOutcome::Done, "commit of the second lease");
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::PaymentUsed, "what is sold");
    // The other intent is free for its own payment.
    let _ = fixture.sell(&fixture.claim(foreign.intent(), &[unsettled(fixture)])).await?;
    Ok(())
}

pub(super) async fn a_release_leaves_the_record<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[unsettled(fixture)]);
    let mut lease = begin_settling(fixture, &claim).await?;
    for _ in 0..2 {
        fixture.ledger.release(&lease).await?;
        let foreign = foreign(fixture, &claim);
        must_be!(fixture.twin.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "a foreign claim after a release");
        lease = fixture.hold(&claim).await?;
        must_be!(lease.settling(), Some(begun) if *begun == BEGUN, "the record in a lease after a release");
    }
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "commit of the last lease");
    Ok(())
}

pub(super) async fn a_foreign_claim_changes_nothing<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let late = begin_settling(fixture, &claim).await?;
    // The other intent has an expired lease, too, and takes that over elsewhere.
    let other = fixture.intent();
    let _ = fixture.hold(&fixture.brief(other, &[unsettled(fixture)])).await?;
    fixture.run_out().await;
    let foreign = fixture.claim(other, claim.payments());
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "a foreign claim");
    must_be!(fixture.ledger.renew(&late).await?, RenewOutcome::Held, "the late holder's renewal");
    fixture.run_out().await;
    must_be!(fixture.twin.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "a foreign claim after that");
    must_be!(fixture.ledger.commit(&late, None).await?, CommitOutcome::Done, "the late holder's commit");
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::PaymentUsed, "the payment in the end");
    Ok(())
}

pub(super) async fn the_last_record_counts<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[unsettled(fixture)]);
    let mut lease = fixture.hold(&claim).await?;
    let sent = |name| BEGUN.with_transaction(TxHash::new([name; 32]));
    let other = Settling::new([0; 16], ChainTime::from_unix(MARK));
    for last in [BEGUN, sent(0), sent(0xff), other, Settling::new([0xff; 16], ChainTime::default())] {
        must_be!(fixture.ledger.settling(&lease, &other).await?, RenewOutcome::Held, "an earlier record");
        must_be!(fixture.twin.settling(&lease, &last).await?, RenewOutcome::Held, "the last record");
        fixture.ledger.release(&lease).await?;
        lease = fixture.hold(&claim).await?;
        must_be!(lease.settling(), Some(begun) if *begun == last, "the record in the next lease");
    }
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "commit of the last lease");
    Ok(())
}

pub(super) async fn one_record_for_each_intent_and_payment<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let own = fixture.claim(fixture.intent(), &[unsettled(fixture)]);
    let other = fixture.claim(fixture.intent(), &[unsettled(fixture)]);
    for claim in [&own, &other] {
        let lease = begin_settling(fixture, claim).await?;
        fixture.ledger.release(&lease).await?;
    }
    // The other intent's payment is shown as settled, so its first intent has no right to it any more.
    let mined = settled(fixture, &other.payments()[0]);
    let lease = fixture.hold(&fixture.claim(own.intent(), std::slice::from_ref(&mined))).await?;
    let record = BEGUN.with_transaction(mined.transaction);
    must_be!(fixture.ledger.settling(&lease, &record).await?, RenewOutcome::Held, "the record of a settled payment");
    let (before, after) = (own.payments()[0].id(), mined.payment_id());
    let begun = fixture.twin.begun(own.intent(), after).await?;
    must_be!(begun, Some(begun) if begun == record, "the intent's record of its second payment");
    must_be!(fixture.ledger.begun(own.intent(), before).await?, None, "the intent's record of its first payment");
    must_be!(fixture.ledger.begun(other.intent(), after).await?, None, "the other intent's record of that payment");
    Ok(())
}

pub(super) async fn found_by_intent_and_payment<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[unsettled(fixture)]);
    let other = fixture.claim(fixture.intent(), &[unsettled(fixture)]);
    let (intent, payment) = (claim.intent(), claim.payments()[0].id());
    let lease = fixture.hold(&claim).await?;
    must_be!(fixture.ledger.begun(intent, payment).await?, None, "the record before it is made");
    let transaction = TxHash::new([0xab; 32]);
    let sent = BEGUN.with_transaction(transaction);
    // Its head is a number that no chain reaches.
    let confirmed = Settling::confirmed(BEGUN.request, transaction, BEGUN.head);
    for record in [BEGUN, confirmed, sent, confirmed] {
        must_be!(fixture.twin.settling(&lease, &record).await?, RenewOutcome::Held, "the record under a held lease");
        must_be!(fixture.ledger.begun(intent, payment).await?, Some(begun) if begun == record, "the record");
    }
    let _ = begin_settling(fixture, &other).await?;
    let (stranger, elsewhere) = (other.intent(), other.payments()[0].id());
    for (intent, payment) in [(intent, elsewhere), (stranger, payment), (fixture.intent(), payment)] {
        must_be!(fixture.ledger.begun(intent, payment).await?, None, "the record of another pair");
    }
    let among = fixture.ledger.begun_among(intent, &[elsewhere, payment]).await?;
    must_be!(among, Some(begun) if begun == (payment, confirmed), "the intent's record, among those of several payments");
    for (intent, payments) in [(intent, &[elsewhere][..]), (intent, &[]), (fixture.intent(), &[elsewhere, payment])] {
        must_be!(fixture.ledger.begun_among(intent, payments).await?, None, "the record of none of several payments");
    }
    fixture.ledger.release(&lease).await?;
    must_be!(fixture.twin.begun(intent, payment).await?, Some(begun) if begun == confirmed, "the record after a release");
    // Shown as settled, it is the same payment.
    let mined = settled(fixture, &claim.payments()[0]);
    must_be!(fixture.ledger.begun(intent, mined.payment_id()).await?, Some(_), "the record of what is settled");
    let lease = fixture.hold(&fixture.claim(intent, &[mined])).await?;
    must_be!(lease.settling(), Some(begun) if *begun == confirmed, "the record in a lease of what is settled");
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "its commit");
    must_be!(fixture.ledger.begun(intent, payment).await?, None, "the record after the sale");
    Ok(())
}

pub(super) async fn only_the_holder_records<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    // Released, taken over, sold.
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let released = fixture.hold(&claim).await?;
    fixture.ledger.release(&released).await?;
    let taken_over = fixture.hold(&claim).await?;
    fixture.run_out().await;
    let held = fixture.hold(&claim).await?;
    for lost in [&released, &taken_over] {
        must_be!(fixture.twin.settling(lost, &BEGUN).await?, RenewOutcome::LeaseLost, "the record under a lost lease");
    }
    fixture.run_out().await;
    let last = fixture.hold(&claim).await?;
    must_be!(last.settling(), None, "the record after records that were refused");
    // A former holder does not remove it either.
    must_be!(fixture.ledger.settling(&last, &BEGUN).await?, RenewOutcome::Held, "the record under a held lease");
    for lost in [&released, &taken_over, &held] {
        fixture.twin.not_settled(lost).await?;
    }
    fixture.run_out().await;
    let foreign = foreign(fixture, &claim);
    must_be!(
        fixture.reserve(&foreign).await?,
        ReserveOutcome::Busy { .. },
        "the payment after removals that were refused"
    );
    must_be!(fixture.ledger.commit(&last, None).await?, CommitOutcome::Done, "the last holder's commit");
    must_be!(fixture.ledger.settling(&last, &BEGUN).await?, RenewOutcome::LeaseLost, "the record after the sale");
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::PaymentUsed, "the payment in the end");
    Ok(())
}

pub(super) async fn a_record_renews<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let lease = fixture.hold(&claim).await?;
    fixture.run_out().await;
    must_be!(fixture.twin.settling(&lease, &BEGUN).await?, RenewOutcome::Held, "the record of a late holder");
    let again = fixture.claim(claim.intent(), claim.payments());
    must_be!(
        fixture.reserve(&again).await?,
        ReserveOutcome::IntentHeld { retry_after } if retry_after <= claim.lease(),
        "its own claim after that"
    );
    fixture.run_out().await;
    must_be!(fixture.hold(&again).await?.settling(), Some(_), "the record in the next lease");
    Ok(())
}

pub(super) async fn not_settled_is_free<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[unsettled(fixture)]);
    let lease = begin_settling(fixture, &claim).await?;
    for ledger in [&fixture.ledger, &fixture.twin] {
        ledger.not_settled(&lease).await?;
    }
    let foreign = foreign(fixture, &claim);
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "what is still held");
    must_be!(fixture.ledger.renew(&lease).await?, RenewOutcome::Held, "renewal of what is still held");
    fixture.ledger.release(&lease).await?;
    let taken = fixture.hold(&foreign).await?;
    must_be!(taken.settling(), None, "the record after it was removed");
    must_be!(fixture.ledger.commit(&taken, None).await?, CommitOutcome::Done, "the other intent's commit");
    let _ = fixture.sell(&fixture.claim(claim.intent(), &[unsettled(fixture)])).await?;
    Ok(())
}

pub(super) async fn once_settled_it_is_taken_over<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let first = unsettled(fixture);
    let claim = fixture.brief(fixture.intent(), std::slice::from_ref(&first));
    let old = begin_settling(fixture, &claim).await?;
    fixture.run_out().await;
    let foreign = fixture.claim(fixture.intent(), &[settled(fixture, &first)]);
    let new = fixture.hold(&foreign).await?;
    must_be!(new.settling(), None, "the record in a lease of another intent");
    must_be!(fixture.ledger.commit(&old, None).await?, CommitOutcome::LeaseLost, "the old holder's commit");
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::Busy { .. }, "the old holder's claim");
    fixture.ledger.release(&new).await?;
    must_be!(fixture.hold(&claim).await?.settling(), Some(_), "the record after a foreign lease");
    fixture.run_out().await;
    // If one claim has both forms of a payment, the settled one is granted.
    let both = fixture.claim(fixture.intent(), &[first.clone(), settled(fixture, &first).into()]);
    let taken = fixture.hold(&both).await?;
    must_be!(taken.payment().is_settled(), true, "the transfer that is taken is settled");
    must_be!(fixture.ledger.commit(&taken, None).await?, CommitOutcome::Done, "the new holder's commit");
    // The sale of the payment ended the settlement: the intent may settle another payment.
    let _ = fixture.sell(&fixture.claim(claim.intent(), &[unsettled(fixture)])).await?;
    Ok(())
}

pub(super) async fn refused_as_if_held<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let begun = unsettled(fixture);
    let _ = begin_settling(fixture, &fixture.brief(fixture.intent(), std::slice::from_ref(&begun))).await?;
    fixture.run_out().await;
    let with = |other: Transfer| fixture.claim(fixture.intent(), &[begun.clone(), other.into()]);
    let below = fixture.paid_at(MARK);
    must_be!(fixture.reserve(&with(below)).await?, ReserveOutcome::Busy { .. }, "beside one below the mark");
    let sold = fixture.sell(&fixture.claim(fixture.intent(), &[fixture.paid()])).await?;
    let used = with(mined(&sold)?.clone());
    must_be!(fixture.reserve(&used).await?, ReserveOutcome::Busy { .. }, "beside one that is sold");
    let own = fixture.claim(sold.intent(), std::slice::from_ref(&begun));
    must_be!(fixture.reserve(&own).await?, ReserveOutcome::IntentConsumed, "of an intent that bought its answer");
    let old = shown_at(&begun, MARK);
    let old = fixture.claim(fixture.intent(), &[old]);
    must_be!(fixture.reserve(&old).await?, ReserveOutcome::Busy { .. }, "shown with a time below the mark");
    let free = fixture.paid();
    let taken = fixture.hold(&with(free.clone())).await?;
    must_be!(taken.payment(), transfer if *transfer == free, "the transfer that is taken beside a free one");
    Ok(())
}

pub(super) async fn no_second_beside_it<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let late = begin_settling(fixture, &claim).await?;
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
    let both = [second.payments(), claim.payments()].concat();
    let first = fixture.hold(&fixture.claim(claim.intent(), &both)).await?;
    must_be!(first.settling(), Some(_), "of both, the one that was begun");
    fixture.ledger.not_settled(&first).await?;
    fixture.ledger.release(&first).await?;
    let lease = fixture.sell(&second).await?;
    must_be!(lease.settling(), None, "the record of the second payment");
    // Also if a release left only the record.
    let claim = fixture.claim(fixture.intent(), &[unsettled(fixture)]);
    let released = begin_settling(fixture, &claim).await?;
    fixture.ledger.release(&released).await?;
    let second = fixture.claim(claim.intent(), &[unsettled(fixture)]);
    for ledger in [&fixture.ledger, &fixture.twin] {
        must_be!(ledger.reserve(&second).await?, ReserveOutcome::Busy { .. }, "a second payment after a release");
    }
    // A settled payment is paid already, and its sale ends the settlement that was begun for the intent.
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let _ = begin_settling(fixture, &claim).await?;
    fixture.run_out().await;
    let _ = fixture.sell(&fixture.claim(claim.intent(), &[fixture.paid()])).await?;
    let _ = fixture.sell(&fixture.claim(fixture.intent(), claim.payments())).await?;
    Ok(())
}

pub(super) async fn recorded_as_settled<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    const HOUR: u64 = 3_600;
    fixture.begin().await?;
    // Mined before the settlement was begun, as far as clocks can tell; and long after.
    for block_time in [PAID - 50, PAID + 9 * HOUR] {
        let at = |head, intent, payments: &[Payment]| claim(intent, payments, PAID, head, LONG);
        let sold = at(HEAD, fixture.intent(), &[unsettled(fixture)]);
        let reserved = &sold.payments()[0];
        let block_time = ChainTime::from_unix(block_time);
        let mined = Payment::from(Transfer { block_time, ..settled(fixture, reserved) });
        let lease = fixture.hold(&sold).await?.settled_by(mined.clone());
        must_be!(fixture.twin.renew(&lease).await?, RenewOutcome::Held, "renewal of what was settled since");
        for ledger in [&fixture.ledger, &fixture.twin, &fixture.ledger] {
            must_be!(ledger.commit(&lease, None).await?, CommitOutcome::Done, "commit of what was settled since");
        }
        // Shown as unsettled, it has no block.
        let last = sold.keep_until(reserved).max(sold.keep_until(&mined)).unix();
        let shown = shown_at(reserved, PAID + 20 * HOUR);
        for (head, transfer) in [(HEAD, &mined), (HEAD, &shown), (last, &shown), (last, &mined)] {
            let again = at(head, fixture.intent(), std::slice::from_ref(transfer));
            must_be!(fixture.reserve(&again).await?, ReserveOutcome::PaymentUsed, "the payment until its last second");
        }
        must_be!(fixture.ledger.consumed(sold.intent()).await?.is_some(), true, "until then its intent is consumed");
        nudge(fixture, last + 1, Some(block_time.unix())).await?;
        refused(fixture, last + 1, &at(HEAD, sold.intent(), &[mined])).await?;
        let above = at(last + 1, fixture.intent(), &[fixture.paid_at(block_time.unix() + 1).into()]);
        let lease = fixture.hold(&above).await?;
        fixture.ledger.release(&lease).await?;
    }
    Ok(())
}

pub(super) async fn kept_for_its_intent<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    let _ = begin_settling(fixture, &claim).await?;
    let last = claim.keep_until(&claim.payments()[0]).unix();
    for head in [last - 3_600, last] {
        // Longer than ledgers remember an idle lease.
        fixture.harness.pass(Duration::from_secs(3 * 3_600)).await;
        for _ in 0..4 {
            let other = fixture.young_claim(head, &[fixture.paid_at(head)]);
            let lease = fixture.twin.reserve(&other).await?;
            must_be!(lease, ReserveOutcome::Granted(_), "another payment");
            let foreign = fixture.claim_at(head, fixture.intent(), claim.payments());
            for ledger in [&fixture.ledger, &fixture.twin] {
                must_be!(ledger.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "a foreign claim, hours later");
            }
        }
    }
    let lease = fixture.hold(&fixture.claim_at(last, claim.intent(), claim.payments())).await?;
    must_be!(lease.settling(), Some(begun) if *begun == BEGUN, "the record, hours later");
    Ok(())
}

pub(super) async fn only_its_intent_resumes<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let rounds = fixture.harness.rounds().clamp(1, ROUNDS);
    // All of them wait for one lease if that takes real time.
    let mut claims: Vec<Claim> = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
        let _ = begin_settling(fixture, &claim).await?;
        claims.push(claim);
    }
    fixture.run_out().await;
    for (round, claim) in claims.into_iter().enumerate() {
        // Another task comes first in each round.
        let own = |task: usize| (task + round).is_multiple_of(4);
        let at_once = (0..TASKS)
            .map(|task| if own(task) { claim.intent() } else { fixture.intent() })
            .map(|intent| fixture.claim(intent, claim.payments()))
            .collect();
        let grants = race::grants(fixture, at_once).await?;
        must_be!(grants.len(), 1, "grants of what ran out");
        must_be!(grants[0].intent(), intent if intent == claim.intent(), "the intent that goes on");
        must_be!(grants[0].settling(), Some(begun) if *begun == BEGUN, "the record in its lease");
        race::settle(fixture, &grants).await?;
    }
    Ok(())
}
