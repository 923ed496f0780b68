//! One ledger for several networks: each has its own chain time, so each has its own low-water mark.

use super::{
    super::{Ledger, ReserveOutcome},
    fixture::{AGE, BEGUN, Fault, Fixture, HEAD, MARK, PAID, must_be, unsettled},
    harness::Harness,
    settling::begin_settling,
};
use crate::protocol::{ChainTime, Network, Payment, SignedTransfer, Transfer};

const OTHER: Network = Network::BASE_SEPOLIA;

fn elsewhere(paid: Transfer) -> Transfer {
    Transfer { network: OTHER, ..paid }
}

pub(super) async fn each_has_its_own_mark<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    must_be!(
        fixture.twin.begin(OTHER, ChainTime::from_unix(PAID)).await?.unix(),
        PAID,
        "the mark of another network that begins later"
    );
    must_be!(fixture.ledger.begin(OTHER, ChainTime::from_unix(HEAD)).await?.unix(), PAID, "its mark begun again");
    must_be!(
        fixture.ledger.begin(Network::BASE, ChainTime::from_unix(HEAD)).await?.unix(),
        MARK,
        "the mark of the first network"
    );
    let at = fixture.claim(fixture.intent(), &[elsewhere(fixture.paid())]);
    must_be!(fixture.reserve(&at).await?, ReserveOutcome::BeforeMemory, "a payment at its own network's mark");
    let _ = fixture.sell(&fixture.claim(fixture.intent(), &[elsewhere(fixture.paid_at(PAID + 1))])).await?;
    let _ = fixture.sell(&fixture.claim(fixture.intent(), &[fixture.paid()])).await?;
    Ok(())
}

pub(super) async fn forgetting_is_its_own<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    fixture.begin_on(OTHER).await?;
    let (here, there) = (fixture.paid(), elsewhere(fixture.paid()));
    let sold = fixture.claim(fixture.intent(), std::slice::from_ref(&here));
    let _ = fixture.sell(&sold).await?;
    let forgotten = fixture.claim(fixture.intent(), std::slice::from_ref(&there));
    let _ = fixture.sell(&forgotten).await?;
    let beyond = ChainTime::from_unix(HEAD).after(10 * AGE);
    let _ = fixture.ledger.sweep(OTHER, beyond).await?;
    must_be!(fixture.ledger.consumed(forgotten.intent()).await?.is_some(), false, "a sale that its network forgot");
    must_be!(fixture.ledger.consumed(sold.intent()).await?.is_some(), true, "the sale of another network");
    let again = fixture.claim(fixture.intent(), &[here]);
    must_be!(fixture.reserve(&again).await?, ReserveOutcome::PaymentUsed, "its payment");
    let again = fixture.claim(fixture.intent(), &[there]);
    must_be!(
        fixture.reserve(&again).await?,
        ReserveOutcome::BeforeMemory | ReserveOutcome::PaymentUsed,
        "a payment that its network forgot"
    );
    // The mark rose on one network alone.
    let _ = fixture.sell(&fixture.claim(fixture.intent(), &[fixture.paid()])).await?;
    Ok(())
}

pub(super) async fn not_begun_sells_nothing<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let claim = fixture.claim(fixture.intent(), &[elsewhere(fixture.paid())]);
    must_be!(
        fixture.ledger.reserve(&claim).await,
        Err(_) | Ok(ReserveOutcome::BeforeMemory),
        "a claim on a network that has not begun"
    );
    let _ = fixture.sell(&fixture.claim(claim.intent(), &[fixture.paid()])).await?;
    Ok(())
}

/// The head of one network says nothing about the payments of another, which may still be settled.
pub(super) async fn settlements_are_its_own<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    fixture.begin_on(OTHER).await?;
    let there = match unsettled(fixture) {
        Payment::Authorization(signed) => SignedTransfer { network: OTHER, ..signed }.into(),
        other => other,
    };
    let claim = fixture.brief(fixture.intent(), &[unsettled(fixture)]);
    for begun in [&claim, &fixture.brief(fixture.intent(), &[there])] {
        let _ = begin_settling(fixture, begun).await?;
    }
    fixture.run_out().await;
    let _ = fixture.ledger.sweep(OTHER, ChainTime::from_unix(HEAD).after(10 * AGE)).await?;
    let (intent, payment) = (claim.intent(), claim.payments()[0].id());
    must_be!(
        fixture.ledger.begun(intent, payment).await?,
        Some(begun) if begun == BEGUN,
        "the record after a sweep of another network"
    );
    let foreign = fixture.claim(fixture.intent(), claim.payments());
    must_be!(fixture.reserve(&foreign).await?, ReserveOutcome::Busy { .. }, "a foreign claim on its payment");
    let lease = fixture.hold(&fixture.claim(intent, claim.payments())).await?;
    must_be!(lease.settling(), Some(begun) if *begun == BEGUN, "the record in its intent's next lease");
    Ok(())
}

pub(super) async fn each_candidate_has_its_own_mark<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let _ = fixture.ledger.begin(OTHER, ChainTime::from_unix(PAID)).await?;
    for other_first in [false, true] {
        let claim = |here, there| {
            let mut paid = [fixture.paid_at(here), elsewhere(fixture.paid_at(there))];
            if other_first {
                paid.reverse();
            }
            fixture.claim(fixture.intent(), &paid)
        };
        let lease = fixture.hold(&claim(MARK + 1, PAID)).await?;
        must_be!(lease.payment().network(), Network::BASE, "the network of the payment above its mark");
        let lease = fixture.hold(&claim(MARK, PAID + 1)).await?;
        must_be!(lease.payment().network(), OTHER, "the network of the payment above its mark, on the other network");
        must_be!(
            fixture.reserve(&claim(MARK, PAID)).await?,
            ReserveOutcome::BeforeMemory,
            "two payments, each at its own network's mark"
        );
    }
    Ok(())
}
