use proptest::prelude::*;

use super::*;

pub(super) const ID: AccountId = AccountId::new([7; 16]);
pub(super) const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn units(units: u64) -> Amount {
    Amount::from_base_units(units.into())
}

fn at(seconds: u64) -> AccountTime {
    AccountTime::at(seconds * 1_000_000)
}

/// An account with a clock of whole seconds.
#[derive(Default)]
pub(super) struct Book(pub(super) Option<AccountRecord>);

impl Book {
    fn open(limit: u64) -> Self {
        let mut book = Self::default();
        let _ = book.ask(&AccountQuestion::Open(Opening::new(ID, units(limit))), 0);
        book
    }

    pub(super) fn ask(&mut self, question: &AccountQuestion, now: u64) -> AccountAnswer {
        let verdict = decide_account(self.0.clone(), question, at(now));
        if let Some(record) = verdict.write {
            let text = record.to_string();
            assert_eq!(AccountRecord::parse(&text), Some(record.clone()), "{text}");
            self.0 = Some(record);
        }
        verdict.answer
    }

    pub(super) fn draw(&mut self, amount: u64, now: u64) -> DrawOutcome {
        match self.ask(&AccountQuestion::Draw(Draw::new(ID, units(amount), MINUTE)), now) {
            AccountAnswer::Drawn(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn hold(&mut self, amount: u64, now: u64) -> DrawLease {
        match self.draw(amount, now) {
            DrawOutcome::Granted(lease) => lease,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn charge(&mut self, lease: &DrawLease, amount: u64, now: u64) -> ChargeOutcome {
        match self.ask(&AccountQuestion::Charge(lease.clone(), units(amount), None), now) {
            AccountAnswer::Charged(outcome) => outcome,
            other => panic!("{other:?}"),
        }
    }
}

/// After a draw that allows no other reservation, only the holders of the last charges may repeat theirs.
#[test]
fn the_last_charges_can_be_repeated_once_another_reservation_stands_alone() {
    let mut book = Book::open(100);
    let mut leases = Vec::new();
    for spent in 0..12 {
        let draw = Draw::new(ID, units(1), MINUTE).expecting(units(spent));
        let AccountAnswer::Drawn(DrawOutcome::Granted(lease)) = book.ask(&AccountQuestion::Draw(draw), 0) else {
            panic!("not granted");
        };
        assert_eq!(book.charge(&lease, 1, 0), ChargeOutcome::Done { left: units(99 - spent) });
        leases.push(lease);
    }
    // The last grant left only the latest charges repeatable; its own charge came afterwards.
    let (forgotten, last) = leases.split_at(leases.len() - REMEMBERED_ALONE - 1);
    for lease in last {
        assert_eq!(book.charge(lease, 1, 0), ChargeOutcome::Done { left: units(88) });
    }
    for lease in forgotten {
        assert_eq!(book.charge(lease, 1, 0), ChargeOutcome::LeaseLost);
    }
}

#[test]
fn refusals_in_their_order() {
    let busy = |seconds| DrawOutcome::Busy { retry_after: Duration::from_secs(seconds) };
    let used_up = |left| DrawOutcome::UsedUp { left: units(left) };
    assert_eq!(Book::default().draw(1, 0), DrawOutcome::Unknown);
    // The held amounts of ten, the spent amount, the draw, and its outcome 20 s later.
    for (held, spent, amount, told) in
        [(0, 10, 1, used_up(0)), (0, 4, 7, used_up(6)), (5, 4, 7, used_up(6)), (5, 4, 2, busy(40)), (6, 4, 1, busy(40))]
    {
        let mut book = Book::open(10);
        let lease = book.hold(spent, 0);
        assert_eq!(book.charge(&lease, spent, 0), ChargeOutcome::Done { left: units(10 - spent) });
        if held > 0 {
            let _held = book.hold(held, 0);
        }
        assert_eq!(book.draw(amount, 20), told, "{held} held, {spent} spent, {amount} drawn");
        let _ = book.ask(&AccountQuestion::Close(ID), 20);
        assert_eq!(book.draw(amount, 20), DrawOutcome::Closed);
    }
}

#[test]
fn a_clock_that_is_set_back_leaves_no_lease_behind() {
    let mut book = Book::open(1);
    let day = 86_400;
    let late = book.hold(1, 10 * day);
    assert!(matches!(book.draw(1, 10 * day), DrawOutcome::Busy { .. }));
    let next = book.hold(1, day);
    assert!(next.fencing_token() > late.fencing_token(), "no fence comes again");
    assert_eq!(book.charge(&late, 1, day), ChargeOutcome::LeaseLost);
    assert_eq!(book.charge(&next, 1, day), ChargeOutcome::Done { left: Amount::ZERO });
}

#[test]
fn an_end_that_is_never_is_the_later_one() {
    let mut book = Book::default();
    let open = |lasts: Option<u64>| {
        let opening = Opening::new(ID, units(1));
        AccountQuestion::Open(match lasts {
            Some(lasts) => opening.lasting(Duration::from_secs(lasts)),
            None => opening,
        })
    };
    for (lasts, end) in
        [(Some(60), Some(60)), (Some(30), Some(60)), (Some(90), Some(90)), (None, None), (Some(9), None)]
    {
        let _ = book.ask(&open(lasts), 0);
        let end: Option<u64> = end.map(|seconds: u64| seconds * 1_000_000);
        assert_eq!(book.0.as_ref().unwrap().expires(), end);
    }
}

#[test]
fn a_record_that_promises_more_than_its_limit_is_none() {
    let whole = r#"{"limit":"3","spent":"1","fence":9,"drawn":2,"held":[[9,"2",60000000]]}"#;
    assert!(AccountRecord::parse(whole).is_some());
    for broken in
        [whole.replace("\"2\"", "\"3\""), whole.replace("\"3\"", "\"0\""), whole.replace('}', ""), "{}".into()]
    {
        assert_eq!(AccountRecord::parse(&broken), None, "{broken}");
    }
}

/// An action, with the index of its lease, its amount, and the seconds that pass before it.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u64),
    Draw(u64, Option<u64>),
    Charge(usize, u64),
    Renew(usize),
    Release(usize),
    Close,
}

fn steps() -> impl Strategy<Value = Vec<(Step, u64)>> {
    let step = prop_oneof![
        1 => (0..12_u64).prop_map(Step::Open),
        8 => (0..5_u64, prop::option::weighted(0.2, 0..6_u64)).prop_map(|(amount, expected)| Step::Draw(amount, expected)),
        6 => (any::<prop::sample::Index>(), 0..5_u64).prop_map(|(lease, amount)| Step::Charge(lease.index(16), amount)),
        2 => any::<prop::sample::Index>().prop_map(|lease| Step::Renew(lease.index(16))),
        3 => any::<prop::sample::Index>().prop_map(|lease| Step::Release(lease.index(16))),
        1 => Just(Step::Close),
    ];
    prop::collection::vec((step, prop_oneof![3 => 0..5_u64, 1 => 30..70_u64]), 1..60)
}

/// The state of a grant as its holder knows it: held until a time, then charged, released or lost.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Held { until: u64 },
    Spent,
    Gone,
}

/// Every grant with its fate; sums are counted anew each time.
#[derive(Default)]
struct Model {
    limit: u64,
    is_open: bool,
    is_closed: bool,
    grants: Vec<(DrawLease, u64, Fate)>,
    spent: u64,
}

impl Model {
    fn live(&self, now: u64) -> u64 {
        let live = |fate: &Fate| matches!(fate, Fate::Held { until } if *until > now);
        self.grants.iter().filter(|(_, _, fate)| live(fate)).map(|(_, amount, _)| amount).sum()
    }

    fn count_live(&self, now: u64) -> usize {
        self.grants.iter().filter(|(_, _, fate)| matches!(fate, Fate::Held { until } if *until > now)).count()
    }
}

proptest! {
    /// For any questions at any times: the spent amount stays within the limit; a draw is granted exactly if the live
    /// leases leave room; and a lost lease stays lost.
    #[test]
    fn nothing_is_spent_twice(steps in steps()) {
        let (mut book, mut model, mut now) = (Book::default(), Model::default(), 0);
        for (step, passes) in steps {
            now += passes;
            match step {
                Step::Open(limit) => {
                    let _ = book.ask(&AccountQuestion::Open(Opening::new(ID, units(limit))), now);
                    if !model.is_closed {
                        (model.is_open, model.limit) = (true, model.limit.max(limit));
                    }
                }
                Step::Draw(amount, expected) => {
                    let draw = Draw::new(ID, units(amount), MINUTE);
                    let draw = expected.map_or(draw.clone(), |spent| draw.expecting(units(spent)));
                    let AccountAnswer::Drawn(outcome) = book.ask(&AccountQuestion::Draw(draw), now) else { panic!() };
                    let fits = model.spent + model.live(now) + amount <= model.limit;
                    let is_expected = expected.is_none_or(|spent| model.count_live(now) == 0 && spent == model.spent);
                    let is_granted = matches!(outcome, DrawOutcome::Granted(_));
                    let is_free = model.is_open && !model.is_closed && is_expected && fits;
                    prop_assert_eq!(is_granted, is_free, "{:?}", outcome);
                    if let DrawOutcome::Granted(lease) = outcome {
                        model.grants.push((lease, amount, Fate::Held { until: now + MINUTE.as_secs() }));
                    }
                }
                Step::Charge(which, amount) if which < model.grants.len() => {
                    let (lease, held, fate) = model.grants[which].clone();
                    match (book.charge(&lease, amount, now), fate) {
                        (ChargeOutcome::Done { .. }, Fate::Spent) => {}
                        (ChargeOutcome::Done { .. }, Fate::Held { .. }) if amount <= held => {
                            model.grants[which].2 = Fate::Spent;
                            model.spent += amount;
                        }
                        (ChargeOutcome::TooMuch, Fate::Held { .. }) => prop_assert!(amount > held),
                        (ChargeOutcome::LeaseLost, Fate::Held { until }) => {
                            prop_assert!(until <= now, "a live lease is charged");
                            model.grants[which].2 = Fate::Gone;
                        }
                        (ChargeOutcome::LeaseLost, Fate::Gone) => {}
                        (outcome, fate) => prop_assert!(false, "{:?} of {:?}", outcome, fate),
                    }
                }
                Step::Renew(which) if which < model.grants.len() => {
                    let (lease, _, fate) = model.grants[which].clone();
                    let AccountAnswer::Renewed(outcome) = book.ask(&AccountQuestion::Renew(lease), now) else { panic!() };
                    match (outcome, fate) {
                        (DrawRenewal::Held, Fate::Held { .. }) => {
                            model.grants[which].2 = Fate::Held { until: now + MINUTE.as_secs() };
                        }
                        (DrawRenewal::LeaseLost, Fate::Held { until }) => {
                            prop_assert!(until <= now, "a live lease is renewed");
                            model.grants[which].2 = Fate::Gone;
                        }
                        (DrawRenewal::LeaseLost, _) => {}
                        (DrawRenewal::Held, fate) => prop_assert!(false, "renewed, though {:?}", fate),
                    }
                }
                Step::Release(which) if which < model.grants.len() => {
                    let _ = book.ask(&AccountQuestion::Release(model.grants[which].0.clone()), now);
                    if let fate @ Fate::Held { .. } = &mut model.grants[which].2 {
                        *fate = Fate::Gone;
                    }
                }
                Step::Close => {
                    let _ = book.ask(&AccountQuestion::Close(ID), now);
                    model.is_closed |= model.is_open;
                }
                _ => {}
            }
            prop_assert!(model.spent <= model.limit);
            if let Some(record) = &book.0 {
                prop_assert_eq!(record.spent, units(model.spent));
                prop_assert!(record.is_covered());
            }
        }
    }
}
