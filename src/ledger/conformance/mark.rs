//! The low-water mark, and the forgotten records that raise it.

use super::{
    super::{Claim, Ledger, ReserveOutcome},
    fixture::{AGE, Fault, Fixture, HEAD, LONG, MARK, PAID, PAY_UNTIL, claim, mined, must_be},
    harness::Harness,
};
use crate::protocol::{ChainTime, Network, Transfer};

/// A sale must be forgotten after this many claims beyond its time.
const NUDGES: usize = 64;

pub(super) async fn begin_is_repeatable<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for head in [MARK, MARK - 50, MARK + 50] {
        must_be!(
            fixture.twin.begin(Network::BASE, ChainTime::from_unix(head)).await?.unix(),
            MARK,
            "the mark that begin tells"
        );
        let above = fixture.claim(fixture.intent(), &[fixture.paid_at(MARK + 1)]);
        let _ = fixture.sell(&above).await?;
        let at = fixture.claim(fixture.intent(), &[fixture.paid_at(MARK)]);
        must_be!(fixture.reserve(&at).await?, ReserveOutcome::BeforeMemory, "a payment at the first mark");
        must_be!(fixture.ledger.consumed(above.intent()).await?.is_some(), true, "what was sold is consumed");
    }
    Ok(())
}

pub(super) async fn payments_at_or_below_are_refused<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for block_time in [0, MARK - 1, MARK] {
        let claim = fixture.claim(fixture.intent(), &[fixture.paid_at(block_time)]);
        must_be!(fixture.reserve(&claim).await?, ReserveOutcome::BeforeMemory, "a payment at or below the mark");
        must_be!(fixture.reserve(&claim).await?, ReserveOutcome::BeforeMemory, "the same once more");
    }
    let _ = fixture.sell(&fixture.claim(fixture.intent(), &[fixture.paid_at(MARK + 1)])).await?;
    Ok(())
}

pub(super) async fn payments_above_are_taken<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let below = fixture.paid_at(MARK);
    let above = Transfer { position: 1, block_time: ChainTime::from_unix(PAID), ..below.clone() };
    let lease = fixture.hold(&fixture.claim(fixture.intent(), &[below, above])).await?;
    must_be!(lease.payment().position(), Some(1), "the transfer that is taken");
    Ok(())
}

pub(super) async fn kept_to_the_second<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    // One sale is kept by its payment's age, one by its intent's expiry.
    for pay_until in [PAID - 50, PAY_UNTIL] {
        let sold = claim(fixture.intent(), &[fixture.paid()], pay_until, HEAD, LONG);
        let lease = fixture.sell(&sold).await?;
        let last = sold.keep_until(lease.payment()).unix();
        nudge(fixture, last, None).await?;
        must_be!(
            fixture.ledger.consumed(sold.intent()).await?.is_some(),
            true,
            "in its last second the intent is consumed"
        );
        let back = fixture.claim_at(last, sold.intent(), sold.payments());
        must_be!(fixture.reserve(&back).await?, ReserveOutcome::IntentConsumed, "the pair in its last second");
        let other = fixture.claim_at(last, fixture.intent(), sold.payments());
        must_be!(fixture.reserve(&other).await?, ReserveOutcome::PaymentUsed, "the payment in its last second");
    }
    Ok(())
}

pub(super) async fn forgetting_raises_the_mark<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let sold = fixture.claim(fixture.intent(), &[fixture.paid()]);
    let beyond = sell_and_outlive(fixture, &sold).await?;
    refused(fixture, beyond, &sold).await?;
    let beside = fixture.claim_at(beyond, fixture.intent(), &[fixture.paid_at(PAID)]);
    must_be!(
        fixture.reserve(&beside).await?,
        ReserveOutcome::BeforeMemory,
        "an unknown payment as old as the forgotten one"
    );
    let _ = fixture.sell(&fixture.claim_at(beyond, fixture.intent(), &[fixture.paid_at(PAID + 1)])).await?;
    Ok(())
}

