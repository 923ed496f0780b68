//! SECURITY 19: every earlier payment again, to a ledger that is new, emptied, restored or swept. None buys twice.

use std::{path::PathBuf, time::Duration};

use tower_x402::{
    ledger::{
        Claim, CommitOutcome, Lease, Ledger, LedgerError, Maintenance as _, ReserveOutcome, redis_driver as driver,
    },
    protocol::{IntentKey, Network, Transfer},
};

use super::{AGE, HEAD, LEASE, MARK, hold, paid, sell, time};
use crate::kinds::{AnyLedger, Kind, Place, on_each_kind};

const SOLD: u64 = 20;
/// Of those, what a backup knows.
const BACKED_UP: u64 = 8;

on_each_kind! {
    a_new_ledger_sells_nothing_paid_before_it
    an_emptied_ledger_sells_nothing_that_was_sold
    a_restored_ledger_sells_nothing_that_was_sold_since
    a_swept_ledger_sells_nothing_that_was_sold
    a_sale_is_kept_to_the_second
    what_is_shown_again_is_kept_no_shorter
}

/// The payment of this name, mined so many seconds after the mark.
fn payment(name: u64) -> Transfer {
    {
        let mut transfer = paid(name);
        transfer.block_time = time(MARK + name);
        transfer
    }
}

fn key(intent: u64) -> IntentKey {
    IntentKey::new(u128::from(intent).to_be_bytes())
}

fn claim(intent: u64, paid: Transfer, head: u64) -> Claim {
    Claim::builder("demand-insights", key(intent))
        .pay_until(time(HEAD))
        .payments(vec![paid])
        .head(time(head))
        .max_payment_age(AGE)
        .lease(LEASE)
        .build()
}

async fn sell_some(ledger: &AnyLedger, names: std::ops::RangeInclusive<u64>) {
    for name in names {
        sell(ledger, &claim(name, payment(name), HEAD)).await;
    }
}

/// Presents every payment that was sold, with its own intent and with another, at these heads; tells what else than
/// a refusal for want of memory was said of which.
async fn replayed(ledger: &AnyLedger, heads: &[u64]) -> Vec<(u64, Result<ReserveOutcome, LedgerError>)> {
    let mut said = Vec::new();
    for name in 1..=SOLD {
        for (intent, head) in heads.iter().flat_map(|head| [(name, *head), (1_000 + name, *head)]) {
            let answer = ledger.reserve(&claim(intent, payment(name), head)).await;
            assert!(!matches!(answer, Ok(ReserveOutcome::Granted(_))), "payment {name} is sold twice, at {head}");
            if answer != Ok(ReserveOutcome::BeforeMemory) {
                said.push((name, answer));
            }
        }
    }
    said
}

async fn is_open(ledger: &AnyLedger, head: u64) {
    sell(
        ledger,
        &claim(
            5_000,
            {
                let mut transfer = paid(5_000);
                transfer.block_time = time(head);
                transfer
            },
            head,
        ),
    )
    .await;
}

/// Who held something then holds nothing now.
async fn nobody_is_served(ledger: &AnyLedger, held: &Lease) {
    assert_ne!(ledger.commit(held, None).await, Ok(CommitOutcome::Done));
    let _ = ledger.release(held).await;
}

async fn a_new_ledger_sells_nothing_paid_before_it(kind: Kind) {
    let (Some(old), Some(new)) = (Place::new(kind).await, Place::new(kind).await) else { return };
    let ledger = old.begun().await;
    sell_some(&ledger, 1..=SOLD).await;
    let held = hold(&ledger, &claim(100, payment(100), HEAD)).await;

    let fresh = new.ledger().await;
    fresh.migrate().await.unwrap();
    assert!(replayed(&fresh, &[HEAD]).await.iter().all(|(_, answer)| answer.is_err()), "it has not begun");
    fresh.begin(Network::BASE, time(HEAD)).await.unwrap();
    assert_eq!(replayed(&fresh, &[MARK + 1, HEAD, HEAD + 1]).await, []);
    nobody_is_served(&fresh, &held).await;
    is_open(&fresh, HEAD + 1).await;
    old.remove().await;
    new.remove().await;
}

