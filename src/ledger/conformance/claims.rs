//! Claimable accounts: their debts, and the reflections of their claims.

use std::time::Duration;

use super::{
    super::{
        Account, AccountId, AccountLedger, ChargeOutcome, Claims, Draw, DrawOutcome, DrawRenewal, OpenOutcome, Opening,
        ReflectOutcome, Reflection,
    },
    account_fixture::{done, granted, memo, units},
    fixture::{Fault, Fixture, LONG, must_be},
    harness::Harness,
};
use crate::protocol::Amount;

/// More accounts than any list in these checks has.
pub(super) const ALL: usize = 1_000;

impl<H: Harness<Ledger: AccountLedger>> Fixture<'_, H> {
    /// Opens a claimable account with this limit.
    pub(super) async fn open_claimable(&self, limit: u64) -> Result<AccountId, Fault> {
        let id = self.account();
        let opening = Opening::new(id, units(limit)).claimable();
        must_be!(self.ledger.open_account(&opening).await?, OpenOutcome::Open(_), "a new account");
        Ok(id)
    }

    /// Draws the next step of a channel, and charges it.
    pub(super) async fn spend(&self, id: AccountId, amount: u64) -> Result<(), Fault> {
        let spent = self.look(id).await?.spent;
        let draw = Draw::new(id, units(amount), LONG).expecting(spent);
        let lease = granted(self.ledger.draw(&draw).await?)?;
        must_be!(self.charge(&lease, amount).await?, ChargeOutcome::Done { .. }, "the charge");
        Ok(())
    }

    /// Returns an account that must exist.
    pub(super) async fn look(&self, id: AccountId) -> Result<Account, Fault> {
        self.twin.account(id).await?.ok_or(Fault::new("an account that was opened is unknown"))
    }

    /// Returns the claims of an account.
    pub(super) async fn claims(&self, id: AccountId) -> Result<Claims, Fault> {
        claims(&self.look(id).await?)
    }

    /// Reflects on a claimable account.
    pub(super) async fn reflect(&self, reflection: &Reflection) -> Result<Account, Fault> {
        reflected(self.ledger.reflect(reflection).await?)
    }

    /// The ids on both lists: owed, and claimable.
    pub(super) async fn listed(&self) -> Result<(Vec<AccountId>, Vec<AccountId>), Fault> {
        let ids = |page: Vec<(AccountId, Account)>| page.into_iter().map(|(id, _)| id).collect();
        Ok((ids(self.twin.owed(None, ALL).await?), ids(self.twin.claimable(None, ALL).await?)))
    }
}

pub(super) fn claims(account: &Account) -> Result<Claims, Fault> {
    account.claims.as_deref().cloned().ok_or(Fault::new("a claimable account has no claims"))
}

pub(super) fn reflected(outcome: ReflectOutcome) -> Result<Account, Fault> {
    match outcome {
        ReflectOutcome::Done(account) => Ok(account),
        ReflectOutcome::Unknown => Err(Fault::new("a claimable account is unknown to a reflection")),
    }
}

pub(super) async fn what_was_spent_before<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.account();
    let opening = Opening::new(id, units(100)).claimable();
    must_be!(
        fixture.ledger.open_account(&opening.clone().with_spent(units(40))).await?,
        OpenOutcome::Open(account) if account.spent == units(40) && account.left() == units(60)
            && account.owed().is_zero() && claims(&account)?.claimed == units(40),
        "what was spent before is claimed"
    );
    for again in [opening.clone().with_spent(units(70)), opening, Opening::new(id, units(100))] {
        must_be!(fixture.twin.open_account(&again).await?, OpenOutcome::Open(_), "the opening again");
        must_be!(
            fixture.look(id).await?,
            account if account.spent == units(40) && claims(&account)?.claimed == units(40),
            "the account after that"
        );
    }
    let step = Draw::new(id, units(60), LONG).expecting(units(40));
    must_be!(fixture.twin.draw(&step).await?, DrawOutcome::Granted(_), "the next step");
    // A pass that was used elsewhere before, partly or wholly.
    for (spent, left) in [(2, 3), (5, 0), (9, 0)] {
        let pass = fixture.account();
        let opening = Opening::new(pass, units(5)).with_spent(units(spent));
        must_be!(fixture.ledger.open_account(&opening).await?, OpenOutcome::Open(_), "the opening of a pass");
        must_be!(fixture.ledger.open_account(&opening.claimable()).await?, OpenOutcome::Open(_), "and again");
        must_be!(
            fixture.look(pass).await?,
            account if account.spent == units(spent.min(5)) && account.left() == units(left) && account.claims.is_none(),
            "a pass, of which nothing is claimed"
        );
        must_be!(fixture.told(pass, left + 1).await?, DrawOutcome::UsedUp { .. }, "more than is left of it");
    }
    must_be!(fixture.listed().await?, (owed, open) if owed.is_empty() && open == [id], "the lists");
    Ok(())
}

