//! Purchases that clients name: each buys one answer, by any one of its payments.

use std::time::Duration;

use super::{
    super::{Claim, CommitOutcome, Ledger, RenewOutcome, ReserveOutcome},
    fixture::{AGE, BEGUN, Fault, Fixture, LONG, MARK, claim_for, must_be, unsettled},
    harness::Harness,
    settling::begin_settling,
};
use crate::protocol::{Network, Payment, PurchaseKey};

fn soon(retry_after: Duration) -> bool {
    !retry_after.is_zero() && retry_after <= LONG
}

/// A claim on another payment, for another intent and the same purchase.
fn again<H: Harness>(fixture: &Fixture<'_, H>, purchase: PurchaseKey) -> Claim {
    fixture.claim_for(purchase, &[unsettled(fixture)])
}

/// The same pair, for this purchase or none.
fn as_for(claim: &Claim, purchase: impl Into<Option<PurchaseKey>>) -> Claim {
    claim_for(claim.intent(), purchase, claim.payments(), LONG)
}

pub(super) async fn another_payment_waits<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let purchase = fixture.purchase();
    let lease = fixture.hold(&again(fixture, purchase)).await?;
    for payment in [unsettled(fixture), fixture.paid().into()] {
        let other: Claim = fixture.claim_for::<Payment>(purchase, &[payment]);
        for ledger in [&fixture.ledger, &fixture.twin] {
            must_be!(
                ledger.reserve(&other).await?,
                ReserveOutcome::Busy { retry_after } if soon(retry_after),
                "another payment for a held purchase"
            );
        }
        // The claim itself holds nothing.
        let _ = fixture.sell(&as_for(&other, None)).await?;
    }
    must_be!(fixture.ledger.renew(&lease).await?, RenewOutcome::Held, "the first payment's renewal");
    must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the first payment's commit");
    Ok(())
}

pub(super) async fn one_payment_buys_it<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let purchase = fixture.purchase();
    let claim = again(fixture, purchase);
    let lease = fixture.sell(&claim).await?;
    let other = again(fixture, purchase);
    for _ in 0..2 {
        for ledger in [&fixture.ledger, &fixture.twin] {
            must_be!(
                ledger.reserve(&other).await?,
                ReserveOutcome::PurchaseConsumed,
                "another payment for a sold purchase"
            );
        }
        fixture.ledger.release(&lease).await?;
    }
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::IntentConsumed, "the pair that bought it");
    let same = fixture.claim_for(purchase, claim.payments());
    must_be!(fixture.reserve(&same).await?, ReserveOutcome::PaymentUsed, "the payment that bought it");
    must_be!(fixture.ledger.consumed(other.intent()).await?, None, "the other intent");
    // The payment is free for another purchase.
    let _ = fixture.sell(&as_for(&other, fixture.purchase())).await?;
    Ok(())
}

pub(super) async fn what_is_not_sold_is_free<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let purchase = fixture.purchase();
    let released = fixture.hold(&again(fixture, purchase)).await?;
    fixture.ledger.release(&released).await?;
    let refused = begin_settling(fixture, &again(fixture, purchase)).await?;
    fixture.ledger.not_settled(&refused).await?;
    must_be!(fixture.reserve(&again(fixture, purchase)).await?, ReserveOutcome::Busy { .. }, "what is held still");
    fixture.twin.release(&refused).await?;
    let held = fixture.hold(&again(fixture, purchase)).await?;
    // A second release does not free the purchase of another payment.
    fixture.ledger.release(&released).await?;
    fixture.ledger.release(&refused).await?;
    must_be!(fixture.reserve(&again(fixture, purchase)).await?, ReserveOutcome::Busy { .. }, "after a late release");
    must_be!(fixture.ledger.commit(&held, None).await?, CommitOutcome::Done, "the last payment's commit");
    must_be!(fixture.reserve(&again(fixture, purchase)).await?, ReserveOutcome::PurchaseConsumed, "after the sale");
    Ok(())
}

