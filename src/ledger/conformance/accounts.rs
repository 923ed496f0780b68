//! Accounts: the rules for every ledger that has them.

use std::time::Duration;

use super::{
    super::{
        AccountId, AccountLedger, AccountMemo, ChargeOutcome, Draw, DrawLease, DrawOutcome, DrawRenewal, OpenOutcome,
        Opening,
    },
    Fault,
    account_fixture::{done, granted, memo, units},
    account_race::{
        a_dropped_charge_is_repeated, a_dropped_draw_runs_out, a_dropped_release_is_repeated, all_is_spent_once,
        charge_or_take_over, closed_meanwhile, one_expected_sum, opened_by_many, twenty_draws_on_three,
    },
    claims::{
        a_closed_pass_is_kept, a_lease_for_a_task, a_limit_falls_and_rises, a_lower_limit_ends_what_ran_out,
        claimed_and_not_on_record, closed_and_owed, expired_and_owed, lists_are_paged, memo_and_note,
        others_are_not_reflected_on, the_later_block_counts, what_is_charged_is_owed, what_is_charged_is_taken_back,
        what_is_claimed_is_not_owed, what_was_spent_before,
    },
    claims_race::{
        a_dropped_reflection_is_repeated, charges_and_reflections, claim_or_late_charge,
        lists_while_accounts_come_and_go, lower_limit_or_draw, one_voucher_of_many,
    },
    fixture::{Fixture, LONG, must_be},
    harness::Harness,
    suite,
};
use crate::protocol::Amount;

/// The most leases of one account that may be live.
const MOST_HELD: u64 = 64;

suite! {
    /// All checks of a ledger that has accounts.
    ACCOUNT_CHECKS;
    /// Runs every check of a ledger that has accounts, each on a ledger of its own, and reports all violations.
    run_accounts<H: Harness where Ledger: AccountLedger>;

    what_is_not_open_is_unknown: "an account that was not opened grants nothing, and none is made by asking";
    it_is_drawn_down: "of an account its limit can be spent, no more, through every handle";
    accounts_are_told_apart: "an account's limit is its own";
    extremes_are_kept: "every value of the types is kept as it is";
    what_is_held_is_busy: "what is left only if a reservation fails is refused as busy, and when to ask again is told";
    what_is_never_left_is_used_up: "what is not left even if every reservation fails is refused as used up";
    a_release_gives_back: "a release gives back what was held; a second one does nothing";
    a_smaller_charge_gives_back_the_rest: "a charge of less than is held gives back the rest";
    a_larger_charge_is_refused: "a charge of more than is held spends nothing, and the lease is as it was";
    a_charge_is_repeatable: "of several charges of one lease the first counts, and the others are told that it is done";
    what_is_charged_stays: "neither release nor renewal undoes a charge";
    fences_and_numbers: "no two grants of an account share a fence or a number";
    it_runs_out_and_is_free: "what a lease that ran out holds is granted to others";
    a_late_holder_goes_on: "a lease that ran out and whose amount was not needed is renewed and charged";
    what_was_taken_over_is_lost: "a lease whose amount another got can neither charge, nor renew, nor release";
    a_renewal_prolongs: "a renewal lasts the full length from now";
    an_expired_account_grants_nothing: "an account grants nothing after its time; what was granted before is charged";
    opened_again: "opening again keeps what was spent, and neither lowers the limit nor shortens the time";
    closed_for_good: "a closed account grants nothing and does not open again; what is left is told; what is live is charged";
    what_ran_out_is_not_charged_after_closing: "a lease that had run out when the account was closed is lost";
    the_memo_of_the_last_charge: "the memo is the opener's until a charge has another";
    expected_sums: "a draw that expects a sum is granted for that sum alone, and beside no other";
    so_many_at_once: "64 reservations of one account may be under way, and no more";
    expired_accounts_are_forgotten: "accounts are forgotten so long after their end, and no others";
    twenty_draws_on_three: "of twenty at once on three that are left, three are granted";
    all_is_spent_once: "of many that draw, charge, and release at once, as much is charged as there was, and no more";
    charge_or_take_over: "a late charge and a take-over at once: one of them";
    one_expected_sum: "of many at once that expect the same sum, one is granted";
    closed_meanwhile: "an account that is closed beside calls: what is left in the end is all that was not charged";
    opened_by_many: "an account that many open at once is one account";
    a_dropped_draw_runs_out: "a draw that is dropped on its way holds nothing for longer than its lease";
    a_dropped_charge_is_repeated: "a charge that is dropped on its way is repeated, and spends once";
    a_dropped_release_is_repeated: "a release that is dropped on its way is repeated";
    a_closed_pass_is_kept: "a closed account that is not claimable and never expires is not forgotten";
    a_lease_for_a_task: "an account of nothing is a lease that one holds at a time";
    what_was_spent_before: "what was spent before the opening counts, as claimed where the account is claimable, if the account is new";
    what_is_charged_is_owed: "what is charged of a claimable account is owed, since the first charge, and listed";
    what_is_charged_is_taken_back: "a charge is taken back once, under a lease that is held, with its memo, and never what is claimed";
    what_is_claimed_is_not_owed: "what is claimed is not owed, and what is left over is owed since then";
    the_later_block_counts: "what was read at an earlier block changes nothing, and a claim is undone by a later block alone";
    claimed_and_not_on_record: "what was claimed and is not on record was spent, and what is held beside it is lost";
    a_limit_falls_and_rises: "a reflection sets the limit, also below what is spent and held: nothing is granted then, and what is live is charged";
    a_lower_limit_ends_what_ran_out: "a lease that ran out loses what a lower limit does not cover";
    memo_and_note: "the memo is the last charge's, the note the last reflection's, and a lease has both";
    others_are_not_reflected_on: "an account that is not claimable, or not open, is unknown to a reflection";
    lists_are_paged: "pages of any size list each account once, in the order of ids";
    closed_and_owed: "a closed account is owed until it is claimed, and forgotten after that alone";
    expired_and_owed: "what has expired or is closed is forgotten, unless something is owed";
    one_voucher_of_many: "of 64 at once that expect the same sum, one is granted, and its memo kept";
    charges_and_reflections: "charges and reflections at once lose neither";
    lower_limit_or_draw: "draws beside a limit that is lowered get no more than one of both limits";
    claim_or_late_charge: "a late charge beside a larger claim: what is spent in the end is what was claimed";
    lists_while_accounts_come_and_go: "accounts that stay are listed once, whatever comes and goes";
    a_dropped_reflection_is_repeated: "a reflection that is dropped on its way is repeated";
}

