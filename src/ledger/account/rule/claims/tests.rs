use std::time::Duration;

use proptest::prelude::*;

use super::super::{
    AccountAnswer, AccountQuestion, DrawOutcome, OpenOutcome,
    tests::{Book, ID, MINUTE, units},
};
use crate::{
    ledger::account::{
        claim::{Draw, DrawLease, Opening},
        id::AccountMemo,
        outcome::{Account, ChargeOutcome, ReflectOutcome},
        record::AccountRecord,
        reflection::Reflection,
        time::AccountTime,
    },
    protocol::Amount,
};

impl Book {
    fn claimable(limit: u64, spent: u64) -> Self {
        let mut book = Self::default();
        let opening = Opening::new(ID, units(limit)).claimable().with_spent(units(spent));
        assert!(matches!(
            book.ask(&AccountQuestion::Open(opening), 0),
            AccountAnswer::Opened(OpenOutcome::Open(account)) if account.spent == units(spent)
        ));
        book
    }

    fn reflect(&mut self, reflection: Reflection, now: u64) -> Account {
        match self.ask(&AccountQuestion::Reflect(reflection), now) {
            AccountAnswer::Reflected(ReflectOutcome::Done(account)) => account,
            other => panic!("{other:?}"),
        }
    }
}

fn read() -> Reflection {
    Reflection::new(ID)
}

/// Since when there is a debt, in seconds.
fn since(book: &Book) -> Option<u64> {
    book.0.as_ref().unwrap().claims.as_ref().unwrap().since.map(|micros| micros / 1_000_000)
}

#[test]
fn it_is_owed_since_the_first_charge_after_the_last_claim() {
    let mut book = Book::claimable(100, 10);
    assert_eq!(since(&book), None);
    // The time, the charge or else the claim, and since when there is a debt afterwards.
    for (now, charged, claimed, told) in [
        (1, Some(0), None, None),
        (2, Some(3), None, Some(2)),
        (3, Some(4), None, Some(2)),
        (4, None, Some(10), Some(2)),
        (5, None, Some(12), Some(5)),
        (6, None, Some(12), Some(5)),
        (7, None, Some(11), Some(5)),
        (8, None, Some(17), None),
        (9, None, Some(17), None),
        (10, Some(0), None, None),
        (11, Some(1), None, Some(11)),
        (12, None, Some(30), None),
    ] {
        if let Some(amount) = charged {
            let lease = book.hold(amount, now);
            assert!(matches!(book.charge(&lease, amount, now), ChargeOutcome::Done { .. }));
        }
        if let Some(claimed) = claimed {
            let _ = book.reflect(read().claimed(units(claimed)), now);
        }
        assert_eq!(since(&book), told, "at {now}");
    }
}

#[test]
fn a_claim_that_was_dropped_is_owed_since_then() {
    let mut book = Book::claimable(100, 0);
    let lease = book.hold(9, 1);
    let _ = book.charge(&lease, 9, 1);
    let _ = book.reflect(read().claimed(units(9)).as_of(1), 2);
    assert_eq!(since(&book), None);
    assert_eq!(book.reflect(read().claimed(units(4)).as_of(2), 3).owed(), units(5));
    assert_eq!(since(&book), Some(3));
    assert_eq!(book.reflect(read().claimed(units(3)).as_of(3), 4).owed(), units(6));
    assert_eq!(since(&book), Some(3), "less is claimed, and it is owed as long");
}

#[test]
fn what_was_read_at_no_known_block_raises_no_limit_that_was() {
    let mut book = Book::claimable(100, 0);
    assert_eq!(book.reflect(read().limit(units(110)), 1).limit, units(110), "by a settler that knows no blocks");
    let _ = book.reflect(read().limit(units(120)).as_of(5), 2);
    assert_eq!(book.reflect(read().limit(units(130)), 3).limit, units(120));
    assert_eq!(book.reflect(read().limit(units(90)), 4).limit, units(90));
    assert_eq!(book.reflect(read().limit(units(130)).as_of(5), 5).limit, units(130), "the last block is still known");
}