pub(super) async fn what_is_charged_is_owed<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let (id, idle) = (fixture.open_claimable(100).await?, fixture.open_claimable(100).await?);
    fixture.spend(id, 0).await?;
    must_be!(fixture.listed().await?.0.is_empty(), true, "nothing is owed for nothing");
    must_be!(fixture.claims(id).await?.since, None, "since when");
    fixture.spend(id, 3).await?;
    let first = fixture.claims(id).await?;
    must_be!(first.since.is_some(), true, "since when three are owed");
    fixture.harness.pass(Duration::from_secs(2)).await;
    fixture.spend(id, 4).await?;
    must_be!(fixture.look(id).await?.owed(), owed if owed == units(7), "what is owed");
    must_be!(fixture.claims(id).await?, later if later == first, "it is owed since the first charge");
    let owed = fixture.twin.owed(None, ALL).await?;
    must_be!(owed == [(id, fixture.look(id).await?)], true, "the account on the list");
    let mut both = [id, idle];
    both.sort();
    must_be!(fixture.listed().await?.1 == both, true, "both are claimable");
    // Held amounts are no debt.
    let _held = fixture.draw(idle, 5).await?;
    must_be!(fixture.listed().await?.0 == [id], true, "what is owed beside what is held");
    Ok(())
}

pub(super) async fn what_is_claimed_is_not_owed<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open_claimable(100).await?;
    fixture.spend(id, 7).await?;
    let first = fixture.claims(id).await?.since;
    fixture.harness.pass(Duration::from_secs(2)).await;
    let claimed = |units: Amount| Reflection::new(id).claimed(units);
    let part = fixture.reflect(&claimed(units(5))).await?;
    must_be!(part.owed() == units(2) && part.spent == units(7), true, "two of seven are owed");
    must_be!(claims(&part)?.since > first, true, "they are owed since then");
    must_be!(fixture.listed().await?.0 == [id], true, "it is on the list");
    fixture.harness.pass(Duration::from_secs(2)).await;
    must_be!(fixture.reflect(&claimed(units(5))).await? == part, true, "the same again changes nothing");
    for _ in 0..2 {
        let all = fixture.reflect(&claimed(units(7))).await?;
        must_be!(all.owed().is_zero() && all.left() == units(93), true, "nothing is owed");
        must_be!(claims(&all)?.since, None, "since when");
        must_be!(fixture.listed().await?, (owed, open) if owed.is_empty() && open == [id], "the lists");
    }
    fixture.spend(id, 1).await?;
    must_be!(fixture.look(id).await?.owed(), owed if owed == units(1), "the next one is owed");
    must_be!(fixture.claims(id).await?.since > claims(&part)?.since, true, "since its charge");
    Ok(())
}