async fn what_is_not_open_is_unknown<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.account();
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Unknown, "a draw");
    must_be!(fixture.ledger.account(id).await?.is_none(), true, "there is no account");
    must_be!(fixture.ledger.close_account(id).await?.is_none(), true, "there is none to close");
    let lease = DrawLease::new(&Draw::new(id, units(1), LONG), 1, 1, AccountMemo::default());
    must_be!(fixture.charge(&lease, 1).await?, ChargeOutcome::LeaseLost, "a charge");
    must_be!(fixture.ledger.renew_draw(&lease).await?, DrawRenewal::LeaseLost, "a renewal");
    fixture.ledger.release_draw(&lease).await?;
    must_be!(fixture.told(id, 0).await?, DrawOutcome::Unknown, "a draw after all this");
    Ok(())
}

async fn it_is_drawn_down<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(3).await?;
    for left in [2, 1, 0] {
        let lease = fixture.draw(id, 1).await?;
        must_be!(fixture.charge(&lease, 1).await?, told if done(left)(&told), "the charge");
    }
    must_be!(fixture.told(id, 1).await?, DrawOutcome::UsedUp { left } if left.is_zero(), "a fourth draw");
    must_be!(fixture.ledger.draw(&Draw::new(id, units(1), LONG)).await?, DrawOutcome::UsedUp { .. }, "a fifth draw");
    must_be!(fixture.spent(id).await?, spent if spent == units(3), "what was spent");
    Ok(())
}

async fn accounts_are_told_apart<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let (one, other) = (fixture.open(1).await?, fixture.open(1).await?);
    let lease = fixture.draw(one, 1).await?;
    must_be!(fixture.charge(&fixture.draw(other, 1).await?, 1).await?, told if done(0)(&told), "the other's charge");
    must_be!(fixture.spent(one).await?.is_zero(), true, "nothing of the one is spent");
    let of_other = DrawLease::new(&Draw::new(other, units(1), LONG), lease.fencing_token(), 1, AccountMemo::default());
    must_be!(
        fixture.charge(&of_other, 1).await?,
        ChargeOutcome::LeaseLost | ChargeOutcome::Done { .. },
        "a charge of the one's lease on the other"
    );
    must_be!(fixture.spent(other).await?, spent if spent == units(1), "what was spent of the other");
    must_be!(fixture.charge(&lease, 1).await?, told if done(0)(&told), "the one's charge");
    Ok(())
}