pub(super) async fn a_lease_that_ran_out_gives_way<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let purchase = fixture.purchase();
    let brief = claim_for(fixture.intent(), purchase, &[unsettled(fixture)], fixture.harness.lease());
    let old = fixture.hold(&brief).await?;
    fixture.run_out().await;
    let new = fixture.hold(&again(fixture, purchase)).await?;
    must_be!(fixture.ledger.settling(&old, &BEGUN).await?, RenewOutcome::LeaseLost, "the old holder's record");
    must_be!(fixture.ledger.commit(&old, None).await?, CommitOutcome::LeaseLost, "the old holder's commit");
    fixture.ledger.release(&old).await?;
    must_be!(fixture.reserve(&again(fixture, purchase)).await?, ReserveOutcome::Busy { .. }, "what was taken over");
    must_be!(fixture.ledger.commit(&new, None).await?, CommitOutcome::Done, "the new holder's commit");
    // The old pair is free, for another purchase.
    must_be!(fixture.reserve(&brief).await?, ReserveOutcome::PurchaseConsumed, "the old pair");
    let _ = fixture.sell(&as_for(&brief, None)).await?;
    Ok(())
}

pub(super) async fn what_was_begun_is_undecided<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for released in [true, false] {
        let purchase = fixture.purchase();
        let claim = claim_for(fixture.intent(), purchase, &[unsettled(fixture)], fixture.harness.lease());
        let lease = begin_settling(fixture, &claim).await?;
        match released {
            true => fixture.ledger.release(&lease).await?,
            false => fixture.run_out().await,
        }
        for payment in [unsettled(fixture), fixture.paid().into()] {
            let other = fixture.claim_for::<Payment>(purchase, &[payment]);
            must_be!(
                fixture.twin.reserve(&other).await?,
                ReserveOutcome::Busy { retry_after } if soon(retry_after),
                "another payment for what was begun"
            );
        }
        let lease = fixture.hold(&as_for(&claim, purchase)).await?;
        must_be!(lease.settling(), Some(begun) if *begun == BEGUN, "the record in the next lease");
        must_be!(fixture.reserve(&again(fixture, purchase)).await?, ReserveOutcome::Busy { .. }, "what is held again");
        match released {
            true => must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit in the end"),
            false => {
                fixture.ledger.not_settled(&lease).await?;
                fixture.ledger.release(&lease).await?;
                let _ = fixture.sell(&again(fixture, purchase)).await?;
            }
        }
        must_be!(
            fixture.reserve(&again(fixture, purchase)).await?,
            ReserveOutcome::PurchaseConsumed,
            "another payment in the end"
        );
    }
    Ok(())
}

pub(super) async fn what_was_begun_keeps_it<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    // The pair is shown again without its purchase, or with another one; or its intent is paid in another way.
    for (other_name, other_payment) in [(false, false), (true, false), (false, true)] {
        let purchase = fixture.purchase();
        let claim = again(fixture, purchase);
        let lease = begin_settling(fixture, &claim).await?;
        fixture.ledger.release(&lease).await?;
        let name = other_name.then(|| fixture.purchase());
        let resumed = match other_payment {
            true => claim_for(claim.intent(), name, &[fixture.paid()], LONG),
            false => as_for(&claim, name),
        };
        for _ in 0..2 {
            let lease = fixture.hold(&resumed).await?;
            must_be!(
                fixture.reserve(&again(fixture, purchase)).await?,
                ReserveOutcome::Busy { .. },
                "while it is held"
            );
            fixture.twin.release(&lease).await?;
            must_be!(fixture.reserve(&again(fixture, purchase)).await?, ReserveOutcome::Busy { .. }, "after a release");
        }
        let mut lease = fixture.hold(&resumed).await?;
        if !other_payment {
            must_be!(fixture.twin.settling(&lease, &BEGUN).await?, RenewOutcome::Held, "a second record");
            fixture.ledger.release(&lease).await?;
            must_be!(
                fixture.reserve(&again(fixture, purchase)).await?,
                ReserveOutcome::Busy { .. },
                "after a second record"
            );
            lease = fixture.hold(&resumed).await?;
        }
        must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit in the end");
        for ledger in [&fixture.ledger, &fixture.twin] {
            let other = again(fixture, purchase);
            must_be!(ledger.reserve(&other).await?, ReserveOutcome::PurchaseConsumed, "another payment after the sale");
        }
    }
    Ok(())
}

