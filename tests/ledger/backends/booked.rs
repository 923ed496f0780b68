//! A payment that is settled after it was reserved is in the book as it was settled.

use std::time::Duration;

use futures_util::future::join_all;
use tower_x402::{
    ledger::{
        Claim, CommitOutcome, KeptAnswer, Lease, Ledger as _, Maintenance as _, ReserveOutcome, redis_driver as driver,
    },
    protocol::{Network, Payment, Transfer},
};

use super::{HEAD, LEASE, MARK, claim, claim_unsettled, hold, paid, time};
use crate::kinds::{AnyLedger, Kind, Place, on_each_kind};

on_each_kind! {
    what_was_settled_since_is_booked_as_it_was_mined
    a_lost_lease_books_nothing
    what_is_shown_unsettled_leaves_the_book_alone
}

/// What the authorization of this name was settled by.
fn mined(name: u64) -> Transfer {
    let nonce = paid(name).transaction;
    let mut transfer = paid(name + 1_000).with_block(30_000_050, time(MARK + 150));
    (transfer.position, transfer.binding) = (7, transfer.binding.with_nonce(*nonce.as_bytes()));
    transfer
}

async fn hold_and_settle(ledger: &AnyLedger, name: u64) -> Lease {
    hold(ledger, &claim_unsettled(name, name, LEASE)).await.settled_by(mined(name))
}

/// Whether the book has this very transfer.
async fn books(place: &Place, transfer: &Transfer) -> bool {
    let Transfer { transaction, position, block_number, .. } = transfer;
    let block_time = transfer.block_time.unix();
    if place.kind == Kind::Redis {
        let (mut connection, prefix) = place.redis().await;
        let key = format!("{prefix}payment:{}", transfer.payment_id());
        let mut question = driver::cmd("HMGET");
        question.arg(key).arg(&["tx_hash", "log_position", "block_number", "block_time", "consumed_at"]);
        let told: Vec<Option<String>> = question.query_async(&mut connection).await.unwrap();
        let is = |place: usize, value: String| told[place].as_ref() == Some(&value);
        return is(0, transaction.to_string())
            && is(1, position.to_string())
            && is(2, block_number.to_string())
            && is(3, block_time.to_string())
            && told[4].is_some();
    }
    let sold = format!(
        "SELECT count(*) FROM ledger_sold WHERE tx_hash = '{transaction}' AND log_position = {position}
         AND block_number = {block_number} AND block_time = {block_time} AND payment = '{}'",
        transfer.payment_id()
    );
    place.count(&sold).await == 1
}

async fn what_was_settled_since_is_booked_as_it_was_mined(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let answer = KeptAnswer::new("an answer", LEASE);
    let mut leases = Vec::new();
    for name in 1..=12 {
        leases.push(hold_and_settle(&ledger, name).await);
        leases.push(hold(&ledger, &claim(name + 100, name + 100)).await);
    }
    // At once, as a ledger that collects what it writes has it; and every sale once more.
    for _ in 0..2 {
        let commits = leases.iter().zip(0..).map(|(lease, place)| {
            let answer = Some(&answer).filter(|_| place % 4 < 2);
            ledger.commit(lease, answer)
        });
        for told in join_all(commits).await {
            assert_eq!(told, Ok(CommitOutcome::Done));
        }
        for name in 1..=12 {
            assert!(books(&place, &mined(name)).await, "{name}");
            assert!(books(&place, &paid(name + 100)).await, "one that was mined before it was reserved");
        }
    }
    let kept = ledger.consumed(leases[0].intent()).await.unwrap().unwrap();
    assert_eq!(kept.answer.as_deref(), Some(&b"an answer"[..]));
    // One whose caller does not know by what it was settled is booked as it was reserved.
    let unknown = hold(&ledger, &claim_unsettled(50, 50, LEASE)).await;
    assert_eq!(ledger.commit(&unknown, None).await, Ok(CommitOutcome::Done));
    assert_eq!(ledger.commit(&unknown.settled_by(mined(50)), None).await, Ok(CommitOutcome::Done));
    assert!(!books(&place, &mined(50)).await, "a sale is recorded once");
    place.remove().await;
}

async fn a_lost_lease_books_nothing(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let released = hold_and_settle(&ledger, 1).await;
    ledger.release(&released).await.unwrap();
    let taken_over = hold(&ledger, &claim_unsettled(2, 2, Duration::from_millis(1))).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let present = hold_and_settle(&ledger, 2).await;
    for lost in [released, taken_over.settled_by(mined(2))] {
        assert_eq!(ledger.commit(&lost, None).await, Ok(CommitOutcome::LeaseLost));
    }
    assert_eq!(ledger.size().await.unwrap().remembered, 0);
    assert_eq!(ledger.commit(&present, None).await, Ok(CommitOutcome::Done));
    assert!(books(&place, &mined(2)).await);
    place.remove().await;
}

async fn what_is_shown_unsettled_leaves_the_book_alone(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let lease = hold_and_settle(&ledger, 1).await;
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    // Each presentation is as of its own head.
    let Payment::Authorization(signed) = claim_unsettled(2, 1, LEASE).payments()[0].clone() else {
        panic!("it is signed")
    };
    let shown = signed.with_shown(time(HEAD + 5_000));
    let again =
        Claim::builder("demand-insights", claim(2, 2).intent()).payments(vec![shown]).head(time(HEAD + 4_999)).build();
    assert_eq!(ledger.reserve(&again).await, Ok(ReserveOutcome::PaymentUsed));
    assert!(books(&place, &mined(1)).await);
    // It is forgotten when the transfer's own age has ruled it out.
    let beyond = lease.keep_until().after(Duration::from_secs(1));
    assert_eq!(ledger.sweep(Network::BASE, lease.keep_until()).await, Ok(0));
    assert_eq!(ledger.sweep(Network::BASE, beyond).await, Ok(1));
    assert_eq!(ledger.low_water_mark(Network::BASE).await, Ok(Some(mined(1).block_time)));
    if kind != Kind::Redis {
        assert!(books(&place, &mined(1)).await, "where it stays");
        assert_eq!(ledger.reserve(&again).await, Ok(ReserveOutcome::PaymentUsed), "by the book");
    }
    place.remove().await;
}
