//! Of several reasons to refuse, which one is told.

use super::{
    super::{Handler, Ledger, Reservation},
    Harness,
    stage::{Fault, MARK, Stage, must_be},
};
use crate::protocol::Transfer;

pub(super) async fn intent_consumed_comes_first<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let (intent, used) = (stage.intent(), stage.paid());
    let _ = stage.sell(&stage.claim(intent, std::slice::from_ref(&used))).await?;
    let held = stage.paid();
    let _ = stage.hold(&stage.claim(stage.intent(), std::slice::from_ref(&held))).await?;
    for transfer in [used, held, stage.paid_at(MARK), stage.paid()] {
        let claim = stage.claim(intent, &[transfer]);
        must_be!(stage.reserve(&claim).await?, Reservation::IntentConsumed, "a consumed intent");
    }
    Ok(())
}

pub(super) async fn payment_used_comes_second<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let intent = stage.intent();
    let used = [stage.paid()];
    // The intent had its sixteen attempts on it, and is held by now on another.
    stage.fail(&stage.claim(intent, &used), 16).await?;
    let _ = stage.sell(&stage.claim(stage.intent(), &used)).await?;
    must_be!(stage.reserve(&stage.claim(intent, &used)).await?, Reservation::PaymentUsed, "a used payment in a pause");
    let _ = stage.hold(&stage.claim(intent, &[stage.paid()])).await?;
    must_be!(
        stage.reserve(&stage.claim(intent, &used)).await?,
        Reservation::PaymentUsed,
        "a used payment, a held intent"
    );
    Ok(())
}

pub(super) async fn busy_comes_third<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let intent = stage.intent();
    let first = stage.paid();
    let paused = [first.clone()];
    stage.fail(&stage.claim(intent, &paused), 16).await?;
    let pause = stage.claim(intent, &paused);
    let other = stage.hold(&stage.claim(stage.intent(), &paused)).await?;
    must_be!(stage.reserve(&pause).await?, Reservation::Busy { .. }, "a held payment in a pause");
    let below = stage.paid_at(MARK);
    let mixed = stage.claim(stage.intent(), &[below.clone(), first]);
    must_be!(stage.reserve(&mixed).await?, Reservation::Busy { .. }, "a held payment and one below the mark");
    stage.ledger.release(&other, Handler::Started).await?;
    must_be!(stage.reserve(&pause).await?, Reservation::TooManyAttempts { .. }, "the pause alone");
    let _ = stage.hold(&stage.claim(intent, &[stage.paid()])).await?;
    must_be!(stage.reserve(&pause).await?, Reservation::Busy { .. }, "a held intent in a pause");
    let below = stage.claim(intent, &[below]);
    must_be!(stage.reserve(&below).await?, Reservation::Busy { .. }, "a held intent and a payment below the mark");
    Ok(())
}

pub(super) async fn before_memory_comes_last<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let used = stage.paid();
    let _ = stage.sell(&stage.claim(stage.intent(), std::slice::from_ref(&used))).await?;
    let below = Transfer { position: 1, block_time: stage.paid_at(MARK).block_time, ..used.clone() };
    let free = Transfer { position: 2, ..used.clone() };
    let intent = stage.intent();
    let rest = stage.claim(intent, &[used.clone(), below.clone()]);
    must_be!(stage.reserve(&rest).await?, Reservation::BeforeMemory, "a used payment and one below the mark");
    let all = stage.claim(intent, &[used, below, free]);
    stage.fail(&all, 16).await?;
    must_be!(stage.reserve(&all).await?, Reservation::TooManyAttempts { .. }, "a pause, and a payment below the mark");
    must_be!(stage.reserve(&rest).await?, Reservation::BeforeMemory, "the payment below the mark again");
    Ok(())
}
