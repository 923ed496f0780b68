//! Sellers who race for the same payments, what they write down, and what must be true of all that together.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    str::FromStr,
    time::{Duration, Instant},
};

use rand::Rng;
use tower_x402::{
    ledger::{Claim, CommitOutcome, KeptAnswer, Lease, Ledger, LedgerError, ReserveOutcome},
    protocol::{IntentKey, Transfer},
};

use super::{AGE, HEAD, paid, time};
use crate::kinds::AnyLedger;

/// Short, so that what a dead seller held is soon sold by another.
pub const LEASE: Duration = Duration::from_secs(1);
/// Three intents want the two payments of each group.
pub const INTENTS: u64 = 3;
pub const PAYMENTS: u64 = 2;
/// How long a commit is repeated whose outcome is unknown.
const COMMITTING: Duration = Duration::from_secs(60);

pub fn intent(group: u64, which: u64) -> IntentKey {
    IntentKey::new(u128::from(group * INTENTS + which).to_be_bytes())
}

/// Two transfers of one transaction.
pub fn payments(group: u64) -> Vec<Transfer> {
    (0..PAYMENTS)
        .map(|position| {
            let mut transfer = paid(group);
            transfer.position = position as u32;
            transfer
        })
        .collect()
}

pub fn claim(group: u64, intent: IntentKey) -> Claim {
    Claim::builder("demand-insights", intent)
        .pay_until(time(HEAD))
        .payments(payments(group))
        .head(time(HEAD))
        .max_payment_age(AGE)
        .lease(LEASE)
        .build()
}

/// Where a seller may die.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Point {
    BeforeReserve,
    AfterReserve,
    MidHandler,
    BeforeCommit,
    AfterCommit,
    AfterDelivery,
}

/// What is answered under a lease: more than one page of any database, and no text.
fn answer(lease: &Lease) -> Vec<u8> {
    lease.fencing_token().to_be_bytes().repeat(1_500)
}

/// How long it is kept: longer than any of this takes.
const KEPT: Duration = Duration::from_secs(3_600);

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    Granted,
    Committing,
    Done,
    Delivered,
    Lost,
    /// The commit was never answered.
    Unknown,
    Released,
}

const WORDS: [(What, &str); 7] = [
    (What::Granted, "granted"),
    (What::Committing, "committing"),
    (What::Done, "done"),
    (What::Delivered, "delivered"),
    (What::Lost, "lost"),
    (What::Unknown, "unknown"),
    (What::Released, "released"),
];

/// A line of what a seller writes down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    pub what: What,
    pub intent: u64,
    pub payment: u64,
    pub fence: u64,
}

impl Event {
    pub fn new(what: What, lease: &Lease) -> Self {
        let intent = u128::from_be_bytes(*lease.intent().as_bytes());
        let paid = lease.payment();
        let group = u64::from_be_bytes(*paid.transaction().unwrap().as_bytes().first_chunk().unwrap());
        let payment = group * PAYMENTS + u64::from(paid.position().unwrap());
        Self { what, intent: u64::try_from(intent).unwrap(), payment, fence: lease.fencing_token() }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|(what, _)| *what == self.what).unwrap().1;
        write!(f, "{word} {} {} {}", self.intent, self.payment, self.fence)
    }
}

impl FromStr for Event {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let [word, intent, payment, fence] = *line.split(' ').collect::<Vec<_>>() else { return Err(line.to_owned()) };
        let what = WORDS.iter().find(|(_, known)| *known == word).ok_or(line)?.0;
        let [intent, payment, fence] = [intent, payment, fence].map(|number| number.parse().unwrap());
        Ok(Self { what, intent, payment, fence })
    }
}

pub trait Seller {
    fn ledger(&self) -> &AnyLedger;

    /// Writes it down, for good.
    fn note(&self, event: Event);

    /// Passes a point, or dies there.
    fn at(&self, _: Point) {}

    /// The ledger took this long to say that it cannot answer.
    fn failed(&self, _: LedgerError, _: Duration) {}
}

/// What the handler does.
#[derive(Clone, Copy, Debug)]
pub enum Does {
    Answers(Duration),
    Fails,
}

impl Does {
    /// Mostly a short time; now and then it fails, or outlives its lease.
    pub fn something(random: &mut impl Rng) -> Self {
        match random.random_range(0..80) {
            0..3 => Self::Answers(LEASE * 3 / 2),
            3..10 => Self::Fails,
            _ => Self::Answers(Duration::from_millis(random.random_range(0..40))),
        }
    }
}

