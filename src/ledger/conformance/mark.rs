//! The low-water mark, and what is forgotten above which it rises.

use super::{
    super::{Claim, Handler, Ledger, Reservation},
    Harness,
    stage::{Fault, HEAD, LONG, MARK, PAID, PAY_UNTIL, Stage, claim, must_be},
};
use crate::protocol::{ChainTime, IntentKey, Transfer};

/// After so many claims beyond its time a sale must be forgotten.
const NUDGES: usize = 64;

pub(super) async fn begin_is_repeatable<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    for head in [MARK, MARK - 50, MARK + 50] {
        stage.twin.begin(ChainTime::from_unix(head)).await?;
        let above = stage.claim(stage.intent(), &[stage.paid_at(MARK + 1)]);
        let _ = stage.sell(&above).await?;
        let at = stage.claim(stage.intent(), &[stage.paid_at(MARK)]);
        must_be!(stage.reserve(&at).await?, Reservation::BeforeMemory, "a payment at the first mark");
        must_be!(stage.ledger.is_consumed(above.intent()).await?, true, "what was sold is consumed");
    }
    Ok(())
}

pub(super) async fn payments_at_or_below_are_refused<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    for block_time in [0, MARK - 1, MARK] {
        let claim = stage.claim(stage.intent(), &[stage.paid_at(block_time)]);
        must_be!(stage.reserve(&claim).await?, Reservation::BeforeMemory, "a payment at or below the mark");
        must_be!(stage.reserve(&claim).await?, Reservation::BeforeMemory, "the same once more");
    }
    let _ = stage.sell(&stage.claim(stage.intent(), &[stage.paid_at(MARK + 1)])).await?;
    Ok(())
}

pub(super) async fn payments_above_are_taken<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let below = stage.paid_at(MARK);
    let above = Transfer { position: 1, block_time: ChainTime::from_unix(PAID), ..below.clone() };
    let lease = stage.hold(&stage.claim(stage.intent(), &[below, above])).await?;
    must_be!(lease.transfer().position, 1, "the transfer that is taken");
    Ok(())
}

pub(super) async fn kept_to_the_second<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    // One that its payment keeps, one that its intent's expiry keeps.
    for pay_until in [PAID - 50, PAY_UNTIL] {
        let sold = claim(stage.intent(), &[stage.paid()], pay_until, HEAD, LONG);
        let lease = stage.sell(&sold).await?;
        let last = sold.keep_until(lease.transfer()).unix();
        nudge(stage, last, None).await?;
        must_be!(stage.ledger.is_consumed(sold.intent()).await?, true, "in its last second the intent is consumed");
        let back = stage.claim_at(last, sold.intent(), sold.transfers());
        must_be!(stage.reserve(&back).await?, Reservation::IntentConsumed, "the pair in its last second");
        let other = stage.claim_at(last, stage.intent(), sold.transfers());
        must_be!(stage.reserve(&other).await?, Reservation::PaymentUsed, "the payment in its last second");
    }
    Ok(())
}

pub(super) async fn forgetting_raises_the_mark<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let sold = stage.claim(stage.intent(), &[stage.paid()]);
    let beyond = sell_and_outlive(stage, &sold).await?;
    let back = stage.claim_at(beyond, stage.intent(), sold.transfers());
    must_be!(stage.reserve(&back).await?, Reservation::BeforeMemory, "a payment that was sold and forgotten");
    let pair = stage.claim_at(beyond, sold.intent(), sold.transfers());
    must_be!(stage.reserve(&pair).await?, Reservation::BeforeMemory, "a pair that was sold and forgotten");
    let beside = stage.claim_at(beyond, stage.intent(), &[stage.paid_at(PAID)]);
    must_be!(
        stage.reserve(&beside).await?,
        Reservation::BeforeMemory,
        "an unknown payment as old as the forgotten one"
    );
    let _ = stage.sell(&stage.claim_at(beyond, stage.intent(), &[stage.paid_at(PAID + 1)])).await?;
    Ok(())
}

pub(super) async fn the_mark_never_falls<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    // The later payment is forgotten first, since its intent expired earlier.
    let later = claim(stage.intent(), &[stage.paid_at(PAID)], PAID, HEAD, LONG);
    let earlier = stage.claim(stage.intent(), &[stage.paid_at(MARK + 10)]);
    let _ = stage.sell(&earlier).await?;
    let _ = sell_and_outlive(stage, &later).await?;
    must_be!(stage.ledger.is_consumed(earlier.intent()).await?, true, "what need not be forgotten yet is consumed");
    let beyond = earlier.keep_until(&earlier.transfers()[0]).unix() + 1;
    nudge(stage, beyond, Some(earlier.intent())).await?;
    for head in [beyond, HEAD] {
        for claim in [&earlier, &later] {
            let back = stage.claim_at(head, stage.intent(), claim.transfers());
            must_be!(stage.reserve(&back).await?, Reservation::BeforeMemory, "a payment that was sold and forgotten");
        }
    }
    stage.ledger.begin(ChainTime::from_unix(MARK)).await?;
    let back = stage.claim(stage.intent(), later.transfers());
    must_be!(stage.reserve(&back).await?, Reservation::BeforeMemory, "a forgotten payment after another begin");
    Ok(())
}

pub(super) async fn nothing_sold_nothing_raised<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    let released = stage.claim(stage.intent(), &[stage.paid()]);
    let lease = stage.hold(&released).await?;
    stage.ledger.release(&lease, Handler::Started).await?;
    let run_out = stage.brief(stage.intent(), &[stage.paid()]);
    let _ = stage.hold(&run_out).await?;
    stage.run_out().await;
    let beyond = released.keep_until(&released.transfers()[0]).unix() + 1;
    nudge(stage, beyond, None).await?;
    for claim in [&released, &run_out] {
        let _ = stage.hold(&stage.claim_at(beyond, stage.intent(), claim.transfers())).await?;
    }
    Ok(())
}

/// Sells, and claims beyond the sale's time until it is forgotten; tells that time.
async fn sell_and_outlive<H: Harness>(stage: &Stage<'_, H>, claim: &Claim) -> Result<u64, Fault> {
    let lease = stage.sell(claim).await?;
    let beyond = claim.keep_until(lease.transfer()).unix() + 1;
    nudge(stage, beyond, Some(claim.intent())).await?;
    Ok(beyond)
}

/// Makes claims at this head, and sees whether they make the ledger forget.
async fn nudge<H: Harness>(stage: &Stage<'_, H>, head: u64, forgets: Option<IntentKey>) -> Result<(), Fault> {
    for _ in 0..NUDGES {
        let lease = stage.hold(&stage.young_claim(head, &[stage.paid_at(head)])).await?;
        stage.ledger.release(&lease, Handler::NotStarted).await?;
        match forgets {
            Some(intent) if !stage.ledger.is_consumed(intent).await? => return Ok(()),
            _ => {}
        }
    }
    must_be!(forgets, None, "a sale that age rules out is still remembered");
    Ok(())
}