async fn extremes_are_kept<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = AccountId::new([0xff; 16]);
    let every = (0..1024).map(|byte: usize| u8::try_from(byte % 256).unwrap_or(0)).collect::<Vec<_>>();
    let memo = AccountMemo::new(every).ok_or(Fault::new("the memo is too long"))?;
    let opening = Opening::new(id, Amount::MAX).lasting(Duration::MAX).with_memo(memo.clone());
    must_be!(fixture.ledger.open_account(&opening).await?, OpenOutcome::Open(_), "the opening");
    let lease = granted(fixture.ledger.draw(&Draw::new(id, Amount::MAX, LONG)).await?)?;
    must_be!(*lease.memo() == memo && lease.amount() == Amount::MAX, true, "the lease has memo and amount");
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Busy { .. }, "one more");
    must_be!(fixture.twin.charge(&lease, Amount::MAX, None).await?, told if done(0)(&told), "the charge");
    must_be!(fixture.told(id, 1).await?, DrawOutcome::UsedUp { .. }, "one more after that");
    must_be!(
        fixture.twin.account(id).await?,
        Some(account) if account.memo == memo && account.limit == Amount::MAX && account.spent == Amount::MAX,
        "the account"
    );
    Ok(())
}

async fn what_is_held_is_busy<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(2).await?;
    let lease = fixture.draw(id, 1).await?;
    must_be!(
        fixture.told(id, 2).await?,
        DrawOutcome::Busy { retry_after } if !retry_after.is_zero() && retry_after <= LONG,
        "two of two, one of which is held"
    );
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Granted(_), "the other one");
    must_be!(
        fixture.twin.account(id).await?,
        Some(account) if account.held == units(2) && account.left().is_zero() && account.drawn == 2,
        "the account"
    );
    must_be!(fixture.charge(&lease, 1).await?, ChargeOutcome::Done { .. }, "the charge");
    Ok(())
}

async fn what_is_never_left_is_used_up<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open(2).await?;
    let _held = fixture.draw(id, 1).await?;
    must_be!(fixture.told(id, 3).await?, DrawOutcome::UsedUp { left } if left == units(2), "three of two");
    Ok(())
}

async fn a_release_gives_back<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(1).await?;
    let first = fixture.draw(id, 1).await?;
    fixture.twin.release_draw(&first).await?;
    let second = fixture.draw(id, 1).await?;
    fixture.ledger.release_draw(&first).await?;
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Busy { .. }, "a draw after a second release of the first");
    must_be!(fixture.charge(&first, 1).await?, ChargeOutcome::LeaseLost, "a charge of what was released");
    must_be!(fixture.ledger.renew_draw(&first).await?, DrawRenewal::LeaseLost, "its renewal");
    must_be!(fixture.charge(&second, 1).await?, told if done(0)(&told), "the charge of the second");
    Ok(())
}

async fn a_smaller_charge_gives_back_the_rest<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open(10).await?;
    let lease = fixture.draw(id, 10).await?;
    must_be!(fixture.charge(&lease, 4).await?, told if done(6)(&told), "a charge of four of ten");
    let rest = fixture.draw(id, 6).await?;
    must_be!(fixture.charge(&rest, 0).await?, told if done(6)(&told), "a charge of nothing");
    must_be!(fixture.spent(id).await?, spent if spent == units(4), "what was spent");
    Ok(())
}

async fn a_larger_charge_is_refused<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(10).await?;
    let lease = fixture.draw(id, 4).await?;
    must_be!(fixture.charge(&lease, 5).await?, ChargeOutcome::TooMuch, "a charge of five of four");
    must_be!(fixture.spent(id).await?.is_zero(), true, "nothing is spent");
    must_be!(fixture.charge(&lease, 4).await?, told if done(6)(&told), "a charge of four");
    Ok(())
}