pub(super) async fn the_later_block_counts<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open_claimable(100).await?;
    fixture.spend(id, 50).await?;
    let read = |block, claimed, limit, text| {
        let reflection = Reflection::new(id).claimed(units(claimed)).limit(units(limit)).note(memo(text)?);
        Ok::<_, Fault>(reflection.as_of(block))
    };
    let at_200 = fixture.reflect(&read(200, 30, 90, "at 200")?).await?;
    must_be!(
        claims(&at_200)?,
        claims if claims.claimed == units(30) && claims.as_of == Some(200) && claims.note == memo("at 200")?,
        "what was read at 200"
    );
    must_be!(fixture.reflect(&read(199, 40, 80, "at 199")?).await? == at_200, true, "an earlier block changes nothing");
    must_be!(fixture.reflect(&read(199, 10, 99, "at 199")?).await? == at_200, true, "nor does it bring back a limit");
    for (reflection, claimed) in [
        (Reflection::new(id).claimed(units(20)), 30),
        (Reflection::new(id).claimed(units(20)).as_of(200), 30),
        (Reflection::new(id).claimed(units(31)).as_of(200), 31),
        // Without a block it is unknown whether this reading is later.
        (Reflection::new(id).claimed(units(32)), 31),
        (Reflection::new(id).claimed(units(32)).limit(units(95)), 31),
        // The chain dropped the claim with its block.
        (Reflection::new(id).claimed(units(25)).as_of(201), 25),
    ] {
        let account = fixture.reflect(&reflection).await?;
        must_be!(
            account.owed() == units(50 - claimed) && account.limit == units(90) && account.spent == units(50),
            true,
            "what is owed after another one"
        );
        must_be!(claims(&account)?.note, note if note == memo("at 200")?, "the note");
    }
    must_be!(fixture.claims(id).await?.as_of, Some(201), "the last block");
    fixture.reflect(&Reflection::new(id).claimed(units(50)).as_of(202)).await?;
    must_be!(fixture.listed().await?.0.is_empty(), true, "all is claimed");
    fixture.reflect(&Reflection::new(id).claimed(units(49)).as_of(203)).await?;
    must_be!(fixture.listed().await?.0 == [id], true, "what is not claimed any more is owed again");
    must_be!(fixture.claims(id).await?.since.is_some(), true, "since then");
    Ok(())
}

pub(super) async fn claimed_and_not_on_record<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open_claimable(100).await?;
    fixture.spend(id, 4).await?;
    let step = |spent| Draw::new(id, units(3), LONG).expecting(units(spent));
    let held = granted(fixture.ledger.draw(&step(4)).await?)?;
    let account = fixture.reflect(&Reflection::new(id).claimed(units(9))).await?;
    must_be!(
        account.spent == units(9) && account.held.is_zero() && account.owed().is_zero() && account.left() == units(91),
        true,
        "what was claimed was spent"
    );
    must_be!(
        fixture.charge(&held, 3).await?,
        ChargeOutcome::LeaseLost,
        "the charge of a voucher that is claimed already"
    );
    must_be!(fixture.ledger.renew_draw(&held).await?, DrawRenewal::LeaseLost, "its renewal");
    must_be!(fixture.twin.draw(&step(4)).await?, DrawOutcome::Mismatch { spent } if spent == units(9), "the next voucher by the old sum");
    must_be!(fixture.twin.draw(&step(9)).await?, DrawOutcome::Granted(_), "the next voucher");
    must_be!(fixture.listed().await?.0.is_empty(), true, "nothing is owed");
    Ok(())
}