async fn an_emptied_ledger_sells_nothing_that_was_sold(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    sell_some(&ledger, 1..=SOLD).await;
    let held = hold(&ledger, &claim(100, payment(100), HEAD)).await;

    // Everything in it but the tables themselves.
    place.sql("DELETE FROM ledger_sales; DELETE FROM ledger_memory").await;
    if kind != Kind::Redis {
        assert!(replayed(&ledger, &[HEAD]).await.iter().all(|(_, answer)| answer.is_err()));
        assert!(ledger.begin(Network::BASE, time(MARK)).await.is_err(), "there is nothing to begin");
        nobody_is_served(&ledger, &held).await;
    }
    // Down to nothing. A ledger that is still closing takes away the log of whatever stands at its path by then.
    ledger.close().await;
    place.empty().await;
    let ledger = place.ledger().await;
    let unknown = replayed(&ledger, &[HEAD]).await;
    assert!(unknown.len() as u64 == 2 * SOLD && unknown.iter().all(|(_, answer)| answer.is_err()), "{unknown:?}");
    ledger.migrate().await.unwrap();
    ledger.begin(Network::BASE, time(HEAD)).await.unwrap();
    assert_eq!(replayed(&ledger, &[MARK + 1, HEAD, HEAD + 1]).await, []);
    nobody_is_served(&ledger, &held).await;
    is_open(&ledger, HEAD + 1).await;
    place.remove().await;
}

/// A copy of a ledger.
enum Backup {
    File(PathBuf),
    Tables,
    Keys(Vec<(String, Vec<u8>)>),
}

const TABLES: [&str; 6] = ["memory", "marks", "sales", "settling", "answers", "book"];

async fn back_up(place: &Place) -> Backup {
    match place.kind {
        Kind::Sqlite => {
            let copy = place.folder().join("copy.db");
            place.sql(&format!("VACUUM INTO '{}'", copy.display())).await;
            Backup::File(copy)
        }
        Kind::Postgres => {
            let copies = TABLES.map(|table| format!("CREATE TABLE copy_{table} AS TABLE ledger_{table};"));
            place.sql(&copies.concat()).await;
            Backup::Tables
        }
        Kind::Redis => {
            let (mut connection, _) = place.redis().await;
            let mut dumped = Vec::new();
            for key in place.redis_keys().await {
                dumped.push((key.clone(), driver::cmd("DUMP").arg(key).query_async(&mut connection).await.unwrap()));
            }
            Backup::Keys(dumped)
        }
    }
}

/// As tools restore it: fences are counted on from where the copy was made.
async fn restore(place: &Place, backup: Backup) -> AnyLedger {
    match backup {
        Backup::File(copy) => AnyLedger::patient(&format!("sqlite:{}", copy.display())).await,
        Backup::Tables => {
            let restore = TABLES.map(|table| {
                format!(
                    "TRUNCATE ledger_{table}; INSERT INTO ledger_{table} OVERRIDING SYSTEM VALUE TABLE copy_{table};"
                )
            });
            let last = "SELECT setval(pg_get_serial_sequence('ledger_sales', 'fence'), max(fence)) FROM ledger_sales";
            place.sql(&format!("{}{last}", restore.concat())).await;
            place.ledger().await
        }
        Backup::Keys(dumped) => {
            place.empty().await;
            let (mut connection, _) = place.redis().await;
            for (key, value) in dumped {
                let mut command = driver::cmd("RESTORE");
                let _: () = command.arg(key).arg(0).arg(value).query_async(&mut connection).await.unwrap();
            }
            place.ledger().await
        }
    }
}

async fn a_restored_ledger_sells_nothing_that_was_sold_since(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    sell_some(&ledger, 1..=BACKED_UP).await;
    let held_before = hold(&ledger, &claim(100, payment(100), HEAD)).await;
    let backup = back_up(&place).await;
    sell_some(&ledger, BACKED_UP + 1..=SOLD).await;
    let held_after = hold(&ledger, &claim(101, payment(101), HEAD)).await;
    assert_eq!(ledger.commit(&held_before, None).await, Ok(CommitOutcome::Done));
    drop(ledger);

    let ledger = restore(&place, backup).await;
    ledger.raise_mark_to(Network::BASE, time(HEAD)).await.unwrap();
    ledger.begin(Network::BASE, time(MARK)).await.unwrap();
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(HEAD))));
    let remembered = replayed(&ledger, &[MARK + 1, HEAD, HEAD + 1]).await;
    assert!(remembered.iter().all(|(name, _)| *name <= BACKED_UP), "{remembered:?}");
    let spent = [Ok(ReserveOutcome::IntentConsumed), Ok(ReserveOutcome::PaymentUsed)];
    assert!(remembered.iter().all(|(_, answer)| spent.contains(answer)), "{remembered:?}");
    assert_eq!(remembered.len() as u64, 6 * BACKED_UP);
    // What the backup knows as held is still its holder's, who says the same as before.
    assert_eq!(ledger.commit(&held_before, None).await, Ok(CommitOutcome::Done));
    nobody_is_served(&ledger, &held_after).await;
    let again = claim(101, payment(101), HEAD);
    assert_eq!(ledger.reserve(&again).await, Ok(ReserveOutcome::BeforeMemory));
    is_open(&ledger, HEAD + 1).await;
    assert_ne!(ledger.commit(&held_after, None).await, Ok(CommitOutcome::Done));
    place.remove().await;
}

