//! The precedence among several reasons to refuse.

use super::{
    super::{AttemptOutcome, Ledger, ReserveOutcome},
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
    // The intent had its sixteen attempts on it, and is held by now on another.
    fixture.fail(&fixture.claim(intent, &used), 16).await?;
    let _ = fixture.sell(&fixture.claim(fixture.intent(), &used)).await?;
    must_be!(
        fixture.reserve(&fixture.claim(intent, &used)).await?,
        ReserveOutcome::PaymentUsed,
        "a used payment in a pause"
    );
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
    let paused = [first.clone()];
    fixture.fail(&fixture.claim(intent, &paused), 16).await?;
    let pause = fixture.claim(intent, &paused);
    let other = fixture.hold(&fixture.claim(fixture.intent(), &paused)).await?;
    must_be!(fixture.reserve(&pause).await?, ReserveOutcome::Busy { .. }, "a held payment in a pause");
    let below = fixture.paid_at(MARK);
    let mixed = fixture.claim(fixture.intent(), &[below.clone(), first]);
    must_be!(fixture.reserve(&mixed).await?, ReserveOutcome::Busy { .. }, "a held payment and one below the mark");
    fixture.ledger.release(&other, AttemptOutcome::Started).await?;
    must_be!(fixture.reserve(&pause).await?, ReserveOutcome::TooManyAttempts { .. }, "the pause alone");
    let _ = fixture.hold(&fixture.claim(intent, &[fixture.paid()])).await?;
    must_be!(fixture.reserve(&pause).await?, ReserveOutcome::Busy { .. }, "a held intent in a pause");
    let below = fixture.claim(intent, &[below]);
    must_be!(fixture.reserve(&below).await?, ReserveOutcome::Busy { .. }, "a held intent and a payment below the mark");
    Ok(())
}

pub(super) async fn before_memory_comes_last<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let used = fixture.paid();
    let _ = fixture.sell(&fixture.claim(fixture.intent(), std::slice::from_ref(&used))).await?;
    let below = Transfer { position: 1, block_time: fixture.paid_at(MARK).block_time, ..used.clone() };
    let free = Transfer { position: 2, ..used.clone() };
    let intent = fixture.intent();
    let rest = fixture.claim(intent, &[used.clone(), below.clone()]);
    must_be!(fixture.reserve(&rest).await?, ReserveOutcome::BeforeMemory, "a used payment and one below the mark");
    let all = fixture.claim(intent, &[used, below, free]);
    fixture.fail(&all, 16).await?;
    must_be!(
        fixture.reserve(&all).await?,
        ReserveOutcome::TooManyAttempts { .. },
        "a pause, and a payment below the mark"
    );
    must_be!(fixture.reserve(&rest).await?, ReserveOutcome::BeforeMemory, "the payment below the mark again");
    Ok(())
}