pub(super) async fn a_limit_falls_and_rises<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open_claimable(100).await?;
    fixture.spend(id, 10).await?;
    let limit = async |limit| fixture.reflect(&Reflection::new(id).limit(units(limit))).await;
    must_be!(limit(40).await?.left(), left if left == units(30), "what is left of less");
    must_be!(fixture.told(id, 31).await?, DrawOutcome::UsedUp { left } if left == units(30), "more than that");
    let (charged, released) = (fixture.draw(id, 20).await?, fixture.draw(id, 10).await?);
    must_be!(
        limit(15).await?,
        account if account.limit == units(15) && account.left().is_zero() && account.shortfall() == units(25),
        "less than is spent and held"
    );
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Busy { .. } | DrawOutcome::UsedUp { .. }, "a draw");
    must_be!(fixture.charge(&charged, 20).await?, told if done(0)(&told), "the charge of what is live");
    fixture.ledger.release_draw(&released).await?;
    must_be!(
        fixture.look(id).await?,
        account if account.spent == units(30) && account.left().is_zero() && account.shortfall() == units(15),
        "a release gives nothing back that is not there"
    );
    must_be!(fixture.told(id, 1).await?, DrawOutcome::UsedUp { left } if left.is_zero(), "a draw after that");
    must_be!(limit(31).await?, account if account.left() == units(1) && account.shortfall().is_zero(), "a higher limit");
    fixture.spend(id, 1).await?;
    must_be!(fixture.look(id).await?.owed(), owed if owed == units(31), "all is owed, whatever the limit");
    // Opening it again raises the limit, and does not lower it.
    must_be!(fixture.ledger.open_account(&Opening::new(id, units(50))).await?, OpenOutcome::Open(account) if account.left() == units(19), "an opening");
    must_be!(fixture.ledger.open_account(&Opening::new(id, units(9))).await?, OpenOutcome::Open(account) if account.left() == units(19), "a lower one");
    Ok(())
}

pub(super) async fn a_lower_limit_ends_what_ran_out<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open_claimable(10).await?;
    let (lost, kept) = (fixture.draw_briefly(id, 4).await?, fixture.draw_briefly(id, 6).await?);
    fixture.run_out().await;
    fixture.reflect(&Reflection::new(id).limit(units(7))).await?;
    must_be!(fixture.charge(&lost, 4).await?, ChargeOutcome::LeaseLost, "a late charge of what is not there any more");
    must_be!(fixture.charge(&kept, 6).await?, told if done(1)(&told), "a late charge of what is");
    Ok(())
}

pub(super) async fn what_is_charged_is_taken_back<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let (id, back) = (fixture.open_claimable(10).await?, memo("back")?);
    fixture.spend(id, 3).await?;
    fixture.spend(id, 4).await?;
    fixture.reflect(&Reflection::new(id).claimed(units(3))).await?;
    let lease = fixture.draw(id, 0).await?;
    let too_much = fixture.ledger.take_back(&lease, units(5), Some(&back)).await?;
    must_be!(too_much, ChargeOutcome::TooMuch, "what is claimed");
    for _ in 0..2 {
        let taken = fixture.ledger.take_back(&lease, units(4), Some(&back)).await?;
        must_be!(taken, told if done(7)(&told), "what is not claimed, and its repetition");
    }
    let account = fixture.look(id).await?;
    must_be!(account.spent == units(3) && account.memo == back, true, "what is left of it");
    must_be!(account.owed().is_zero() && claims(&account)?.since.is_none(), true, "nothing is owed");
    must_be!(fixture.listed().await?.0.contains(&id), false, "what is owed lists it");
    let released = fixture.draw(id, 1).await?;
    fixture.ledger.release_draw(&released).await?;
    must_be!(fixture.ledger.take_back(&released, units(0), None).await?, ChargeOutcome::LeaseLost, "without a lease");
    fixture.spend(id, 2).await?;
    must_be!(fixture.look(id).await?.owed(), owed if owed == units(2), "what is charged later");
    Ok(())
}

pub(super) async fn memo_and_note<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.account();
    let opening = Opening::new(id, units(9)).with_memo(memo("opener")?).claimable();
    must_be!(fixture.ledger.open_account(&opening).await?, OpenOutcome::Open(_), "the opening");
    let first = fixture.draw(id, 1).await?;
    must_be!(first.memo() == &memo("opener")? && first.note() == &memo("")?, true, "the first lease");
    let account = fixture.reflect(&Reflection::new(id).note(memo("read")?)).await?;
    must_be!(account.memo == memo("opener")? && claims(&account)?.note == memo("read")?, true, "after a reflection");
    let voucher = memo("voucher")?;
    must_be!(fixture.ledger.charge(&first, units(1), Some(&voucher)).await?, ChargeOutcome::Done { .. }, "the charge");
    fixture.reflect(&Reflection::new(id).limit(units(8))).await?;
    let account = fixture.look(id).await?;
    must_be!(
        account.memo == voucher && claims(&account)?.note == memo("read")?,
        true,
        "after a charge, and another one"
    );
    let second = fixture.draw(id, 1).await?;
    must_be!(second.memo() == &voucher && second.note() == &memo("read")?, true, "the second lease");
    fixture.reflect(&Reflection::new(id).note(memo("")?)).await?;
    must_be!(fixture.claims(id).await?.note, note if note == memo("")?, "a note of nothing");
    Ok(())
}