async fn a_swept_ledger_sells_nothing_that_was_sold(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    sell_some(&ledger, 1..=SOLD).await;
    let held = hold(&ledger, &claim(100, payment(100), HEAD)).await;
    let beyond = claim(1, payment(1), HEAD).keep_until(&payment(SOLD).into()).unix() + 1;
    assert_eq!(ledger.sweep(Network::BASE, time(beyond)).await, Ok(SOLD));
    for name in 1..=SOLD {
        assert_eq!(ledger.consumed(key(name)).await.map(|sale| sale.is_some()), Ok(false), "{name} is forgotten");
    }
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK + SOLD))));
    // A ledger that keeps a book refuses by that, too.
    let remembered = replayed(&ledger, &[MARK + 1, HEAD, beyond]).await;
    let spent = [Ok(ReserveOutcome::IntentConsumed), Ok(ReserveOutcome::PaymentUsed)];
    assert!(remembered.iter().all(|(_, answer)| spent.contains(answer)), "{remembered:?}");
    assert_eq!(ledger.commit(&held, None).await, Ok(CommitOutcome::Done), "what is held is not forgotten");
    is_open(&ledger, beyond).await;
    place.remove().await;
}

/// Later of block time and intent's end, plus age, a day to be mined again, head lag, lease, twice the skew; a second more, and it is forgotten.
async fn a_sale_is_kept_to_the_second(kind: Kind) {
    for pay_until in [MARK + 50, MARK + 100, MARK + 1_000] {
        let Some(place) = Place::new(kind).await else { return };
        let ledger = place.begun().await;
        let at = |intent, head| {
            let lease = Duration::from_secs(60);
            Claim::builder("demand-insights", key(intent))
                .pay_until(time(pay_until))
                .payments(vec![paid(1)])
                .head(time(head))
                .max_payment_age(AGE)
                .lease(lease)
                .build()
        };
        sell(&ledger, &at(1, HEAD)).await;
        let last = pay_until.max(MARK + 100) + 2 * 86_400 + 180 + 60 + 240;
        for head in [last - 1, last] {
            assert_eq!(ledger.sweep(Network::BASE, time(head)).await, Ok(0));
            assert_eq!(ledger.reserve(&at(1, head)).await, Ok(ReserveOutcome::IntentConsumed), "{head}");
            assert_eq!(ledger.reserve(&at(2, head)).await, Ok(ReserveOutcome::PaymentUsed), "{head}");
            assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK))));
        }
        let is_refused = |answer: Result<ReserveOutcome, LedgerError>| {
            matches!(
                answer,
                Ok(ReserveOutcome::BeforeMemory | ReserveOutcome::IntentConsumed | ReserveOutcome::PaymentUsed)
            )
        };
        assert_eq!(ledger.sweep(Network::BASE, time(last + 1)).await, Ok(1));
        assert!(is_refused(ledger.reserve(&at(2, last + 1)).await));
        assert_eq!(ledger.consumed(key(1)).await.map(|sale| sale.is_some()), Ok(false));
        assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(time(MARK + 100))));
        for head in [HEAD, last, last + 1] {
            assert!(is_refused(ledger.reserve(&at(1, head)).await), "{head}: it never comes back");
        }
        place.remove().await;
    }
}

/// A merchant that takes payments of an hour, beside one that takes those of a day.
async fn what_is_shown_again_is_kept_no_shorter(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let sold = claim(1, payment(1), HEAD);
    sell(&ledger, &sold).await;
    let again = payment(1).with_block(31_000_000, time(MARK + 20));
    let brief = Claim::builder("demand-insights", key(2))
        .payments([again])
        .head(time(HEAD))
        .max_payment_age(Duration::from_secs(3_600))
        .lease(Duration::from_secs(60))
        .build();
    assert_eq!(ledger.reserve(&brief).await, Ok(ReserveOutcome::PaymentUsed));
    let last = sold.keep_until(&payment(1).into());
    assert!(brief.keep_until(&brief.payments()[0]) < last);
    assert_eq!(ledger.sweep(Network::BASE, last).await, Ok(0));
    assert!(ledger.consumed(key(1)).await.unwrap().is_some());
    assert_eq!(ledger.sweep(Network::BASE, last.after(Duration::from_secs(1))).await, Ok(1));
    place.remove().await;
}
