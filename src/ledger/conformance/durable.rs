//! Durability: confirmed sales survive closing and reopening the ledger.

use super::{
    super::{
        AccountId, AccountLedger as _, AccountMemo, Announcements as _, ChargeOutcome, CommitOutcome, Draw,
        DrawOutcome, KeptAnswer, Ledger, OpenOutcome, Opening, ReflectOutcome, Reflection, RenewOutcome,
        ReserveOutcome,
    },
    Fault, Reopens,
    fixture::{BEGUN, Fixture, HEAD, LONG, MARK, must_be, unsettled},
    suite,
};
use crate::protocol::{Amount, ChainTime, Network};

suite! {
    /// All checks of a durable ledger.
    DURABLE_CHECKS;
    /// Runs every check of a durable ledger, each on a ledger of its own, and reports all violations.
    run_durable<H: Reopens>;

    the_mark_is_there: "the low-water mark is where the first begin put it, after the ledger was opened again";
    a_sale_is_there: "a sale and its answer are there after the ledger was opened again";
    a_settlement_is_there: "the record of a settlement is there after the ledger was opened again";
    an_account_is_there: "an account, what was spent of it and what is held of it are there after the ledger was opened again";
    a_claimable_account_is_there: "a claimable account, its claims and its place on the lists are there after the ledger was opened again";
    what_waits_is_there: "a sale that waits for its announcement waits after the ledger was opened again, and one that was announced does not";
}

async fn the_mark_is_there<H: Reopens>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let opened = fixture.harness.reopen(&fixture.ledger).await;
    must_be!(opened.begin(Network::BASE, ChainTime::from_unix(HEAD)).await?.unix(), MARK, "the mark");
    Ok(())
}

async fn a_sale_is_there<H: Reopens>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let (paid, intent) = (fixture.paid(), fixture.intent());
    let claim = fixture.claim(intent, std::slice::from_ref(&paid));
    let lease = fixture.hold(&claim).await?;
    let answer = KeptAnswer::new("an answer", LONG);
    must_be!(fixture.ledger.commit(&lease, Some(&answer)).await?, CommitOutcome::Done, "the commit");
    let opened = fixture.harness.reopen(&fixture.ledger).await;
    must_be!(opened.reserve(&claim).await?, ReserveOutcome::IntentConsumed, "the intent");
    let other = fixture.claim(fixture.intent(), &[paid]);
    must_be!(opened.reserve(&other).await?, ReserveOutcome::PaymentUsed, "the payment");
    must_be!(
        opened.consumed(intent).await?.and_then(|sale| sale.answer),
        Some(content) if content == *answer.content(),
        "the answer"
    );
    must_be!(opened.commit(&lease, None).await?, CommitOutcome::Done, "the commit again");
    Ok(())
}

async fn a_settlement_is_there<H: Reopens>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let (signed, intent) = (unsettled(fixture), fixture.intent());
    let brief = fixture.brief(intent, std::slice::from_ref(&signed));
    let lease = fixture.hold(&brief).await?;
    must_be!(fixture.ledger.settling(&lease, &BEGUN).await?, RenewOutcome::Held, "the record");
    let opened = fixture.harness.reopen(&fixture.ledger).await;
    fixture.run_out().await;
    let other = fixture.claim(fixture.intent(), &[signed]);
    must_be!(opened.reserve(&other).await?, ReserveOutcome::Busy { .. }, "another's claim on the payment");
    must_be!(
        opened.reserve(&brief).await?,
        ReserveOutcome::Granted(lease) if lease.settling() == Some(&BEGUN),
        "its own intent's claim"
    );
    Ok(())
}

