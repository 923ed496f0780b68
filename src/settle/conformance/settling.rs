//! Checks that a payable payment is settled.

use std::time::Duration;

use super::{
    fixture::{Fault, Fixture, PRICE, must_be, units},
    harness::Harness,
};
use crate::{
    protocol::{Amount, Network},
    settle::{Settlement, Settler as _, SignedPayment, TransactionRecorder, Validity},
    verify::NonceState,
};

/// How many payments arrive at once.
const MANY: u128 = 8;

pub(super) async fn healthy<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    Ok(fixture.settler.health().await?)
}

pub(super) async fn the_domain_is_the_tokens<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let (token, domain) = (fixture.harness.token(), fixture.harness.domain());
    let (settler, contract) = (&fixture.settler, token.contract());
    let told = settler.domain(token.network(), contract, Some(&domain)).await?;
    must_be!(&told, Some(told) if *told == domain, "where the token states it");
    match settler.domain(token.network(), contract, None).await? {
        Some(told) if told != domain => return Err(Fault::new(format!("a domain of no token: {told:?}"))),
        _ => {}
    }
    let elsewhere = Network::eip155(token.network().chain_id() ^ 1);
    must_be!(settler.domain(elsewhere, contract, None).await, Ok(None) | Err(_), "on another chain");
    Ok(())
}

pub(super) async fn verified_is_settled<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = fixture.paid().await;
    must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it");
    fixture.take(&payment).await?;
    fixture.received(1).await?;
    let left = fixture.harness.balance(payment.authorization.authorization.from).await;
    must_be!(left, Amount::ZERO, "what the payer has left");
    Ok(())
}

pub(super) async fn verifying_sends_nothing<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = fixture.paid().await;
    for _ in 0..3 {
        must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it");
    }
    must_be!(fixture.state(&payment).await, NonceState::Unused, "its nonce");
    fixture.received(0).await
}

pub(super) async fn without_verifying<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payment = fixture.paid().await;
    fixture.take(&payment).await?;
    fixture.received(1).await
}

pub(super) async fn many_payers<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let mut payments = Vec::new();
    for _ in 0..MANY {
        payments.push(fixture.paid().await);
    }
    all_settled(fixture, payments).await
}

pub(super) async fn one_payer_many_nonces<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payer = fixture.harness.payer(units(MANY * PRICE)).await;
    let mut payments = Vec::new();
    for _ in 0..MANY {
        payments.push(fixture.signed(fixture.authorization(payer).await).await);
    }
    all_settled(fixture, payments).await
}

async fn all_settled<H: Harness>(fixture: &Fixture<'_, H>, payments: Vec<SignedPayment>) -> Result<(), Fault> {
    let settling: Vec<_> = payments
        .iter()
        .cloned()
        .map(|payment| {
            let settler = fixture.settler.clone();
            tokio::spawn(async move { settler.settle(&payment, &TransactionRecorder::none()).await })
        })
        .collect();
    for (payment, settling) in payments.iter().zip(settling) {
        let settlement = settling.await.map_err(|_| Fault::new("it panicked"))?;
        let state = fixture.state(payment).await;
        match (&settlement, state) {
            (Settlement::Settled(told), NonceState::Used(transaction)) if *told == transaction => {}
            _ => return Err(Fault::new(format!("one of them was {settlement:?}, its nonce being {state:?}"))),
        }
    }
    fixture.received(MANY).await
}

pub(super) async fn the_last_base_unit<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let payer = fixture.payer().await;
    let now = fixture.harness.now().await;
    // A long validity, as of clients that are in no hurry.
    let authorization = fixture.authorization(payer).await;
    let longest = now.after(Duration::from_secs(365 * 24 * 3_600));
    let begun = crate::protocol::ChainTime::from_unix(0);
    let payment = fixture.signed(authorization.valid_between(begun, longest)).await;
    must_be!(fixture.verify(&payment).await?, Validity::Valid, "verifying it");
    fixture.take(&payment).await?;
    fixture.received(1).await
}