async fn a_charge_is_repeatable<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(100).await?;
    let first = fixture.draw(id, 4).await?;
    must_be!(fixture.charge(&first, 3).await?, told if done(97)(&told), "the charge");
    for _ in 0..20 {
        let other = fixture.draw(id, 1).await?;
        must_be!(fixture.charge(&other, 1).await?, ChargeOutcome::Done { .. }, "another's charge");
    }
    for amount in [3, 0, 4, 99] {
        must_be!(fixture.twin.charge(&first, units(amount), None).await?, told if done(77)(&told), "the charge again");
    }
    must_be!(fixture.spent(id).await?, spent if spent == units(23), "what was spent");
    Ok(())
}

async fn what_is_charged_stays<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(1).await?;
    let lease = fixture.draw(id, 1).await?;
    must_be!(fixture.charge(&lease, 1).await?, told if done(0)(&told), "the charge");
    fixture.twin.release_draw(&lease).await?;
    must_be!(fixture.ledger.renew_draw(&lease).await?, DrawRenewal::LeaseLost, "its renewal");
    must_be!(fixture.told(id, 1).await?, DrawOutcome::UsedUp { .. }, "a draw after that");
    Ok(())
}

async fn fences_and_numbers<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(9).await?;
    let (mut fences, mut numbers) = (Vec::new(), Vec::new());
    for number in 1..=6 {
        let lease = fixture.draw(id, 1).await?;
        match number % 3 {
            0 => fixture.ledger.release_draw(&lease).await?,
            1 => must_be!(fixture.charge(&lease, 1).await?, ChargeOutcome::Done { .. }, "the charge"),
            _ => {}
        }
        fences.push(lease.fencing_token());
        numbers.push(lease.number());
    }
    must_be!(fences.is_sorted_by(|one, next| one < next), true, "each fence is greater than those before");
    must_be!(numbers == [1, 2, 3, 4, 5, 6], true, "the numbers count up");
    Ok(())
}

async fn it_runs_out_and_is_free<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(2).await?;
    for _ in 0..2 {
        let _left = fixture.draw_briefly(id, 1).await?;
    }
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Busy { .. }, "a draw before they run out");
    fixture.run_out().await;
    must_be!(
        fixture.twin.account(id).await?,
        Some(account) if account.left() == units(2) && account.held.is_zero(),
        "the account"
    );
    let both = fixture.draw(id, 2).await?;
    must_be!(fixture.charge(&both, 2).await?, told if done(0)(&told), "the charge of both");
    Ok(())
}

async fn a_late_holder_goes_on<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(3).await?;
    let (first, second) = (fixture.draw_briefly(id, 1).await?, fixture.draw_briefly(id, 1).await?);
    fixture.run_out().await;
    // Enough is left beside both.
    let third = fixture.draw(id, 1).await?;
    must_be!(fixture.charge(&first, 1).await?, ChargeOutcome::Done { .. }, "a late charge");
    must_be!(fixture.ledger.renew_draw(&second).await?, DrawRenewal::Held, "a late renewal");
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Busy { .. }, "a draw after that");
    must_be!(fixture.charge(&second, 1).await?, ChargeOutcome::Done { .. }, "the second's charge");
    must_be!(fixture.charge(&third, 1).await?, told if done(0)(&told), "the third's charge");
    Ok(())
}

async fn what_was_taken_over_is_lost<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(2).await?;
    let late = fixture.draw_briefly(id, 2).await?;
    fixture.run_out().await;
    let next = fixture.draw(id, 1).await?;
    must_be!(fixture.charge(&late, 1).await?, ChargeOutcome::LeaseLost, "the charge of what another got");
    must_be!(fixture.ledger.renew_draw(&late).await?, DrawRenewal::LeaseLost, "its renewal");
    fixture.ledger.release_draw(&late).await?;
    must_be!(fixture.told(id, 2).await?, DrawOutcome::Busy { .. }, "two, one of which is held");
    must_be!(fixture.charge(&next, 1).await?, told if done(1)(&told), "the next holder's charge");
    Ok(())
}

async fn a_renewal_prolongs<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(1).await?;
    let lease = fixture.draw_briefly(id, 1).await?;
    for _ in 0..3 {
        fixture.harness.pass(fixture.harness.lease() * 2 / 3).await;
        must_be!(fixture.ledger.renew_draw(&lease).await?, DrawRenewal::Held, "a renewal in time");
    }
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Busy { .. }, "a draw");
    must_be!(fixture.charge(&lease, 1).await?, told if done(0)(&told), "the charge");
    Ok(())
}