async fn an_account_is_there<H: Reopens>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let Some(accounts) = fixture.ledger.accounts() else { return Ok(()) };
    let (id, units) = (AccountId::new(fixture.name()), |units| Amount::from_base_units(units));
    let opening = Opening::new(id, units(5)).lasting(LONG);
    must_be!(accounts.open_account(&opening).await?, OpenOutcome::Open(_), "the opening");
    let draw = Draw::new(id, units(2), LONG);
    let DrawOutcome::Granted(charged) = accounts.draw(&draw).await? else {
        return Err(Fault::new("nothing is granted"));
    };
    must_be!(accounts.charge(&charged, units(1), None).await?, ChargeOutcome::Done { .. }, "the charge");
    let DrawOutcome::Granted(held) = accounts.draw(&draw).await? else { return Err(Fault::new("nothing is granted")) };
    let before = accounts.account(id).await?;
    let opened = fixture.harness.reopen(&fixture.ledger).await;
    let Some(accounts) = opened.accounts() else { return Err(Fault::new("there are no accounts any more")) };
    must_be!(accounts.account(id).await? == before && before.is_some(), true, "the account is as it was");
    must_be!(accounts.charge(&charged, units(2), None).await?, ChargeOutcome::Done { .. }, "the charge again");
    must_be!(accounts.charge(&held, units(2), None).await?, ChargeOutcome::Done { left } if left == units(2), "the charge of what is held");
    Ok(())
}

async fn a_claimable_account_is_there<H: Reopens>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let Some(accounts) = fixture.ledger.accounts() else { return Ok(()) };
    let units = |units| Amount::from_base_units(units);
    let (owed, claimed) = (AccountId::new(fixture.name()), AccountId::new(fixture.name()));
    let voucher = AccountMemo::new("voucher").ok_or(Fault::new("the memo is too long"))?;
    for (id, is_claimed) in [(owed, false), (claimed, true)] {
        let opening = Opening::new(id, units(9)).claimable().with_spent(units(2));
        must_be!(accounts.open_account(&opening).await?, OpenOutcome::Open(_), "the opening");
        let draw = Draw::new(id, units(3), LONG).expecting(units(2));
        let DrawOutcome::Granted(lease) = accounts.draw(&draw).await? else {
            return Err(Fault::new("nothing is granted"));
        };
        must_be!(accounts.charge(&lease, units(3), Some(&voucher)).await?, ChargeOutcome::Done { .. }, "the charge");
        let read = Reflection::new(id).limit(units(7)).claimed(units(if is_claimed { 5 } else { 4 })).as_of(77);
        must_be!(accounts.reflect(&read.note(voucher.clone())).await?, ReflectOutcome::Done(_), "the reflection");
    }
    let before = (accounts.owed(None, 9).await?, accounts.claimable(None, 9).await?);
    let opened = fixture.harness.reopen(&fixture.ledger).await;
    let Some(accounts) = opened.accounts() else { return Err(Fault::new("there are no accounts any more")) };
    let after = (accounts.owed(None, 9).await?, accounts.claimable(None, 9).await?);
    must_be!(after == before && after.1.len() == 2, true, "the lists are as they were");
    must_be!(&after.0[..], [(id, account)] if *id == owed && account.owed() == units(1), "what is owed");
    Ok(())
}

async fn what_waits_is_there<H: Reopens>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    if fixture.ledger.announcements().is_none() {
        return Ok(());
    }
    let (first, second) = (fixture.paid(), fixture.paid());
    for paid in [&first, &second] {
        let claim = fixture.claim(fixture.intent(), std::slice::from_ref(paid));
        let lease = fixture.hold(&claim).await?.announcing();
        must_be!(fixture.ledger.commit(&lease, None).await?, CommitOutcome::Done, "the commit");
    }
    if let Some(waiting) = fixture.ledger.announcements() {
        waiting.announced(first.payment_id()).await?;
    }
    let opened = fixture.harness.reopen(&fixture.ledger).await;
    let Some(waiting) = opened.announcements() else { return Err(Fault::new("nothing waits any more")) };
    let told = waiting.unannounced(None, 9).await?;
    must_be!(told.iter().map(|sale| sale.payment).eq([second.payment_id()]), true, "what waits");
    Ok(())
}
