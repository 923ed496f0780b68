//! Checks that a payment that cannot be made is refused, and nothing moves.

use std::time::Duration;

use super::{
    fixture::{Fault, Fixture, PRICE, must_be, price, units},
    harness::Harness,
};
use crate::{
    protocol::{Amount, ChainTime, PaymentSignature},
    settle::Validity,
};

/// How long, in seconds, a settler may remember a refusal.
const BLOCK_SECONDS: usize = 3;

const HOUR: Duration = Duration::from_secs(3_600);

pub(super) async fn another_signer<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let (payer, stranger) = (fixture.payer().await, fixture.payer().await);
    let authorization = fixture.authorization(payer).await;
    let signature = fixture.harness.sign(stranger, &authorization).await;
    fixture.refuses(&fixture.payment(authorization, signature)).await
}

pub(super) async fn tampered<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payer = fixture.harness.payer(units(10 * PRICE)).await;
    let honest = fixture.authorization(payer).await;
    let elsewhere = fixture.harness.payer(units(0)).await;
    let changed = [
        honest.clone().paying(elsewhere, price()),
        honest.clone().paying(fixture.seller, units(PRICE - 1)),
        honest.clone().valid_between(ChainTime::from_unix(honest.valid_after.unix() + 1), honest.valid_before),
        honest.clone().valid_between(honest.valid_after, honest.valid_before.after(HOUR)),
    ];
    for signed in changed {
        // The offer is the seller's, but the signature is for something else.
        let signature = fixture.harness.sign(payer, &signed).await;
        fixture.refuses(&fixture.payment(honest.clone(), signature)).await?;
    }
    Ok(())
}

pub(super) async fn odd_signatures<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payer = fixture.payer().await;
    let authorization = fixture.authorization(payer).await;
    for length in [1, 32, 64, 65, 66, 97, 1_000, 4_096] {
        for byte in [0, 27, 0xff] {
            let Ok(signature) = PaymentSignature::new(vec![byte; length]) else { continue };
            fixture.refuses(&fixture.payment(authorization.clone(), signature)).await?;
        }
    }
    Ok(())
}

pub(super) async fn less_than_the_price<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    over(fixture, units(PRICE - 1)).await
}

pub(super) async fn more_than_the_price<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    over(fixture, units(PRICE + 1)).await
}

async fn over<H: Harness>(fixture: &Fixture<'_, H>, amount: Amount) -> Result<(), Fault> {
    let payer = fixture.harness.payer(units(10 * PRICE)).await;
    let authorization = fixture.authorization(payer).await.paying(fixture.seller, amount);
    fixture.refuses(&fixture.signed(authorization).await).await
}

pub(super) async fn another_recipient<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let (payer, elsewhere) = (fixture.payer().await, fixture.harness.payer(units(0)).await);
    let authorization = fixture.authorization(payer).await.paying(elsewhere, price());
    fixture.refuses(&fixture.signed(authorization).await).await?;
    must_be!(fixture.harness.balance(elsewhere).await, Amount::ZERO, "what the other account has");
    Ok(())
}

pub(super) async fn expired<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payer = fixture.payer().await;
    let over = fixture.harness.now().await.unix().saturating_sub(1);
    let authorization = fixture.authorization(payer).await;
    let authorization = authorization.valid_between(ChainTime::from_unix(0), ChainTime::from_unix(over));
    fixture.refuses(&fixture.signed(authorization).await).await
}

pub(super) async fn not_yet_valid<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payer = fixture.payer().await;
    let begins = fixture.harness.now().await.after(HOUR);
    let authorization = fixture.authorization(payer).await.valid_between(begins, begins.after(HOUR));
    fixture.refuses(&fixture.signed(authorization).await).await
}

pub(super) async fn no_balance<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    for funds in [0, PRICE - 1] {
        let payer = fixture.harness.payer(units(funds)).await;
        fixture.refuses(&fixture.signed(fixture.authorization(payer).await).await).await?;
    }
    Ok(())
}

pub(super) async fn balance_gone<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = fixture.paid().await;
    must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it");
    spend(fixture, &payment).await;
    fixture.refuses_to_settle(&payment).await
}

pub(super) async fn refused_stays_payable<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = fixture.paid().await;
    let purse = spend(fixture, &payment).await;
    fixture.refuses(&payment).await?;
    let back = fixture.authorization(purse).await.paying(payment.authorization.authorization.from, units(1));
    fixture.harness.submit(&fixture.signed(back).await.authorization).await;
    // A settler may remember a refusal for a block.
    let mut validity = fixture.verify(&payment).await?;
    for _ in 0..BLOCK_SECONDS {
        if validity == Validity::Valid {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        validity = fixture.verify(&payment).await?;
    }
    must_be!(validity, Validity::Valid, "verifying it with the money back, a block later");
    fixture.take(&payment).await?;
    fixture.received(1).await
}

/// Moves one base unit from the payment's payer, under another nonce, and returns its new owner.
async fn spend<H: Harness>(
    fixture: &Fixture<'_, H>,
    payment: &crate::settle::SignedPayment,
) -> crate::protocol::Address {
    let purse = fixture.harness.payer(units(0)).await;
    let other = fixture.authorization(payment.authorization.authorization.from).await.paying(purse, units(1));
    fixture.harness.submit(&fixture.signed(other).await.authorization).await;
    purse
}
