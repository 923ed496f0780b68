//! One ledger for several networks: each has its own chain time, so each has its own low-water mark.

use super::{
    super::{Ledger, ReserveOutcome},
    fixture::{AGE, Fault, Fixture, HEAD, MARK, PAID, must_be},
    harness::Harness,
};
use crate::protocol::{ChainTime, Network, Transfer};

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