/// As the door sells: reserve, handler, commit, answer. `None` where the claim was granted, or nobody knows.
pub async fn redeem(seller: &impl Seller, claim: &Claim, handler: Does) -> Option<ReserveOutcome> {
    let ledger = seller.ledger();
    seller.at(Point::BeforeReserve);
    let lease = match timed(seller, ledger.reserve(claim)).await.ok()? {
        ReserveOutcome::Granted(lease) => lease,
        refused => return Some(refused),
    };
    let note = |what| seller.note(Event::new(what, &lease));
    note(What::Granted);
    seller.at(Point::AfterReserve);
    let Does::Answers(span) = handler else {
        note(What::Released);
        let _ = timed(seller, ledger.release(&lease)).await;
        return None;
    };
    tokio::time::sleep(span / 2).await;
    seller.at(Point::MidHandler);
    tokio::time::sleep(span / 2).await;
    seller.at(Point::BeforeCommit);
    note(What::Committing);
    let (start, answer) = (Instant::now(), KeptAnswer::new(answer(&lease), KEPT));
    loop {
        match timed(seller, ledger.commit(&lease, Some(&answer))).await {
            Ok(CommitOutcome::Done) => break,
            Ok(_) => {
                note(What::Lost);
                return None;
            }
            Err(_) if start.elapsed() < COMMITTING => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(_) => {
                note(What::Unknown);
                return None;
            }
        }
    }
    note(What::Done);
    seller.at(Point::AfterCommit);
    note(What::Delivered);
    seller.at(Point::AfterDelivery);
    None
}

async fn timed<T>(
    seller: &impl Seller,
    answer: impl Future<Output = Result<T, LedgerError>>,
) -> Result<T, LedgerError> {
    let start = Instant::now();
    let answer = answer.await;
    if let Err(error) = &answer {
        seller.failed(error.clone(), start.elapsed());
    }
    answer
}