/// A few nodes answered while the others were down.
#[test]
fn what_was_read_at_no_known_block_claims_nothing_and_leaves_the_note() {
    let note = |text: &str| AccountMemo::new(text.as_bytes()).unwrap();
    let mut book = Book::claimable(100, 0);
    let lease = book.hold(9, 1);
    let _ = book.charge(&lease, 9, 1);
    let _ = book.reflect(read().claimed(units(2)).note(note("withdraws")).as_of(5), 2);
    let live = book.hold(3, 3);
    let account = book.reflect(read().claimed(units(50)).note(note("does not")), 4);
    assert_eq!((account.spent, account.owed()), (units(9), units(7)));
    assert_eq!(account.claims.unwrap().note, note("withdraws"));
    assert!(matches!(book.charge(&live, 3, 5), ChargeOutcome::Done { .. }), "what is held stays");
    let account = book.reflect(read().claimed(units(12)).note(note("does not")).as_of(6), 6);
    assert_eq!((account.owed(), account.claims.unwrap().note), (units(0), note("does not")));
}

#[test]
fn nothing_new_is_not_written() {
    let mut book = Book::claimable(100, 7);
    let full = read().claimed(units(7)).limit(units(90)).as_of(5);
    let _ = book.reflect(full.clone(), 1);
    for (reflection, writes) in [
        (full.clone(), false),
        (read(), false),
        (full.clone().as_of(4).limit(units(1)), false),
        (full.clone().as_of(6), true),
        (full.claimed(units(8)), true),
    ] {
        let question = AccountQuestion::Reflect(reflection.clone());
        let verdict = super::super::decide_account(book.0.clone(), &question, AccountTime::at(2_000_000));
        assert_eq!(verdict.write.is_some(), writes, "{reflection:?}");
    }
}

