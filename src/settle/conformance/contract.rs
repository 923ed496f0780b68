//! Checks of payers that are contract accounts.

use super::{
    fixture::{Fault, Fixture, must_be},
    harness::Harness,
};
use crate::settle::Validity;

pub(super) async fn its_own_signature<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payer = fixture.contract_payer().await?;
    let payment = fixture.signed(fixture.authorization(payer).await).await;
    must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it");
    fixture.take(&payment).await?;
    must_be!(fixture.verify(&payment).await?, Validity::Used, "verifying it again");
    fixture.received(1).await
}

pub(super) async fn anothers_signature<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payer = fixture.contract_payer().await?;
    let stranger = fixture.payer().await;
    let authorization = fixture.authorization(payer).await;
    let signature = fixture.harness.sign(stranger, &authorization).await;
    fixture.refuses(&fixture.payment(authorization, signature)).await
}