pub(super) async fn others_are_not_reflected_on<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let (unknown, pass) = (fixture.account(), fixture.open(5).await?);
    let _held = fixture.draw(pass, 2).await?;
    let before = fixture.look(pass).await?;
    for id in [unknown, pass] {
        let read = Reflection::new(id).limit(units(1)).claimed(units(4)).note(memo("read")?).as_of(7);
        must_be!(fixture.ledger.reflect(&read).await?, ReflectOutcome::Unknown, "a reflection");
    }
    must_be!(fixture.ledger.account(unknown).await?.is_none(), true, "no account is made by it");
    must_be!(fixture.look(pass).await? == before, true, "the pass is as it was");
    must_be!(fixture.listed().await?, (owed, open) if owed.is_empty() && open.is_empty(), "the lists");
    Ok(())
}

pub(super) async fn lists_are_paged<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let mut ids = vec![AccountId::new([0; 16]), AccountId::new([0xff; 16])];
    ids.extend((0..7).map(|_| fixture.account()));
    for id in &ids {
        let opening = Opening::new(*id, units(9)).claimable();
        must_be!(fixture.ledger.open_account(&opening).await?, OpenOutcome::Open(_), "the opening");
        fixture.spend(*id, 1).await?;
        let _pass = fixture.open(1).await?;
    }
    ids.sort();
    for most in [1, 2, 4, 8, 9, ALL] {
        let (mut owed, mut open) = (Vec::new(), Vec::new());
        while let [.., (last, account)] = &fixture.twin.owed(owed.last().copied(), most).await?[..] {
            must_be!(account.owed(), amount if amount == units(1), "what is owed of the last one on a page");
            let page = fixture.twin.owed(owed.last().copied(), most).await?;
            must_be!(page.len() <= most && page.last().map(|(id, _)| id) == Some(last), true, "the same page");
            owed.extend(page.iter().map(|(id, _)| *id));
            must_be!(owed.len(), length if length <= ids.len(), "how many are owed");
        }
        loop {
            let page = fixture.ledger.claimable(open.last().copied(), most).await?;
            open.extend(page.iter().map(|(id, _)| *id));
            if page.len() < most {
                break;
            }
        }
        must_be!(owed == ids && open == ids, true, "all pages together");
    }
    must_be!(fixture.twin.owed(None, 0).await?.is_empty(), true, "a page of none");
    let (gone, rest) = ids.split_at(3);
    for id in gone {
        fixture.reflect(&Reflection::new(*id).claimed(units(1))).await?;
    }
    let ids = |page: Vec<(AccountId, Account)>| page.into_iter().map(|(id, _)| id).collect::<Vec<_>>();
    must_be!(ids(fixture.ledger.owed(None, ALL).await?) == rest, true, "those that are owed still");
    must_be!(ids(fixture.ledger.owed(gone.last().copied(), 4).await?) == rest[..4], true, "behind one that is not");
    Ok(())
}