#[test]
fn what_does_not_fit_together_is_no_record() {
    let whole = r#"{"limit":"3","spent":"5","fence":9,"drawn":2,"held":[[9,"2",60000000]],"claims":{"claimed":"4"}}"#;
    assert!(AccountRecord::parse(whole).is_some(), "its limit was lowered");
    for broken in [
        whole.replace(r#""claimed":"4""#, r#""claimed":"6""#),
        whole.replace(r#""2""#, &format!("\"{}\"", Amount::MAX)),
        whole.replace(r#","claims":{"claimed":"4"}"#, ""),
        whole.replace(r#""claimed":"4""#, ""),
    ] {
        assert_eq!(AccountRecord::parse(&broken), None, "{broken}");
    }
    // The text of a record from before claims existed.
    let before = r#"{"limit":"3","spent":"1","fence":9,"drawn":2,"memo":"6d","charged":[7]}"#;
    let record = AccountRecord::parse(before).unwrap();
    assert_eq!(record.to_string(), before);
    assert!(!record.is_claimable() && !record.is_owed() && !record.is_open_to_claims());
}

#[test]
fn a_closed_one_ends_once() {
    let mut book = Book::claimable(9, 0);
    let end = |book: &Book| book.0.as_ref().unwrap().expires();
    assert_eq!(end(&book), None);
    let lease = book.hold(2, 1);
    let _ = book.ask(&AccountQuestion::Close(ID), 3);
    assert_eq!(end(&book), Some(3_000_000));
    assert!(matches!(book.charge(&lease, 2, 4), ChargeOutcome::Done { .. }));
    assert_eq!(end(&book), None, "something is owed");
    let _ = book.ask(&AccountQuestion::Close(ID), 5);
    let _ = book.reflect(read().claimed(units(2)), 6);
    assert_eq!(end(&book), Some(3_000_000));
    let is_forgettable = |seconds: u64, now: u64| {
        let now = AccountTime::at(now * 1_000_000);
        book.0.as_ref().unwrap().is_forgettable(Duration::from_secs(seconds), now)
    };
    assert!(!is_forgettable(10, 13) && is_forgettable(10, 14));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u64),
    Draw(u64, bool),
    Charge(usize, u64),
    Renew(usize),
    Release(usize),
    Reflect { limit: Option<u64>, claimed: Option<u64>, as_of: Option<u64> },
    Close,
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let lease = || any::<prop::sample::Index>().prop_map(|lease| lease.index(16));
    let some = |most: u64| prop::option::weighted(0.6, 0..most);
    let step = prop_oneof![
        1 => (0..30_u64).prop_map(Step::Open),
        8 => (0..6_u64, any::<bool>()).prop_map(|(amount, expecting)| Step::Draw(amount, expecting)),
        7 => (lease(), 0..6_u64).prop_map(|(lease, amount)| Step::Charge(lease, amount)),
        2 => lease().prop_map(Step::Renew),
        2 => lease().prop_map(Step::Release),
        6 => (some(30), some(30), some(9))
            .prop_map(|(limit, claimed, as_of)| Step::Reflect { limit, claimed, as_of }),
        1 => Just(Step::Close),
    ];
    prop::collection::vec((step, prop_oneof![3 => 0..5_u64, 1 => 30..70_u64]), 1..60)
}

/// The seller's own count, independent of the rule.
#[derive(Default)]
struct Model {
    limit: u64,
    spent: u64,
    claimed: u64,
    as_of: Option<u64>,
    is_closed: bool,
    /// Each grant with its amount and the end of its lease, until it is charged, released or void.
    grants: Vec<(DrawLease, u64, Option<u64>)>,
    spent_by: Vec<u64>,
}

impl Model {
    fn live(&self, now: u64) -> (usize, u64) {
        let live = self.grants.iter().filter(|(_, _, until)| until.is_some_and(|until| until > now));
        live.fold((0, 0), |(count, sum), (_, amount, _)| (count + 1, sum + amount))
    }

    fn reflect(&mut self, limit: Option<u64>, claimed: Option<u64>, as_of: Option<u64>) {
        let order = self.as_of.zip(as_of).map(|(last, read)| read.cmp(&last));
        if order.is_some_and(std::cmp::Ordering::is_lt) {
            return;
        }
        let is_surer = self.as_of.is_none() || as_of.is_some();
        if let Some(claimed) = claimed.filter(|_| is_surer) {
            let falls = order.is_some_and(std::cmp::Ordering::is_gt);
            self.claimed = if falls { claimed } else { claimed.max(self.claimed) };
            if self.claimed > self.spent {
                self.spent = self.claimed;
                self.grants.iter_mut().for_each(|(.., until)| *until = None);
            }
        }
        if let Some(limit) = limit {
            self.limit = if is_surer { limit } else { limit.min(self.limit) };
        }
        self.as_of = as_of.or(self.as_of);
    }
}

proptest! {
    /// For any questions at any times: a grant is always covered by the last limit; a live lease can be charged unless
    /// a claim made it void; the spent amount never falls; and the debt is the spent amount minus the claimed one.
    #[test]
    fn nothing_is_sold_that_is_not_covered_and_nothing_owed_is_lost(steps in steps(), spent in 0..9_u64) {
        let mut book = Book::claimable(20, spent);
        let mut model = Model { limit: 20, spent, claimed: spent, ..Model::default() };
        let mut now = 0;
        for (step, passes) in steps {
            now += passes;
            let before = model.spent;
            match step {
                Step::Open(limit) => {
                    let _ = book.ask(&AccountQuestion::Open(Opening::new(ID, units(limit)).with_spent(units(3))), now);
                    if !model.is_closed {
                        model.limit = model.limit.max(limit);
                    }
                }
                Step::Draw(amount, expecting) => {
                    let draw = Draw::new(ID, units(amount), MINUTE);
                    let draw = if expecting { draw.expecting(units(model.spent)) } else { draw };
                    let AccountAnswer::Drawn(outcome) = book.ask(&AccountQuestion::Draw(draw), now) else { panic!() };
                    let (count, held) = model.live(now);
                    let left = model.limit.saturating_sub(model.spent).saturating_sub(held);
                    let is_free = !model.is_closed && amount <= left && !(expecting && count > 0);
                    prop_assert_eq!(matches!(outcome, DrawOutcome::Granted(_)), is_free, "{:?}", outcome);
                    if let DrawOutcome::Granted(lease) = outcome {
                        model.grants.push((lease, amount, Some(now + MINUTE.as_secs())));
                    }
                }
                Step::Charge(which, amount) if which < model.grants.len() => {
                    let (lease, held, until) = model.grants[which].clone();
                    let was_spent = model.spent_by.contains(&lease.fencing_token());
                    match book.charge(&lease, amount, now) {
                        ChargeOutcome::Done { .. } if was_spent => {}
                        ChargeOutcome::Done { .. } => {
                            prop_assert!(until.is_some() && amount <= held, "a charge of what is not held");
                            model.grants[which].2 = None;
                            model.spent += amount;
                            model.spent_by.push(lease.fencing_token());
                        }
                        ChargeOutcome::TooMuch => prop_assert!(until.is_some() && amount > held),
                        ChargeOutcome::LeaseLost => {
                            prop_assert!(!was_spent && until.is_none_or(|until| until <= now), "a live lease is charged");
                            model.grants[which].2 = None;
                        }
                    }
                }
                Step::Renew(which) if which < model.grants.len() => {
                    let lease = model.grants[which].0.clone();
                    let until = model.grants[which].2;
                    let AccountAnswer::Renewed(outcome) = book.ask(&AccountQuestion::Renew(lease), now) else { panic!() };
                    let is_held = outcome == crate::ledger::DrawRenewal::Held;
                    prop_assert!(!is_held || until.is_some(), "a renewal of what is not held");
                    prop_assert!(is_held || until.is_none_or(|until| until <= now), "a live lease is renewed");
                    model.grants[which].2 = is_held.then_some(now + MINUTE.as_secs());
                }
                Step::Release(which) if which < model.grants.len() => {
                    let _ = book.ask(&AccountQuestion::Release(model.grants[which].0.clone()), now);
                    model.grants[which].2 = None;
                }
                Step::Reflect { limit, claimed, as_of } => {
                    let mut reflection = read();
                    reflection.limit = limit.map(units);
                    reflection.claimed = claimed.map(units);
                    reflection.as_of = as_of;
                    let _ = book.reflect(reflection, now);
                    model.reflect(limit, claimed, as_of);
                }
                Step::Close => {
                    let _ = book.ask(&AccountQuestion::Close(ID), now);
                    model.is_closed = true;
                }
                _ => {}
            }
            prop_assert!(model.spent >= before, "what was spent never falls");
            let record = book.0.as_ref().unwrap();
            let account = record.at(AccountTime::at(now * 1_000_000));
            let claims = account.claims.as_ref().unwrap();
            prop_assert_eq!((account.limit, account.spent, claims.claimed, claims.as_of),
                (units(model.limit), units(model.spent), units(model.claimed), model.as_of));
            let (_, held) = model.live(now);
            prop_assert_eq!(account.held, units(held));
            prop_assert_eq!(account.owed(), units(model.spent - model.claimed));
            prop_assert_eq!(account.shortfall(), units((model.spent + held).saturating_sub(model.limit)));
            prop_assert_eq!(record.is_owed(), model.spent > model.claimed);
            prop_assert_eq!(claims.since.is_some(), record.is_owed());
            prop_assert_eq!(record.is_open_to_claims(), !model.is_closed);
            prop_assert_eq!(record.expires().is_some(), model.is_closed && !record.is_owed());
        }
    }
}
