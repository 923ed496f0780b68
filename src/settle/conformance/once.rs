//! Checks that a nonce pays at most once.

use std::{future::Future as _, pin::pin, task::Poll, time::Duration};

use super::{
    fixture::{Fault, Fixture, PRICE, must_be, units},
    harness::Harness,
};
use crate::{
    settle::{Settlement, Settler as _, SignedPayment, TransactionRecorder, Validity},
    verify::NonceState,
};

/// How many calls settle the same payment at once.
const MANY: usize = 5;

/// How long a dropped settlement may continue by itself.
const AFTERMATH: Duration = Duration::from_secs(60);

pub(super) async fn settled_twice<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    // The payer has enough for two payments.
    let payment = rich_payment(fixture).await;
    fixture.take(&payment).await?;
    for _ in 0..2 {
        let again = fixture.settle(&payment).await;
        not_denied(fixture, &payment, &again).await?;
    }
    fixture.received(1).await
}

pub(super) async fn settled_at_once<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = rich_payment(fixture).await;
    let settling: Vec<_> = (0..MANY)
        .map(|_| {
            let (settler, payment) = (fixture.settler.clone(), payment.clone());
            tokio::spawn(async move { settler.settle(&payment, &TransactionRecorder::none()).await })
        })
        .collect();
    let mut settlements = Vec::new();
    for settling in settling {
        settlements.push(settling.await.map_err(|_| Fault::new("it panicked"))?);
    }
    must_be!(fixture.state(&payment).await, NonceState::Used(_), "its nonce");
    for settlement in &settlements {
        not_denied(fixture, &payment, settlement).await?;
    }
    fixture.received(1).await
}

pub(super) async fn used_is_told<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = rich_payment(fixture).await;
    fixture.take(&payment).await?;
    must_be!(fixture.verify(&payment).await?, Validity::Used, "verifying what is settled");
    Ok(())
}

pub(super) async fn by_a_stranger<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = rich_payment(fixture).await;
    must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it");
    fixture.harness.submit(&payment.authorization).await;
    must_be!(fixture.verify(&payment).await?, Validity::Used, "verifying what is paid");
    let settlement = fixture.settle(&payment).await;
    not_denied(fixture, &payment, &settlement).await?;
    fixture.received(1).await
}

pub(super) async fn elsewhere<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = rich_payment(fixture).await;
    let elsewhere = fixture.harness.payer(units(0)).await;
    let ours = &payment.authorization.authorization;
    let theirs = fixture.signed(ours.clone().paying(elsewhere, units(1))).await;
    fixture.harness.submit(&theirs.authorization).await;
    pays_no_more(fixture, &payment).await
}

pub(super) async fn cancelled<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = rich_payment(fixture).await;
    cancel(fixture, &payment).await;
    pays_no_more(fixture, &payment).await
}

pub(super) async fn cancelled_after_verifying<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = rich_payment(fixture).await;
    must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it");
    cancel(fixture, &payment).await;
    must_be!(fixture.settle(&payment).await, Settlement::Refused(_) | Settlement::Unknown(_), "settling it");
    fixture.received(0).await
}

pub(super) async fn dropped_while_settling<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    // Each round waits longer before it drops the future; the first polls it once.
    for round in 0..4 {
        let payment = rich_payment(fixture).await;
        let wait = Duration::from_millis(3 * round * round);
        let settled = tokio::time::timeout(wait, fixture.settle(&payment)).await.ok();
        let ended = tokio::time::timeout(AFTERMATH, settle_until_used(fixture, &payment)).await;
        match ended {
            Ok(outcome) => outcome?,
            Err(_) => return Err(Fault::new(format!("after {settled:?} it is never settled"))),
        }
        fixture.received(u128::from(round) + 1).await?;
    }
    Ok(())
}

pub(super) async fn dropped_while_verifying<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = rich_payment(fixture).await;
    for _ in 0..3 {
        let mut verifying = pin!(fixture.settler.verify(&payment));
        std::future::poll_fn(|context| {
            let _ = verifying.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
    }
    must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it again");
    fixture.take(&payment).await?;
    fixture.received(1).await
}

/// Returns a payment of a payer with money for many payments.
async fn rich_payment<H: Harness>(fixture: &Fixture<'_, H>) -> SignedPayment {
    let payer = fixture.harness.payer(units(10 * PRICE)).await;
    fixture.signed(fixture.authorization(payer).await).await
}

async fn cancel<H: Harness>(fixture: &Fixture<'_, H>, payment: &SignedPayment) {
    let authorization = &payment.authorization.authorization;
    fixture.harness.cancel(authorization.from, authorization.nonce).await;
}

/// Fails unless a payment whose nonce was used otherwise is reported as used, and moves nothing.
async fn pays_no_more<H: Harness>(fixture: &Fixture<'_, H>, payment: &SignedPayment) -> Result<(), Fault> {
    must_be!(fixture.verify(payment).await?, Validity::Used, "verifying it");
    must_be!(fixture.settle(payment).await, Settlement::Refused(_) | Settlement::Unknown(_), "settling it");
    fixture.received(0).await
}

/// Fails if a payment that was made is reported as refused, or as made by another transaction.
async fn not_denied<H: Harness>(
    fixture: &Fixture<'_, H>,
    payment: &SignedPayment,
    settlement: &Settlement,
) -> Result<(), Fault> {
    match (settlement, fixture.state(payment).await) {
        (Settlement::Unknown(None), _) => Ok(()),
        (Settlement::Settled(told) | Settlement::Unknown(Some(told)), NonceState::Used(paid)) if *told == paid => {
            Ok(())
        }
        // This transaction was sent too late, and is not known to have paid.
        (Settlement::Unknown(Some(_)), NonceState::Used(_)) => Ok(()),
        (settlement, state) => {
            Err(Fault::new(format!("a payment that was made is reported as {settlement:?}, its nonce being {state:?}")))
        }
    }
}

/// Settles a payment repeatedly, as returning payers do, until the chain has it.
async fn settle_until_used<H: Harness>(fixture: &Fixture<'_, H>, payment: &SignedPayment) -> Result<(), Fault> {
    while !matches!(fixture.state(payment).await, NonceState::Used(_)) {
        let settlement = fixture.settle(payment).await;
        must_be!(settlement, Settlement::Settled(_) | Settlement::Unknown(_), "settling what was dropped");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // If anything were still in progress, it would move the money a second time.
    let again = fixture.settle(payment).await;
    not_denied(fixture, payment, &again).await
}
