//! Checks that a permit that cannot be charged is refused, and nothing moves.

use std::time::Duration;

use super::{
    fixture::{Fixture, SCHEMES},
    harness::PermitHarness,
};
use crate::{
    protocol::{
        ChainTime,
        permit2::{PERMIT2, Permit, PermitScheme},
    },
    settle::{
        Validity,
        conformance::fixture::{Fault, PRICE, must_be, price, units},
    },
};

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn a_charge_beyond_what_was_signed<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    for (scheme, charges) in
        [(PermitScheme::UpTo, &[0, PRICE + 1, u128::MAX][..]), (PermitScheme::Exact, &[0, 1, PRICE - 1, PRICE + 1])]
    {
        let payment = fixture.rich(scheme).await;
        for charge in charges {
            fixture.refuses_to_charge(&payment, *charge).await?;
        }
    }
    Ok(())
}

pub(super) async fn another_signer<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let stranger = fixture.harness.payer(units(PRICE)).await;
    for scheme in SCHEMES {
        let permit = fixture.rich(scheme).await.permit.permit;
        let signature = fixture.harness.sign(stranger, &permit).await;
        fixture.refuses(&fixture.payment(permit, signature)).await?;
    }
    Ok(())
}

pub(super) async fn tampered<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    for scheme in SCHEMES {
        let honest = fixture.rich(scheme).await.permit.permit;
        for signed in others(fixture, &honest).await {
            // The offer is the seller's, but the signature is for something else.
            let signature = fixture.harness.sign(honest.from, &signed).await;
            fixture.refuses(&fixture.payment(honest.clone(), signature)).await?;
        }
        let longer = honest.clone().valid_between(honest.valid_after, honest.deadline.after(HOUR));
        let signature = fixture.harness.sign(honest.from, &longer).await;
        fixture.refuses(&fixture.payment(honest, signature)).await?;
    }
    Ok(())
}

pub(super) async fn not_offered<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    for scheme in SCHEMES {
        let honest = fixture.rich(scheme).await.permit.permit;
        for permit in others(fixture, &honest).await {
            fixture.refuses(&fixture.signed(permit).await).await?;
        }
    }
    Ok(())
}

/// Returns the same permit with one difference each from the seller's offer.
async fn others<H: PermitHarness>(fixture: &Fixture<'_, H>, honest: &Permit) -> Vec<Permit> {
    let elsewhere = fixture.harness.payer(units(0)).await;
    let mut others = vec![
        honest.clone().paying(elsewhere, honest.token, price()),
        honest.clone().paying(honest.to, elsewhere, price()),
        honest.clone().paying(honest.to, honest.token, units(PRICE - 1)),
        honest.clone().paying(honest.to, honest.token, units(PRICE + 1)),
        Permit { spender: PERMIT2, ..honest.clone() },
    ];
    if honest.scheme() == PermitScheme::UpTo {
        others.push(honest.clone().by_facilitator(elsewhere));
    }
    others
}

pub(super) async fn out_of_time<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let now = fixture.harness.now().await;
    let (over, soon) = (ChainTime::from_unix(now.unix().saturating_sub(1)), now.after(HOUR));
    for scheme in SCHEMES {
        for (after, deadline) in [(ChainTime::from_unix(0), over), (soon, soon.after(HOUR))] {
            let permit = fixture.rich(scheme).await.permit.permit.valid_between(after, deadline);
            fixture.refuses(&fixture.signed(permit).await).await?;
        }
    }
    Ok(())
}

pub(super) async fn no_balance<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    for scheme in SCHEMES {
        for funds in [0, PRICE - 1] {
            let payer = fixture.harness.payer(units(funds)).await;
            fixture.refuses(&fixture.signed(fixture.permit(scheme, payer).await).await).await?;
        }
    }
    Ok(())
}

pub(super) async fn balance_gone<H: PermitHarness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    for scheme in SCHEMES {
        let payment = fixture.rich(scheme).await;
        must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it");
        fixture.harness.spend(payment.permit.permit.from).await;
        fixture.refuses_to_charge(&payment, PRICE).await?;
    }
    Ok(())
}
