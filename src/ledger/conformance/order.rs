//! The precedence among several reasons to refuse.

use super::{
    super::{Ledger, ReserveOutcome},
    fixture::{Fault, Fixture, MARK, must_be},
    harness::Harness,
};
use crate::protocol::Transfer;

pub(super) async fn intent_consumed_comes_first<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let (intent, used) = (fixture.intent(), fixture.paid());
    let _ = fixture.sell(&fixture.claim(intent, std::slice::from_ref(&used))).await?;
    let held = fixture.paid();
    let _ = fixture.hold(&fixture.claim(fixture.intent(), std::slice::from_ref(&held))).await?;
    for transfer in [used, held, fixture.paid_at(MARK), fixture.paid()] {
        let claim = fixture.claim(intent, &[transfer]);
        must_be!(fixture.reserve(&claim).await?, ReserveOutcome::IntentConsumed, "a consumed intent");
    }
    Ok(())
}

pub(super) async fn payment_used_comes_second<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let intent = fixture.intent();
    let used = [fixture.paid()];
    let _ = fixture.sell(&fixture.claim(fixture.intent(), &used)).await?;
    must_be!(fixture.reserve(&fixture.claim(intent, &used)).await?, ReserveOutcome::PaymentUsed, "a used payment");
    let _ = fixture.hold(&fixture.claim(intent, &[fixture.paid()])).await?;
    must_be!(
        fixture.reserve(&fixture.claim(intent, &used)).await?,
        ReserveOutcome::PaymentUsed,
        "a used payment, a held intent"
    );
    Ok(())
}

pub(super) async fn busy_comes_third<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let intent = fixture.intent();
    let first = fixture.paid();
    let other = fixture.hold(&fixture.claim(fixture.intent(), std::slice::from_ref(&first))).await?;
    let claim = fixture.claim(intent, std::slice::from_ref(&first));
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::Busy { .. }, "a held payment");
    let below = fixture.paid_at(MARK);
    let mixed = fixture.claim(fixture.intent(), &[below.clone(), first]);
    must_be!(fixture.reserve(&mixed).await?, ReserveOutcome::Busy { .. }, "a held payment and one below the mark");
    fixture.ledger.release(&other).await?;
    let _ = fixture.hold(&fixture.claim(intent, &[fixture.paid()])).await?;
    must_be!(fixture.reserve(&claim).await?, ReserveOutcome::IntentHeld { .. }, "a held intent");
    let below = fixture.claim(intent, &[below]);
    must_be!(
        fixture.reserve(&below).await?,
        ReserveOutcome::IntentHeld { .. },
        "a held intent and a payment below the mark"
    );
    Ok(())
}

pub(super) async fn before_memory_comes_last<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let used = fixture.paid();
    let _ = fixture.sell(&fixture.claim(fixture.intent(), std::slice::from_ref(&used))).await?;
    let below = Transfer { position: 1, block_time: fixture.paid_at(MARK).block_time, ..used.clone() };
    let rest = fixture.claim(fixture.intent(), &[used, below]);
    must_be!(fixture.reserve(&rest).await?, ReserveOutcome::BeforeMemory, "a used payment and one below the mark");
    Ok(())
}