async fn an_expired_account_grants_nothing<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.account();
    let brief = fixture.harness.lease() * 2;
    let opening = Opening::new(id, units(3)).lasting(brief);
    must_be!(fixture.ledger.open_account(&opening).await?, OpenOutcome::Open(account) if account.expires.is_some(), "the opening");
    let lease = fixture.draw(id, 1).await?;
    // A memory ledger counts whole seconds.
    fixture.harness.pass(brief + Duration::from_secs(1)).await;
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Expired, "a draw after its end");
    must_be!(fixture.charge(&lease, 1).await?, told if done(2)(&told), "the charge of what was granted before");
    must_be!(fixture.told(id, 9).await?, DrawOutcome::Expired, "more than there is, after its end");
    Ok(())
}

async fn opened_again<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(5).await?;
    must_be!(fixture.charge(&fixture.draw(id, 2).await?, 2).await?, told if done(3)(&told), "the charge");
    for (limit, left) in [(5, 3), (4, 3), (7, 5), (1, 5)] {
        must_be!(
            fixture.twin.open_account(&Opening::new(id, units(limit))).await?,
            OpenOutcome::Open(account) if account.left() == units(left) && account.expires.is_none(),
            "the account, opened again"
        );
    }
    let timed = fixture.account();
    let open = async |lasts| match fixture.ledger.open_account(&Opening::new(timed, units(1)).lasting(lasts)).await? {
        OpenOutcome::Open(account) => Ok(account.expires),
        OpenOutcome::Closed => Err(Fault::new("an open account is closed")),
    };
    let (first, shorter, longer) = (open(LONG).await?, open(LONG / 2).await?, open(LONG * 2).await?);
    must_be!(first == shorter && first < longer, true, "its end is the later one");
    let never = fixture.ledger.open_account(&Opening::new(timed, units(1))).await?;
    must_be!(never, OpenOutcome::Open(account) if account.expires.is_none(), "its end, if one of them never ends");
    Ok(())
}

async fn closed_for_good<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(9).await?;
    must_be!(fixture.charge(&fixture.draw(id, 2).await?, 2).await?, ChargeOutcome::Done { .. }, "the charge");
    let (live, given_back) = (fixture.draw(id, 1).await?, fixture.draw(id, 3).await?);
    must_be!(
        fixture.ledger.close_account(id).await?,
        Some(closed) if closed.left == units(3) && closed.held == units(4),
        "what is left and held"
    );
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Closed, "a draw");
    must_be!(fixture.ledger.open_account(&Opening::new(id, units(99))).await?, OpenOutcome::Closed, "an opening");
    must_be!(fixture.charge(&live, 1).await?, ChargeOutcome::Done { .. }, "the charge of what is live");
    fixture.ledger.release_draw(&given_back).await?;
    must_be!(
        fixture.twin.close_account(id).await?,
        Some(closed) if closed.left == units(6) && closed.held.is_zero(),
        "what is left in the end"
    );
    must_be!(fixture.twin.account(id).await?, Some(account) if account.closed && account.spent == units(3), "the account");
    Ok(())
}

async fn what_ran_out_is_not_charged_after_closing<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let id = fixture.open(1).await?;
    let late = fixture.draw_briefly(id, 1).await?;
    fixture.run_out().await;
    must_be!(fixture.ledger.close_account(id).await?, Some(closed) if closed.left == units(1), "what is left");
    must_be!(fixture.charge(&late, 1).await?, ChargeOutcome::LeaseLost, "a late charge of what was given back");
    Ok(())
}

