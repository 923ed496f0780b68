//! The low-water mark, and what is forgotten above which it rises.

use super::{
    super::{Claim, Handler, Ledger, Reservation},
    Harness,
    stage::{AGE, Fault, HEAD, LONG, MARK, PAID, PAY_UNTIL, Stage, claim, must_be},
};
use crate::protocol::{ChainTime, Transfer};

/// After so many claims beyond its time a sale must be forgotten.
const NUDGES: usize = 64;

pub(super) async fn begin_is_repeatable<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    for head in [MARK, MARK - 50, MARK + 50] {
        must_be!(stage.twin.begin(ChainTime::from_unix(head)).await?.unix(), MARK, "the mark that begin tells");
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
    refused(stage, beyond, &sold).await?;
    let beside = stage.claim_at(beyond, stage.intent(), &[stage.paid_at(PAID)]);
    must_be!(
        stage.reserve(&beside).await?,
        Reservation::BeforeMemory,
        "an unknown payment as old as the forgotten one"
    );
    let _ = stage.sell(&stage.claim_at(beyond, stage.intent(), &[stage.paid_at(PAID + 1)])).await?;
    Ok(())
}

pub(super) async fn mined_again_is_kept_by_its_later_time<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    const HOUR: u64 = 3_600;
    stage.begin().await?;
    // It is shown under another intent, or under its own; the second time the mark is higher.
    for (paid, own) in [(PAID, false), (PAID + 20 * HOUR, true)] {
        let at = |time, intent, transfers: &[Transfer]| claim(intent, transfers, paid, time, LONG);
        let sold = at(paid, stage.intent(), &[stage.paid_at(paid)]);
        let lease = stage.sell(&sold).await?;
        let moved = |hours| {
            let block_time = ChainTime::from_unix(paid + hours * HOUR);
            [Transfer { block_time, ..lease.transfer().clone() }]
        };
        let shown = at(paid + 9 * HOUR, if own { sold.intent() } else { stage.intent() }, &moved(9));
        for again in [&shown, &at(paid + 9 * HOUR, shown.intent(), &moved(1)), &shown] {
            let told = stage.reserve(again).await?;
            let used = matches!(told, Reservation::PaymentUsed | Reservation::IntentConsumed);
            must_be!(used, true, "a sold payment that was mined again is refused");
        }
        // Neither the time of the sale nor an earlier one than was shown decides how long it is kept.
        let last = shown.keep_until(&moved(9)[0]).unix();
        nudge(stage, last, None).await?;
        let back = at(last, stage.intent(), &moved(9));
        must_be!(stage.reserve(&back).await?, Reservation::PaymentUsed, "the payment in its new last second");
        must_be!(stage.ledger.is_consumed(sold.intent()).await?, true, "until then its intent is consumed");
        nudge(stage, last + 1, Some(paid + 9 * HOUR)).await?;
        refused(stage, last + 1, &at(last, sold.intent(), &moved(9))).await?;
        let _ = stage.sell(&at(last + 1, stage.intent(), &[stage.paid_at(paid + 9 * HOUR + 1)])).await?;
    }
    Ok(())
}

pub(super) async fn mined_again_is_refused_unseen<H: Harness>(stage: &Stage<'_, H>) -> Result<(), Fault> {
    stage.begin().await?;
    for later in [600, 3_600, 12 * 3_600, AGE.as_secs()] {
        let sold = claim(stage.intent(), &[stage.paid()], PAID, HEAD, stage.harness.lease());
        let lease = stage.sell(&sold).await?;
        let moved = Transfer { block_time: ChainTime::from_unix(PAID + later), ..lease.transfer().clone() };
        // The last second in which its age lets it count.
        let head = PAID + later + AGE.as_secs();
        nudge(stage, head, None).await?;
        refused(stage, head, &stage.claim(sold.intent(), &[moved])).await?;
    }
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
    nudge(stage, beyond, None).await?;
    for head in [beyond, HEAD] {
        for claim in [&earlier, &later] {
            refused(stage, head, claim).await?;
        }
    }
    stage.ledger.begin(ChainTime::from_unix(MARK)).await?;
    refused(stage, HEAD, &later).await?;
    let beside = stage.claim(stage.intent(), &[stage.paid_at(PAID)]);
    must_be!(stage.reserve(&beside).await?, Reservation::BeforeMemory, "a payment at the mark after another begin");
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

/// Neither this pair nor its payment is sold again: the ledger knows it still, or its mark is above it.
async fn refused<H: Harness>(stage: &Stage<'_, H>, head: u64, sold: &Claim) -> Result<(), Fault> {
    for intent in [sold.intent(), stage.intent()] {
        let back = stage.claim_at(head, intent, sold.transfers());
        must_be!(
            stage.reserve(&back).await?,
            Reservation::BeforeMemory | Reservation::PaymentUsed | Reservation::IntentConsumed,
            "a payment that was sold"
        );
    }
    Ok(())
}

/// Sells, and claims beyond the sale's time until it is forgotten; tells that time.
async fn sell_and_outlive<H: Harness>(stage: &Stage<'_, H>, claim: &Claim) -> Result<u64, Fault> {
    let lease = stage.sell(claim).await?;
    let beyond = claim.keep_until(lease.transfer()).unix() + 1;
    nudge(stage, beyond, Some(lease.transfer().block_time.unix())).await?;
    Ok(beyond)
}

/// Makes claims at this head, and sees whether the mark rises to that time.
async fn nudge<H: Harness>(stage: &Stage<'_, H>, head: u64, mark: Option<u64>) -> Result<(), Fault> {
    for _ in 0..NUDGES {
        let lease = stage.hold(&stage.young_claim(head, &[stage.paid_at(head)])).await?;
        stage.ledger.release(&lease, Handler::NotStarted).await?;
        let Some(mark) = mark else { continue };
        match stage.reserve(&stage.young_claim(head, &[stage.paid_at(mark)])).await? {
            Reservation::BeforeMemory => return Ok(()),
            Reservation::Granted(lease) => stage.ledger.release(&lease, Handler::NotStarted).await?,
            other => return Err(Fault::new(format!("an unknown payment was told {other:?}"))),
        }
    }
    must_be!(mark, None, "a sale that age rules out is still remembered");
    Ok(())
}
