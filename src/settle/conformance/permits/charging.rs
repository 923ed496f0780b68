//! Checks that a payable permit is charged once.

use std::time::Duration;

use super::{
    fixture::{Fixture, SCHEMES},
    harness::PermitHarness,
};
use crate::{
    protocol::permit2::PermitScheme,
    settle::{
        PermitSettler as _, Settlement, TransactionRecorder, Validity,
        conformance::fixture::{Fault, PRICE, must_be, units},
    },
};

/// The charge of an answer, below the permitted price.
const CHARGE: u128 = 1_858;

/// How many calls settle the same payment at once.
const MANY: u128 = 20;

/// How long a dropped settlement may continue by itself.
const AFTERMATH: Duration = Duration::from_secs(60);

pub(super) async fn the_charge_to_the_unit<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let mut received = 0;
    for (scheme, charge) in [
        (PermitScheme::Exact, PRICE),
        (PermitScheme::UpTo, CHARGE),
        (PermitScheme::UpTo, 1),
        (PermitScheme::UpTo, PRICE),
    ] {
        let payer = fixture.harness.payer(units(PRICE)).await;
        let payment = fixture.signed(fixture.permit(scheme, payer).await).await;
        must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it");
        fixture.charge(&payment, charge).await?;
        received += charge;
        fixture.received(received).await?;
        let left = fixture.harness.balance(payer).await;
        must_be!(left, left if left == units(PRICE - charge), "what the payer has left");
    }
    Ok(())
}

pub(super) async fn verifying_charges_nothing<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    for scheme in SCHEMES {
        let payment = fixture.rich(scheme).await;
        for _ in 0..3 {
            must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it");
        }
        must_be!(fixture.is_used(&payment).await, false, "whether its nonce is used");
    }
    fixture.received(0).await
}

pub(super) async fn without_verifying<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.charge(&fixture.rich(PermitScheme::UpTo).await, CHARGE).await?;
    fixture.received(CHARGE).await
}

pub(super) async fn again<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = fixture.rich(PermitScheme::UpTo).await;
    fixture.charge(&payment, CHARGE).await?;
    for charge in [CHARGE, CHARGE + 1, PRICE] {
        must_be!(
            fixture.settle(&payment, charge).await,
            Settlement::Unknown(_) | Settlement::Settled(_),
            "settling it again"
        );
    }
    fixture.received(CHARGE).await
}

pub(super) async fn at_once<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = fixture.rich(PermitScheme::UpTo).await;
    let settling: Vec<_> = (0..MANY)
        .map(|more| {
            let (settler, payment) = (fixture.settler.clone(), payment.clone());
            tokio::spawn(async move {
                settler.settle_permit(&payment, units(CHARGE + more % 4), &TransactionRecorder::none()).await
            })
        })
        .collect();
    for settling in settling {
        let settlement = settling.await.map_err(|_| Fault::new("it panicked"))?;
        must_be!(settlement, Settlement::Settled(_) | Settlement::Unknown(_), "one of many at once");
    }
    must_be!(fixture.is_used(&payment).await, true, "whether its nonce is used");
    let received = fixture.harness.balance(fixture.seller).await;
    must_be!(received, received if (units(CHARGE)..units(CHARGE + 4)).contains(&received), "what the seller has");
    Ok(())
}

pub(super) async fn used_is_told<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = fixture.rich(PermitScheme::UpTo).await;
    fixture.charge(&payment, CHARGE).await?;
    must_be!(fixture.verify(&payment).await?, Validity::Used, "verifying what is settled");
    Ok(())
}

pub(super) async fn many_nonces<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payer = fixture.harness.payer(units(8 * PRICE)).await;
    let mut settling = Vec::new();
    for more in 0..8 {
        let payment = fixture.signed(fixture.permit(PermitScheme::UpTo, payer).await).await;
        let settler = fixture.settler.clone();
        settling.push(tokio::spawn(async move {
            settler.settle_permit(&payment, units(CHARGE + more), &TransactionRecorder::none()).await
        }));
    }
    for settling in settling {
        let settlement = settling.await.map_err(|_| Fault::new("it panicked"))?;
        must_be!(settlement, Settlement::Settled(_), "one of eight");
    }
    fixture.received(8 * CHARGE + 28).await
}

pub(super) async fn dropped<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    // Each round waits longer before it drops the future; the first polls it once.
    for round in 0..4_u64 {
        let payment = fixture.rich(PermitScheme::UpTo).await;
        let wait = Duration::from_millis(3 * round * round);
        let _ = tokio::time::timeout(wait, fixture.settle(&payment, CHARGE)).await;
        let used = async {
            while !fixture.is_used(&payment).await {
                must_be!(
                    fixture.settle(&payment, CHARGE).await,
                    Settlement::Settled(_) | Settlement::Unknown(_),
                    "settling what was dropped"
                );
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        };
        tokio::time::timeout(AFTERMATH, used).await.map_err(|_| Fault::new("it is never settled"))??;
        // If anything were still in progress, it would move the money a second time.
        let _ = fixture.settle(&payment, CHARGE).await;
        fixture.received(CHARGE * (u128::from(round) + 1)).await?;
    }
    Ok(())
}