/// Redeems at random what is open, until all of it is sold. `open` tells how many groups there are, and whether there
/// will be no more.
pub async fn sell_all(seller: &impl Seller, random: &mut impl Rng, open: impl Fn() -> (u64, bool)) {
    let mut sold_out = HashSet::new();
    loop {
        let (groups, for_good) = open();
        let left: Vec<_> = (0..groups).filter(|group| !sold_out.contains(group)).collect();
        if left.is_empty() {
            if for_good {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        }
        let group = left[random.random_range(0..left.len())];
        let claim = claim(group, intent(group, random.random_range(0..INTENTS)));
        match redeem(seller, &claim, Does::something(random)).await {
            Some(ReserveOutcome::PaymentUsed) => {
                sold_out.insert(group);
            }
            Some(ReserveOutcome::BeforeMemory) => panic!("they were paid after the mark"),
            // Somebody else has it.
            Some(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            None => tokio::task::yield_now().await,
        }
    }
}

/// What each seller wrote down, and whether it died.
pub struct Story {
    pub events: Vec<Event>,
    pub died: bool,
}

/// What the stories tell together.
#[derive(Debug, Default, PartialEq)]
pub struct Tally {
    pub delivered: usize,
    /// Sold, perhaps, by somebody who died with the answer in hand.
    pub cut_short: usize,
    pub lost: usize,
    pub released: usize,
}

/// Holds the stories of all sellers of these groups against what they were promised, payment for payment.
pub fn check(stories: &[Story], groups: u64) -> Tally {
    let mut leases: BTreeMap<u64, (usize, Vec<Event>)> = BTreeMap::new();
    let (mut done, mut delivered) = (HashMap::new(), HashMap::new());
    let mut undecided = HashSet::new();
    for (who, story) in stories.iter().enumerate() {
        for event in &story.events {
            let (holder, events) = leases.entry(event.fence).or_insert_with(|| (who, Vec::new()));
            assert_eq!(*holder, who, "one fence, two holders: {event:?}");
            events.push(*event);
        }
    }
    let mut tally = Tally::default();
    for (fence, (who, events)) in &leases {
        let whats: Vec<_> = events.iter().map(|event| event.what).collect();
        let pair = (events[0].intent, events[0].payment);
        assert!(events.iter().all(|event| (event.intent, event.payment) == pair), "one fence, two pairs: {events:?}");
        let ends = [
            &[What::Granted, What::Released] as &[_],
            &[What::Granted, What::Committing, What::Lost],
            &[What::Granted, What::Committing, What::Unknown],
            &[What::Granted, What::Committing, What::Done, What::Delivered],
        ];
        let whole = ends.contains(&&*whats);
        assert!(whole || stories[*who].died && ends.iter().any(|end| end.starts_with(&whats)), "{events:?}");
        for key in [format!("intent {}", pair.0), format!("payment {}", pair.1)] {
            if whats.contains(&What::Done) {
                let other = done.insert(key.clone(), *fence);
                assert_eq!(other, None, "{key} was committed twice, the second time under {fence}");
            }
            if whats.contains(&What::Delivered) {
                let other = delivered.insert(key.clone(), *fence);
                assert_eq!(other, None, "{key} was answered twice, the second time under {fence}");
            }
        }
        match whats.last() {
            Some(What::Delivered) => tally.delivered += 1,
            Some(What::Lost) => tally.lost += 1,
            Some(What::Released) => tally.released += 1,
            Some(What::Committing | What::Done | What::Unknown) => {
                undecided.insert(pair.1);
            }
            Some(What::Granted) | None => {}
        }
    }
    for payment in 0..groups * PAYMENTS {
        if !delivered.contains_key(&format!("payment {payment}")) {
            assert!(undecided.contains(&payment), "payment {payment} bought nothing, though nobody died with it");
            tally.cut_short += 1;
        }
    }
    tally
}

/// What the ledger says in the end: every payment is sold, to two of three intents, those among them that had answers; and each
/// sale has the answer of the lease that sold it.
pub async fn all_is_sold(ledger: &AnyLedger, stories: &[Story], groups: u64) {
    let events = || stories.iter().flat_map(|story| &story.events);
    for group in 0..groups {
        let another = IntentKey::new((u128::MAX - u128::from(group)).to_be_bytes());
        assert_eq!(ledger.reserve(&claim(group, another)).await, Ok(ReserveOutcome::PaymentUsed), "{group}");
        let mut bought = 0;
        for which in 0..INTENTS {
            let sale = ledger.consumed(intent(group, which)).await.unwrap();
            bought += u64::from(sale.is_some());
            let name = group * INTENTS + which;
            let of = |what| events().filter(move |event| event.intent == name && event.what == what);
            let done = of(What::Done).next().map(|event| event.fence);
            assert!(sale.is_some() || done.is_none(), "intent {name} had its answer, and is not consumed");
            let Some(sale) = sale else { continue };
            let kept = sale.answer.expect("a sale without its answer");
            let fence = kept.first_chunk().map(|fence| u64::from_be_bytes(*fence)).unwrap();
            assert!(of(What::Committing).any(|event| event.fence == fence), "intent {name} has another's answer");
            assert!(done.is_none_or(|done| done == fence), "intent {name} was sold under another lease");
            assert_eq!(kept, fence.to_be_bytes().repeat(1_500));
        }
        assert_eq!(bought, PAYMENTS, "{group}");
    }
}

/// The checker must notice what it is there for.
mod noticed {
    use super::{Event, Story, What, check};

    fn story(died: bool, whats: &[What], [intent, payment, fence]: [u64; 3]) -> Story {
        let events = whats.iter().map(|what| Event { what: *what, intent, payment, fence }).collect();
        Story { events, died }
    }

    const SOLD: [What; 4] = [What::Granted, What::Committing, What::Done, What::Delivered];

    #[test]
    fn a_story_without_fault() {
        let cut = story(true, &SOLD[..3], [2, 1, 2]);
        let tally = check(&[story(false, &SOLD, [1, 0, 1]), cut], 1);
        assert_eq!((tally.delivered, tally.cut_short), (1, 1));
    }

    #[test]
    #[should_panic(expected = "payment 0 was committed twice")]
    fn a_payment_sold_twice() {
        check(&[story(false, &SOLD, [1, 0, 1]), story(false, &SOLD, [2, 0, 2])], 1);
    }

    #[test]
    #[should_panic(expected = "intent 1 was committed twice")]
    fn an_intent_sold_twice() {
        check(&[story(false, &SOLD, [1, 0, 1]), story(true, &SOLD[..3], [1, 1, 2])], 1);
    }

    #[test]
    #[should_panic(expected = "one fence, two holders")]
    fn a_fence_granted_twice() {
        check(&[story(false, &SOLD, [1, 0, 1]), story(true, &SOLD[..1], [2, 1, 1])], 1);
    }

    #[test]
    #[should_panic(expected = "payment 1 bought nothing")]
    fn a_payment_that_is_lost() {
        check(&[story(false, &SOLD, [1, 0, 1]), story(true, &SOLD[..1], [2, 1, 2])], 1);
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let event = Event { what: What::Committing, intent: 5, payment: 3, fence: 9 };
        assert_eq!(event.to_string().parse(), Ok(event));
        assert!("done 1 2".parse::<Event>().is_err());
    }
}