pub(super) async fn mined_again_is_kept_by_its_later_time<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    const HOUR: u64 = 3_600;
    fixture.begin().await?;
    // It is shown under another intent, or under its own; the second time with a higher mark.
    for (paid, own) in [(PAID, false), (PAID + 20 * HOUR, true)] {
        let at = |time, intent, transfers: &[Transfer]| claim(intent, transfers, paid, time, LONG);
        let sold = at(paid, fixture.intent(), &[fixture.paid_at(paid)]);
        let lease = fixture.sell(&sold).await?;
        let sold_by = mined(&lease)?;
        let moved = |hours| {
            let block_time = ChainTime::from_unix(paid + hours * HOUR);
            [Transfer { block_time, ..sold_by.clone() }]
        };
        let shown = at(paid + 9 * HOUR, if own { sold.intent() } else { fixture.intent() }, &moved(9));
        for again in [&shown, &at(paid + 9 * HOUR, shown.intent(), &moved(1)), &shown] {
            let told = fixture.reserve(again).await?;
            let used = matches!(told, ReserveOutcome::PaymentUsed | ReserveOutcome::IntentConsumed);
            must_be!(used, true, "a sold payment that was mined again is refused");
        }
        // The latest time that was shown decides how long the sale is kept, not that of the sale or an earlier one.
        let last = shown.keep_until(&moved(9)[0].clone().into()).unix();
        nudge(fixture, last, None).await?;
        let back = at(last, fixture.intent(), &moved(9));
        must_be!(fixture.reserve(&back).await?, ReserveOutcome::PaymentUsed, "the payment in its new last second");
        must_be!(fixture.ledger.consumed(sold.intent()).await?.is_some(), true, "until then its intent is consumed");
        nudge(fixture, last + 1, Some(paid + 9 * HOUR)).await?;
        refused(fixture, last + 1, &at(last, sold.intent(), &moved(9))).await?;
        let _ = fixture.sell(&at(last + 1, fixture.intent(), &[fixture.paid_at(paid + 9 * HOUR + 1)])).await?;
    }
    Ok(())
}

/// The claim is granted the other payment, which is unused.
pub(super) async fn mined_again_beside_a_free_one<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    const LATER: u64 = PAID + 9 * 3_600;
    fixture.begin().await?;
    let at = |time, intent, transfers: &[Transfer]| claim(intent, transfers, PAID, time, LONG);
    let sold = at(PAID, fixture.intent(), &[fixture.paid()]);
    let sold_by = mined(&fixture.sell(&sold).await?)?.clone();
    let moved = Transfer { block_time: ChainTime::from_unix(LATER), ..sold_by };
    let free = fixture.paid_at(LATER);
    let shown = at(LATER, fixture.intent(), &[free.clone(), moved.clone()]);
    let lease = fixture.hold(&shown).await?;
    must_be!(lease.payment().transaction() == Some(free.transaction), true, "the payment that is free is taken");
    let last = shown.keep_until(&moved.clone().into()).unix();
    nudge(fixture, last, None).await?;
    let back = at(last, fixture.intent(), &[moved]);
    must_be!(fixture.reserve(&back).await?, ReserveOutcome::PaymentUsed, "the sold payment in its new last second");
    must_be!(fixture.ledger.consumed(sold.intent()).await?.is_some(), true, "until then its intent is consumed");
    Ok(())
}

pub(super) async fn mined_again_is_refused_unseen<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    for later in [600, 3_600, 12 * 3_600, AGE.as_secs()] {
        let sold = claim(fixture.intent(), &[fixture.paid()], PAID, HEAD, fixture.harness.lease());
        let lease = fixture.sell(&sold).await?;
        let moved = Transfer { block_time: ChainTime::from_unix(PAID + later), ..mined(&lease)?.clone() };
        // The last second at which the payment's age is allowed.
        let head = PAID + later + AGE.as_secs();
        nudge(fixture, head, None).await?;
        refused(fixture, head, &fixture.claim(sold.intent(), &[moved])).await?;
    }
    Ok(())
}