pub(super) async fn closed_and_owed<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let (id, other) = (fixture.open_claimable(9).await?, fixture.open_claimable(9).await?);
    fixture.spend(id, 2).await?;
    let live = fixture.draw(id, 3).await?;
    must_be!(fixture.ledger.close_account(id).await?, Some(closed) if closed.left == units(4), "what is left");
    must_be!(fixture.listed().await?, (owed, open) if owed == [id] && open == [other], "the lists");
    must_be!(fixture.charge(&live, 3).await?, ChargeOutcome::Done { .. }, "the charge of what is live");
    fixture.harness.pass(Duration::from_secs(2)).await;
    must_be!(fixture.ledger.sweep_accounts(Duration::ZERO).await?, 0, "what is owed is not forgotten");
    fixture.reflect(&Reflection::new(id).claimed(units(4))).await?;
    must_be!(fixture.ledger.sweep_accounts(Duration::ZERO).await?, 0, "nor is it when a part is claimed");
    must_be!(fixture.listed().await?.0 == [id], true, "it is on the list");
    let account = fixture.reflect(&Reflection::new(id).claimed(units(5))).await?;
    must_be!(account.closed && account.expires.is_some(), true, "it is closed, and has expired");
    must_be!(fixture.ledger.sweep_accounts(LONG).await?, 0, "forgotten too early");
    must_be!(fixture.ledger.sweep_accounts(Duration::ZERO).await?, 1, "what is claimed is forgotten");
    must_be!(fixture.ledger.account(id).await?.is_none(), true, "it is unknown");
    must_be!(fixture.look(other).await?.closed, false, "the other one is there");
    must_be!(fixture.listed().await?, (owed, open) if owed.is_empty() && open == [other], "the lists after that");
    Ok(())
}

pub(super) async fn expired_and_owed<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let claimable = |lasts| Opening::new(fixture.account(), units(9)).claimable().lasting(lasts);
    // One account has expired; another, with time left, is closed.
    let (brief, kept, closed) = (claimable(Duration::from_secs(1)), claimable(LONG), claimable(LONG));
    for opening in [&brief, &kept, &closed] {
        must_be!(fixture.ledger.open_account(opening).await?, OpenOutcome::Open(_), "the opening");
    }
    must_be!(fixture.ledger.close_account(closed.id()).await?, Some(_), "the closing");
    fixture.spend(kept.id(), 2).await?;
    fixture.harness.pass(Duration::from_secs(3)).await;
    must_be!(fixture.ledger.sweep_accounts(Duration::ZERO).await?, 2, "what has expired, and what is closed");
    let first = fixture.ledger.claimable(None, 1).await?;
    must_be!(&first[..], [(id, _)] if *id == kept.id(), "the first one that is left");
    must_be!(fixture.listed().await?, (owed, open) if owed == [kept.id()] && open == owed, "the lists");
    Ok(())
}

pub(super) async fn a_closed_pass_is_kept<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open(9).await?;
    must_be!(fixture.ledger.close_account(id).await?, Some(_), "the closing");
    fixture.harness.pass(Duration::from_secs(3)).await;
    must_be!(fixture.ledger.sweep_accounts(Duration::ZERO).await?, 0, "nothing is forgotten");
    must_be!(fixture.ledger.open_account(&Opening::new(id, units(9))).await?, OpenOutcome::Closed, "an opening later");
    Ok(())
}

pub(super) async fn a_lease_for_a_task<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open(0).await?;
    let turn = Draw::new(id, Amount::ZERO, fixture.harness.lease()).expecting(Amount::ZERO);
    let first = granted(fixture.ledger.draw(&turn).await?)?;
    for _ in 0..3 {
        fixture.harness.pass(fixture.harness.lease() * 2 / 3).await;
        must_be!(fixture.twin.draw(&turn).await?, DrawOutcome::Busy { .. }, "another's turn");
        must_be!(fixture.ledger.renew_draw(&first).await?, DrawRenewal::Held, "a renewal in time");
    }
    fixture.ledger.release_draw(&first).await?;
    let dead = granted(fixture.twin.draw(&turn).await?)?;
    fixture.run_out().await;
    let next = granted(fixture.ledger.draw(&turn).await?)?;
    must_be!(fixture.twin.renew_draw(&dead).await?, DrawRenewal::LeaseLost, "the renewal of one whose turn is over");
    must_be!(fixture.ledger.renew_draw(&next).await?, DrawRenewal::Held, "the next one's renewal");
    Ok(())
}
