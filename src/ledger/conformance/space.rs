//! Space for kept answers: sales go on when it is used up.

use std::time::Duration;

use super::{
    super::{CommitOutcome, KeptAnswer, Ledger, ReserveOutcome},
    Fault, KeepsAnswers,
    fixture::{Fixture, HEAD, LONG, MARK, must_be},
    suite,
};
use crate::protocol::{ChainTime, IntentKey, Network};

/// Enough for a few answers.
const SPACE: usize = 10_000;
const ANSWER: usize = 2_000;

suite! {
    /// All checks of a ledger that keeps answers within a limit.
    SPACE_CHECKS;
    /// Runs every check of a ledger that keeps answers within a limit, each on a ledger of its own, and reports all
    /// violations.
    run_space<H: KeepsAnswers>;

    sales_go_on_without_space: "a sale is recorded where there is no space for its answer";
    answers_stay_within_the_space: "answers take no more than the space, and each is kept whole, with its own sale";
    one_beyond_all_space_is_not_kept: "an answer that is larger than all space is not kept, and displaces none";
    what_is_not_kept_takes_no_space: "an answer that comes with a lost lease or with a repeated commit takes no space";
    space_comes_back: "the space of an answer comes back after its time";
}

async fn small<H: KeepsAnswers>(fixture: &Fixture<'_, H>) -> Result<H::Ledger, Fault> {
    let ledger = fixture.harness.with_answer_space(SPACE).await;
    must_be!(ledger.answer_space(), Some(SPACE), "the space");
    let _ = ledger.begin(Network::BASE, ChainTime::from_unix(MARK)).await?;
    Ok(ledger)
}

/// Sells, with an answer of this many bytes that names the sale.
async fn sell<H: KeepsAnswers>(
    fixture: &Fixture<'_, H>,
    ledger: &H::Ledger,
    bytes: usize,
    keep_for: Duration,
) -> Result<(IntentKey, Vec<u8>), Fault> {
    let claim = fixture.claim(fixture.intent(), &[fixture.paid()]);
    let ReserveOutcome::Granted(lease) = ledger.reserve(&claim).await? else {
        return Err(Fault::new("a free pair was refused"));
    };
    let content: Vec<u8> = claim.intent().as_bytes().iter().copied().cycle().take(bytes).collect();
    let answer = KeptAnswer::new(content.clone(), keep_for);
    must_be!(ledger.commit(&lease, Some(&answer)).await?, CommitOutcome::Done, "a commit with an answer");
    must_be!(ledger.consumed(claim.intent()).await?.is_some(), true, "its intent is consumed");
    must_be!(ledger.reserve(&claim).await?, ReserveOutcome::IntentConsumed, "the intent again");
    Ok((claim.intent(), content))
}

async fn sales_go_on_without_space<H: KeepsAnswers>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let ledger = small(fixture).await?;
    for _ in 0..20 {
        let _ = sell(fixture, &ledger, ANSWER, LONG).await?;
    }
    Ok(())
}

async fn answers_stay_within_the_space<H: KeepsAnswers>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let ledger = small(fixture).await?;
    let mut sold = Vec::new();
    for _ in 0..20 {
        sold.push(sell(fixture, &ledger, ANSWER, LONG).await?);
    }
    let mut kept = 0;
    for (intent, content) in sold {
        if let Some(answer) = ledger.consumed(intent).await?.and_then(|sale| sale.answer) {
            must_be!(&answer[..], answer if *answer == content, "a kept answer");
            kept += answer.len();
        }
    }
    must_be!(kept, ANSWER..=SPACE, "the bytes of all kept answers");
    Ok(())
}

async fn one_beyond_all_space_is_not_kept<H: KeepsAnswers>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let ledger = small(fixture).await?;
    let (intent, content) = sell(fixture, &ledger, ANSWER, LONG).await?;
    let (large, _) = sell(fixture, &ledger, SPACE + 1, LONG).await?;
    must_be!(ledger.consumed(large).await?.and_then(|sale| sale.answer), None, "the answer that is too large");
    must_be!(
        ledger.consumed(intent).await?.and_then(|sale| sale.answer),
        Some(answer) if answer == content,
        "the answer that was kept before"
    );
    Ok(())
}

async fn what_is_not_kept_takes_no_space<H: KeepsAnswers>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let ledger = small(fixture).await?;
    let hold = async || match ledger.reserve(&fixture.claim(fixture.intent(), &[fixture.paid()])).await? {
        ReserveOutcome::Granted(lease) => Ok(lease),
        other => Err(Fault::new(format!("a free pair was refused: {other:?}"))),
    };
    let (lost, sold) = (hold().await?, hold().await?);
    ledger.release(&lost).await?;
    must_be!(ledger.commit(&sold, None).await?, CommitOutcome::Done, "a commit without an answer");
    let answer = KeptAnswer::new(vec![0; ANSWER], LONG);
    for _ in 0..2 * SPACE / ANSWER {
        must_be!(ledger.commit(&lost, Some(&answer)).await?, CommitOutcome::LeaseLost, "a commit of a lost lease");
        must_be!(ledger.commit(&sold, Some(&answer)).await?, CommitOutcome::Done, "a repeated commit");
    }
    let (intent, content) = sell(fixture, &ledger, ANSWER, LONG).await?;
    must_be!(
        ledger.consumed(intent).await?.and_then(|sale| sale.answer),
        Some(answer) if answer == content,
        "the answer of a sale after that"
    );
    Ok(())
}

async fn space_comes_back<H: KeepsAnswers>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let ledger = small(fixture).await?;
    let brief = Duration::from_secs(1);
    for _ in 0..5 {
        let _ = sell(fixture, &ledger, ANSWER, brief).await?;
    }
    fixture.harness.pass(2 * brief).await;
    let _ = ledger.sweep(Network::BASE, ChainTime::from_unix(HEAD)).await?;
    let (intent, content) = sell(fixture, &ledger, ANSWER, LONG).await?;
    must_be!(
        ledger.consumed(intent).await?.and_then(|sale| sale.answer),
        Some(answer) if answer == content,
        "an answer after the time of those that filled the space"
    );
    Ok(())
}