pub(super) async fn the_mark_never_falls<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    // The later payment is forgotten first, since its intent expired earlier.
    let later = claim(fixture.intent(), &[fixture.paid_at(PAID)], PAID, HEAD, LONG);
    let earlier = fixture.claim(fixture.intent(), &[fixture.paid_at(MARK + 10)]);
    let _ = fixture.sell(&earlier).await?;
    let _ = sell_and_outlive(fixture, &later).await?;
    must_be!(
        fixture.ledger.consumed(earlier.intent()).await?.is_some(),
        true,
        "what need not be forgotten yet is consumed"
    );
    let beyond = earlier.keep_until(&earlier.payments()[0]).unix() + 1;
    nudge(fixture, beyond, None).await?;
    for head in [beyond, HEAD] {
        for claim in [&earlier, &later] {
            refused(fixture, head, claim).await?;
        }
    }
    fixture.ledger.begin(Network::BASE, ChainTime::from_unix(MARK)).await?;
    refused(fixture, HEAD, &later).await?;
    let beside = fixture.claim(fixture.intent(), &[fixture.paid_at(PAID)]);
    must_be!(
        fixture.reserve(&beside).await?,
        ReserveOutcome::BeforeMemory,
        "a payment at the mark after another begin"
    );
    Ok(())
}

pub(super) async fn nothing_sold_nothing_raised<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let released = fixture.claim(fixture.intent(), &[fixture.paid()]);
    let lease = fixture.hold(&released).await?;
    fixture.ledger.release(&lease).await?;
    let run_out = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let _ = fixture.hold(&run_out).await?;
    fixture.run_out().await;
    let beyond = released.keep_until(&released.payments()[0]).unix() + 1;
    nudge(fixture, beyond, None).await?;
    for claim in [&released, &run_out] {
        let _ = fixture.hold(&fixture.claim_at(beyond, fixture.intent(), claim.payments())).await?;
    }
    Ok(())
}

/// Checks that neither this pair nor its payment is sold again: the ledger still knows it, or its mark is above it.
pub(super) async fn refused<H: Harness>(fixture: &Fixture<'_, H>, head: u64, sold: &Claim) -> Result<(), Fault> {
    for intent in [sold.intent(), fixture.intent()] {
        let back = fixture.claim_at(head, intent, sold.payments());
        must_be!(
            fixture.reserve(&back).await?,
            ReserveOutcome::BeforeMemory | ReserveOutcome::PaymentUsed | ReserveOutcome::IntentConsumed,
            "a payment that was sold"
        );
    }
    Ok(())
}

/// Sells, then makes claims beyond the sale's time until it is forgotten. Returns that time.
async fn sell_and_outlive<H: Harness>(fixture: &Fixture<'_, H>, claim: &Claim) -> Result<u64, Fault> {
    let lease = fixture.sell(claim).await?;
    let beyond = claim.keep_until(lease.payment()).unix() + 1;
    nudge(fixture, beyond, Some(lease.payment().time().unix())).await?;
    Ok(beyond)
}

/// Makes claims at this head, sweeps, and checks whether the mark rises to that time.
pub(super) async fn nudge<H: Harness>(fixture: &Fixture<'_, H>, head: u64, mark: Option<u64>) -> Result<(), Fault> {
    for _ in 0..NUDGES {
        let lease = fixture.hold(&fixture.young_claim(head, &[fixture.paid_at(head)])).await?;
        fixture.ledger.release(&lease).await?;
        let _ = fixture.ledger.sweep(Network::BASE, ChainTime::from_unix(head)).await?;
        let Some(mark) = mark else { continue };
        match fixture.reserve(&fixture.young_claim(head, &[fixture.paid_at(mark)])).await? {
            ReserveOutcome::BeforeMemory => return Ok(()),
            ReserveOutcome::Granted(lease) => fixture.ledger.release(&lease).await?,
            other => return Err(Fault::new(format!("an unknown payment was told {other:?}"))),
        }
    }
    must_be!(mark, None, "a sale that age rules out is still remembered");
    Ok(())
}