pub(super) async fn without_a_name_all_are_free<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    // Every value of the type is a valid key.
    let [none, all] = [0, 0xff].map(|byte| PurchaseKey::new([byte; 16]));
    let last = PurchaseKey::new([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    for purchase in [None, Some(none), None, Some(all), None, Some(last)] {
        let lease = fixture.hold(&claim_for(fixture.intent(), purchase, &[unsettled(fixture)], LONG)).await?;
        let sold = fixture.sell(&claim_for(fixture.intent(), fixture.purchase(), &[fixture.paid()], LONG)).await?;
        must_be!(sold.fencing_token(), fence if fence != lease.fencing_token(), "two fences");
        if purchase.is_some() {
            must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "its commit");
        }
    }
    for purchase in [none, all, last] {
        must_be!(
            fixture.reserve(&again(fixture, purchase)).await?,
            ReserveOutcome::PurchaseConsumed,
            "a name that is used"
        );
    }
    Ok(())
}

pub(super) async fn forgotten_with_its_sale<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let purchase = fixture.purchase();
    let lease = fixture.sell(&again(fixture, purchase)).await?;
    let held = fixture.purchase();
    let _ = begin_settling(fixture, &again(fixture, held)).await?;
    let end = lease.keep_until();
    for (head, remembered) in [(end, true), (end.after(Duration::from_secs(1)), false)] {
        let _ = fixture.ledger.sweep(Network::BASE, head).await?;
        let later = |purchase| {
            let signed = match unsettled(fixture) {
                Payment::Authorization(signed) => signed.with_shown(head.after(Duration::from_secs(9))),
                Payment::Transfer(_) | Payment::Permit(_) | Payment::Voucher(_) => return again(fixture, purchase),
            };
            let claim = Claim::builder("conformance", fixture.intent()).purchase(purchase).payments([signed]);
            claim.pay_until(head).head(head).max_payment_age(AGE).lease(LONG).build()
        };
        match remembered {
            true => {
                must_be!(fixture.reserve(&later(purchase)).await?, ReserveOutcome::PurchaseConsumed, "up to its end");
                must_be!(fixture.reserve(&later(held)).await?, ReserveOutcome::Busy { .. }, "what is undecided");
            }
            false => {
                let lease = fixture.hold(&later(purchase)).await?;
                must_be!(
                    fixture.ledger.commit(&lease, None).await?,
                    CommitOutcome::Done,
                    "a purchase that is forgotten"
                );
            }
        }
    }
    Ok(())
}

pub(super) async fn told_behind_intent_and_payment<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let purchase = fixture.purchase();
    let _ = fixture.sell(&again(fixture, purchase)).await?;
    let (sold, used) = (fixture.intent(), fixture.paid());
    let _ = fixture.sell(&fixture.claim(sold, std::slice::from_ref(&used))).await?;
    let of_intent = claim_for(sold, purchase, &[fixture.paid()], LONG);
    must_be!(fixture.reserve(&of_intent).await?, ReserveOutcome::IntentConsumed, "a consumed intent");
    let of_payment = fixture.claim_for(purchase, &[used]);
    must_be!(fixture.reserve(&of_payment).await?, ReserveOutcome::PaymentUsed, "a used payment");
    let (held, paid) = (fixture.intent(), fixture.paid());
    let _ = fixture.hold(&fixture.claim(held, std::slice::from_ref(&paid))).await?;
    for claim in [
        claim_for(held, purchase, &[fixture.paid()], LONG),
        fixture.claim_for(purchase, &[paid]),
        fixture.claim_for(purchase, &[fixture.paid_at(MARK)]),
    ] {
        must_be!(fixture.reserve(&claim).await?, ReserveOutcome::PurchaseConsumed, "what is held, or below the mark");
    }
    Ok(())
}
