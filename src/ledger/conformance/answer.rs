//! Answers that are kept with their sales.

use std::time::Duration;

use bytes::Bytes;

use super::{
    super::{CommitOutcome, KeptAnswer, Lease, Ledger, ReserveOutcome, Sale},
    fixture::{Fault, Fixture, LONG, must_be},
    harness::Harness,
};

/// The default limit of the paywall for a kept answer.
const LARGE: usize = 256 * 1024;

/// Commits the lease, with an answer of this content.
async fn sell_with<H: Harness>(
    fixture: &Fixture<'_, H>,
    content: impl Into<Bytes>,
    keep_for: Duration,
) -> Result<Lease, Fault> {
    let lease = fixture.hold(&fixture.claim(fixture.intent(), &[fixture.paid()])).await?;
    let answer = KeptAnswer::new(content, keep_for);
    must_be!(fixture.ledger.commit(&lease, Some(&answer)).await?, CommitOutcome::Done, "a commit with an answer");
    Ok(lease)
}

fn saying(content: impl Into<Bytes>) -> Option<Sale> {
    Some(Sale::new().with_answer(Some(content.into())))
}

pub(super) async fn kept_byte_for_byte<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let every_byte: Vec<u8> = (0..=u8::MAX).chain([0, 0xff, b'\\', b'\'']).collect();
    let large: Vec<u8> = every_byte.iter().copied().cycle().take(LARGE).collect();
    for content in [Vec::new(), b"{\"reply\":\"# Hi\"}".to_vec(), every_byte, large] {
        let lease = sell_with(fixture, content.clone(), LONG).await?;
        for ledger in [&fixture.ledger, &fixture.twin] {
            // Not printed: the content is long, and a buyer's.
            let told = ledger.consumed(lease.intent()).await?;
            must_be!(told == saying(content.clone()), true, "the answer is the one that was kept");
        }
    }
    Ok(())
}

pub(super) async fn kept_from_the_commit_on<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let lease = fixture.hold(&fixture.claim(fixture.intent(), &[fixture.paid()])).await?;
    must_be!(fixture.ledger.consumed(lease.intent()).await?, None, "the sale of a reserved intent");
    let answer = KeptAnswer::new("an answer", LONG);
    must_be!(fixture.ledger.commit(&lease, Some(&answer)).await?, CommitOutcome::Done, "the commit");
    must_be!(fixture.twin.consumed(lease.intent()).await?, told if told == saying("an answer"), "the sale");
    // Each intent has its own.
    let other = sell_with(fixture, "another answer", LONG).await?;
    let bare = fixture.sell(&fixture.claim(fixture.intent(), &[fixture.paid()])).await?;
    must_be!(fixture.ledger.consumed(lease.intent()).await?, told if told == saying("an answer"), "the first sale");
    must_be!(fixture.ledger.consumed(other.intent()).await?, told if told == saying("another answer"), "the second");
    must_be!(fixture.ledger.consumed(bare.intent()).await?, told if told == Some(Sale::new()), "one without an answer");
    Ok(())
}

pub(super) async fn kept_for_its_time<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let long = sell_with(fixture, "long", LONG).await?;
    let brief = sell_with(fixture, "brief", fixture.harness.lease()).await?;
    must_be!(fixture.ledger.consumed(brief.intent()).await?, told if told == saying("brief"), "the answer in its time");
    fixture.run_out().await;
    for ledger in [&fixture.ledger, &fixture.twin] {
        must_be!(ledger.consumed(brief.intent()).await?, told if told == Some(Sale::new()), "the sale after its time");
        must_be!(ledger.consumed(long.intent()).await?, told if told == saying("long"), "one that is kept longer");
    }
    let again = fixture.claim(brief.intent(), std::slice::from_ref(brief.payment()));
    must_be!(fixture.reserve(&again).await?, ReserveOutcome::IntentConsumed, "the pair whose answer is gone");
    must_be!(fixture.ledger.commit(&brief, None).await?, CommitOutcome::Done, "its commit again");
    must_be!(fixture.ledger.consumed(long.intent()).await?, told if told == saying("long"), "the other, after a claim");
    Ok(())
}

pub(super) async fn a_repeated_commit_keeps_the_first<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let other = KeptAnswer::new("the second", LONG);
    let brief = sell_with(fixture, "the first", fixture.harness.lease()).await?;
    for ledger in [&fixture.ledger, &fixture.twin] {
        must_be!(ledger.commit(&brief, Some(&other)).await?, CommitOutcome::Done, "the commit again");
        must_be!(ledger.commit(&brief, None).await?, CommitOutcome::Done, "the commit again, without");
        must_be!(ledger.consumed(brief.intent()).await?, told if told == saying("the first"), "the answer");
    }
    let bare = fixture.sell(&fixture.claim(fixture.intent(), &[fixture.paid()])).await?;
    must_be!(fixture.twin.commit(&bare, Some(&other)).await?, CommitOutcome::Done, "the commit again, with an answer");
    must_be!(fixture.ledger.consumed(bare.intent()).await?, told if told == Some(Sale::new()), "the sale without");
    fixture.run_out().await;
    must_be!(fixture.ledger.commit(&brief, Some(&other)).await?, CommitOutcome::Done, "the commit after its time");
    must_be!(fixture.ledger.consumed(brief.intent()).await?, told if told == Some(Sale::new()), "the first, prolonged");
    Ok(())
}

pub(super) async fn a_lost_lease_keeps_nothing<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let answer = KeptAnswer::new("the loser's", LONG);
    // The same intent takes the lease over.
    let claim = fixture.brief(fixture.intent(), &[fixture.paid()]);
    let old = fixture.hold(&claim).await?;
    fixture.run_out().await;
    let new = fixture.hold(&claim).await?;
    must_be!(fixture.ledger.commit(&old, Some(&answer)).await?, CommitOutcome::LeaseLost, "the old holder's commit");
    must_be!(fixture.ledger.consumed(claim.intent()).await?, None, "the sale, after a commit that was refused");
    must_be!(fixture.ledger.commit(&new, None).await?, CommitOutcome::Done, "the new holder's commit");
    must_be!(fixture.ledger.commit(&old, Some(&answer)).await?, CommitOutcome::LeaseLost, "the old holder's, again");
    must_be!(fixture.twin.consumed(claim.intent()).await?, told if told == Some(Sale::new()), "the sale");
    // The pair is released, and sold under another lease.
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    let released = fixture.hold(&claim).await?;
    fixture.ledger.release(&released).await?;
    must_be!(
        fixture.twin.commit(&released, Some(&answer)).await?,
        CommitOutcome::LeaseLost,
        "a released lease's commit"
    );
    let _ = fixture.sell(&claim).await?;
    must_be!(fixture.ledger.consumed(claim.intent()).await?, told if told == Some(Sale::new()), "the sale after it");
    Ok(())
}

pub(super) async fn for_no_time_none_is_kept<H: Harness>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    fixture.begin().await?;
    let lease = sell_with(fixture, "an answer", Duration::ZERO).await?;
    must_be!(fixture.ledger.consumed(lease.intent()).await?, told if told == Some(Sale::new()), "the sale");
    // A time that no clock reaches.
    let lease = sell_with(fixture, "for ever", Duration::MAX).await?;
    must_be!(fixture.ledger.consumed(lease.intent()).await?, told if told == saying("for ever"), "the sale");
    Ok(())
}