async fn the_memo_of_the_last_charge<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.account();
    let opening = |text| Ok::<_, Fault>(Opening::new(id, units(9)).with_memo(memo(text)?));
    let now = async || match fixture.twin.account(id).await? {
        Some(account) => Ok(String::from_utf8_lossy(account.memo.as_bytes()).into_owned()),
        None => Err(Fault::new("an account that was opened is unknown")),
    };
    must_be!(fixture.ledger.open_account(&opening("first")?).await?, OpenOutcome::Open(_), "the opening");
    must_be!(fixture.ledger.open_account(&opening("second")?).await?, OpenOutcome::Open(_), "the opening again");
    must_be!(now().await? == "second", true, "before anything was drawn the last opener's counts");
    let (one, other) = (fixture.draw(id, 1).await?, fixture.draw(id, 1).await?);
    must_be!(one.memo().as_bytes() == b"second", true, "the lease has it");
    must_be!(fixture.ledger.open_account(&opening("third")?).await?, OpenOutcome::Open(_), "an opening later");
    must_be!(
        fixture.ledger.charge(&one, units(1), Some(&memo("voucher")?)).await?,
        ChargeOutcome::Done { .. },
        "a charge"
    );
    must_be!(now().await? == "voucher", true, "the charge's memo counts");
    must_be!(fixture.charge(&other, 1).await?, ChargeOutcome::Done { .. }, "a charge without memo");
    must_be!(
        fixture.ledger.charge(&other, units(1), Some(&memo("again")?)).await?,
        ChargeOutcome::Done { .. },
        "it again"
    );
    must_be!(now().await? == "voucher", true, "neither changes it");
    Ok(())
}

async fn expected_sums<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(9).await?;
    let step = |spent| Draw::new(id, units(2), fixture.harness.lease()).expecting(units(spent));
    must_be!(fixture.ledger.draw(&step(1)).await?, DrawOutcome::Mismatch { spent } if spent.is_zero(), "of one, where nothing is spent");
    let first = granted(fixture.ledger.draw(&step(0)).await?)?;
    must_be!(fixture.twin.draw(&step(0)).await?, DrawOutcome::Busy { .. }, "of nothing, while one is under way");
    must_be!(fixture.twin.draw(&step(5)).await?, DrawOutcome::Busy { .. }, "of five, while one is under way");
    must_be!(fixture.charge(&first, 2).await?, ChargeOutcome::Done { .. }, "the charge");
    must_be!(fixture.twin.draw(&step(0)).await?, DrawOutcome::Mismatch { spent } if spent == units(2), "of nothing, later");
    let late = granted(fixture.twin.draw(&step(2)).await?)?;
    fixture.run_out().await;
    let next = granted(fixture.twin.draw(&step(2)).await?)?;
    must_be!(fixture.charge(&late, 2).await?, ChargeOutcome::LeaseLost, "a late charge");
    must_be!(fixture.charge(&next, 2).await?, told if done(5)(&told), "the next one's charge");
    Ok(())
}

async fn so_many_at_once<H: Harness<Ledger: AccountLedger>>(fixture: &Fixture<'_, H>) -> Result<(), Fault> {
    let id = fixture.open(1_000).await?;
    let mut leases = Vec::new();
    for _ in 0..MOST_HELD {
        leases.push(fixture.draw(id, 1).await?);
    }
    must_be!(fixture.told(id, 1).await?, DrawOutcome::Busy { .. }, "one more");
    for lease in &leases {
        must_be!(fixture.charge(lease, 1).await?, ChargeOutcome::Done { .. }, "each charge");
    }
    for lease in &leases {
        must_be!(fixture.charge(lease, 1).await?, ChargeOutcome::Done { .. }, "each charge again");
    }
    must_be!(fixture.spent(id).await?, spent if spent == units(MOST_HELD), "what was spent");
    Ok(())
}

async fn expired_accounts_are_forgotten<H: Harness<Ledger: AccountLedger>>(
    fixture: &Fixture<'_, H>,
) -> Result<(), Fault> {
    let (ended, later, never) = (fixture.account(), fixture.account(), fixture.open(1).await?);
    let brief = Duration::from_secs(1);
    for (id, lasts) in [(ended, brief), (later, LONG * 2)] {
        let opening = Opening::new(id, units(1)).lasting(lasts);
        must_be!(fixture.ledger.open_account(&opening).await?, OpenOutcome::Open(_), "the opening");
    }
    fixture.harness.pass(brief * 3).await;
    must_be!(fixture.ledger.sweep_accounts(LONG).await?, 0, "forgotten too early");
    must_be!(fixture.told(ended, 1).await?, DrawOutcome::Expired, "a draw on what ended");
    must_be!(fixture.ledger.sweep_accounts(Duration::ZERO).await?, 1, "forgotten");
    must_be!(fixture.told(ended, 1).await?, DrawOutcome::Unknown, "a draw on what was forgotten");
    for id in [later, never] {
        let _lease = fixture.draw(id, 1).await?;
    }
    Ok(())
}
