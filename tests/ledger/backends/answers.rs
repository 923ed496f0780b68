//! Answers that are kept with their sales: gone after their time, and with their sales.

use std::time::Duration;
use tower_x402::protocol::Network;

use tower_x402::ledger::{CommitOutcome, KeptAnswer, Ledger, redis_driver as driver};

use super::{HEAD, MARK, claim, hold, paid, time};
use crate::kinds::{AnyLedger, Kind, Place, on_each_kind};

on_each_kind! {
    answers_are_forgotten_after_their_time
    an_answer_goes_with_its_sale
    the_space_for_answers_is_filled_to_the_byte
    what_is_kept_survives_the_process
}

const HOUR: Duration = Duration::from_secs(3_600);
/// More than any ledger forgets in one step of its own.
const MANY: u64 = 40;

async fn sell_with(ledger: &impl Ledger, name: u64, keep_for: Duration) {
    let lease = hold(ledger, &claim(name, name)).await;
    let answer = KeptAnswer::new(format!("answer {name}"), keep_for);
    assert_eq!(ledger.commit(&lease, Some(&answer)).await, Ok(CommitOutcome::Done));
}

async fn answer_of(ledger: &impl Ledger, name: u64) -> Option<Vec<u8>> {
    let sale = ledger.consumed(claim(name, name).intent()).await.unwrap();
    sale.and_then(|sale| sale.answer).map(|answer| answer.to_vec())
}

/// How many answers the database has, whether or not they are given back.
async fn stored(place: &Place) -> u64 {
    match place.kind {
        Kind::Redis => {
            let keys = place.redis_keys().await;
            keys.iter().filter(|key| key.contains(":answer:")).count() as u64
        }
        _ => place.count("SELECT count(*) FROM ledger_answers").await,
    }
}

async fn answers_are_forgotten_after_their_time(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    sell_with(&ledger, 1, HOUR).await;
    for name in 100..100 + MANY {
        sell_with(&ledger, name, Duration::from_millis(1)).await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(answer_of(&ledger, 100).await, None);
    assert_eq!(ledger.sweep(Network::BASE, time(HEAD)).await, Ok(0), "no sale is forgotten");
    assert_eq!(stored(&place).await, 1);
    assert!(ledger.consumed(claim(100, 100).intent()).await.unwrap().is_some(), "its sale stays");
    assert_eq!(answer_of(&ledger, 1).await.as_deref(), Some(&b"answer 1"[..]));
    place.remove().await;
}

async fn an_answer_goes_with_its_sale(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    for name in 1..=MANY {
        sell_with(&ledger, name, 1_000 * HOUR).await;
    }
    let last = claim(1, 1).keep_until(&paid(1).into());
    assert_eq!(ledger.sweep(Network::BASE, last).await, Ok(0));
    assert_eq!((stored(&place).await, answer_of(&ledger, 7).await), (MANY, Some(b"answer 7".to_vec())));
    let beyond = last.after(Duration::from_secs(1));
    assert_eq!(ledger.sweep(Network::BASE, beyond).await, Ok(MANY));
    assert_eq!((stored(&place).await, answer_of(&ledger, 7).await), (0, None));
    place.remove().await;
}

/// Each answer takes 256 bytes beside its content.
async fn the_space_for_answers_is_filled_to_the_byte(kind: Kind) {
    const SPACE: usize = 10_000;
    const HALF: usize = SPACE / 2 - 256;
    let Some(place) = Place::new(kind).await else { return };
    let ledger = AnyLedger::with_answer_space(place.address(), SPACE).await;
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    let mut name = 0;
    let mut is_kept = async |bytes: usize, keep_for| {
        name += 1;
        let (lease, content) = (hold(&ledger, &claim(name, name)).await, vec![name as u8; bytes]);
        let answer = KeptAnswer::new(content.clone(), keep_for);
        assert_eq!(ledger.commit(&lease, Some(&answer)).await, Ok(CommitOutcome::Done), "the sale is recorded anyway");
        let told = answer_of(&ledger, name).await;
        assert!(told.is_none() || told == Some(content));
        told.is_some()
    };
    assert!(!is_kept(SPACE - 256 + 1, HOUR).await, "one byte more than all space");
    let brief = Duration::from_secs(1);
    assert!(is_kept(SPACE - 256, brief).await, "all space");
    assert!(!is_kept(0, HOUR).await, "an empty answer takes space, too");
    tokio::time::sleep(2 * brief).await;
    // Twice, by what the ledger counts as it keeps answers, and by what it counts as it sweeps.
    for sweep in [true, false] {
        ledger.sweep(Network::BASE, time(HEAD)).await.unwrap();
        assert!(is_kept(HALF, brief).await, "one half");
        if sweep {
            ledger.sweep(Network::BASE, time(HEAD)).await.unwrap();
        }
        assert!(!is_kept(HALF + 1, HOUR).await, "one byte more than the other half");
        assert!(is_kept(HALF, brief).await, "the other half");
        assert!(!is_kept(0, HOUR).await, "an empty answer where all space is taken");
        tokio::time::sleep(2 * brief).await;
    }
    place.remove().await;
}

async fn what_is_kept_survives_the_process(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    sell_with(&ledger, 1, HOUR).await;
    ledger.close().await;
    let next = AnyLedger::patient(place.address()).await;
    assert_eq!(answer_of(&next, 1).await.as_deref(), Some(&b"answer 1"[..]));
    place.remove().await;
}

/// The server drops it by itself, also where nobody asks.
#[tokio::test]
async fn redis_is_told_when_an_answer_ends() {
    let Some(place) = Place::new(Kind::Redis).await else { return };
    let ledger = place.begun().await;
    sell_with(&ledger, 1, HOUR).await;
    let (mut connection, prefix) = place.redis().await;
    let left: i64 =
        driver::cmd("PTTL").arg(format!("{prefix}answer:{:032x}", 1)).query_async(&mut connection).await.unwrap();
    assert!(left > 3_500_000 && left <= 3_600_000, "{left}");
    place.remove().await;
}
