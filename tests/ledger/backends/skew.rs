//! SECURITY 30: replicas whose heads are two minutes ahead and two minutes behind. Leases are measured by the database's
//! clock alone, and what one replica forgets no other sells.

use std::time::Duration;

use tower_x402::{
    ledger::{Claim, CommitOutcome, Ledger, RenewOutcome, ReserveOutcome, redis_driver as driver},
    protocol::{IntentKey, Network, Transfer},
};

use super::{AGE, HEAD, LEASE, MARK, hold, paid, time};
use crate::kinds::{Kind, Place, on_each_kind};

const SKEW: u64 = 120;
/// How far a head may lag behind the chain.
const LAG: u64 = 180;
const ROUNDS: u64 = 40;

on_each_kind! {
    of_two_replicas_four_minutes_apart_one_sells
    a_lease_is_as_long_for_those_ahead_and_behind
    what_the_one_ahead_forgets_the_one_behind_refuses
    a_clock_set_back_by_a_day_keeps_no_lease
    a_clock_set_back_a_little_ends_no_lease
}

fn key(intent: u64) -> IntentKey {
    IntentKey::new(u128::from(intent).to_be_bytes())
}

fn claim(intent: u64, paid: Transfer, lease: Duration, head: u64) -> Claim {
    Claim::builder("demand-insights", key(intent))
        .pay_until(time(HEAD))
        .payments(vec![paid])
        .head(time(head))
        .max_payment_age(AGE)
        .lease(lease)
        .build()
}

async fn of_two_replicas_four_minutes_apart_one_sells(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let replicas = [(place.begun().await, HEAD + SKEW), (place.ledger().await, HEAD - SKEW)];
    for round in 1..=ROUNDS {
        // The same intent on both, or two of them.
        let other = if round % 2 == 0 { round } else { round + 1_000 };
        let tries = [(&replicas[0], round), (&replicas[1], other), (&replicas[0], other), (&replicas[1], round)];
        let tries = tries.map(|((ledger, head), intent)| async move {
            let claim = claim(intent, paid(round), LEASE, *head);
            match ledger.reserve(&claim).await.unwrap() {
                ReserveOutcome::Granted(lease) => {
                    u32::from(ledger.commit(&lease, None).await == Ok(CommitOutcome::Done))
                }
                _ => 0,
            }
        });
        let [a, b, c, d] = tries;
        let (a, b, c, d) = tokio::join!(a, b, c, d);
        assert_eq!(a + b + c + d, 1, "{round}");
    }
    place.remove().await;
}

async fn a_lease_is_as_long_for_those_ahead_and_behind(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let (holder, rival) = (place.begun().await, place.ledger().await);
    let brief = Duration::from_secs(1);
    for (n, head) in [HEAD - SKEW, HEAD + SKEW, HEAD + 86_400].into_iter().enumerate() {
        let (name, long) = (n as u64 + 1, Duration::from_secs(90));
        let lease = hold(&holder, &claim(name, paid(name), long, HEAD)).await;
        let want = claim(name + 100, paid(name), long, head);
        // No head ends a lease, nor makes it longer.
        match rival.reserve(&want).await {
            Ok(ReserveOutcome::Busy { retry_after }) => assert!(retry_after <= long, "{retry_after:?}"),
            other => panic!("it is held: {other:?}"),
        }
        assert_eq!(holder.renew(&lease).await, Ok(RenewOutcome::Held));
        assert_eq!(holder.commit(&lease, None).await, Ok(CommitOutcome::Done));

        let name = name + 10;
        let lost = hold(&holder, &claim(name, paid(name), brief, head)).await;
        let want = claim(name + 100, paid(name), LEASE, HEAD);
        let taken = loop {
            match rival.reserve(&want).await {
                Ok(ReserveOutcome::Granted(lease)) => break lease,
                Ok(ReserveOutcome::Busy { retry_after }) => {
                    assert!(retry_after <= brief, "{retry_after:?}");
                    tokio::time::sleep(retry_after.max(Duration::from_millis(1))).await;
                }
                other => panic!("it runs out: {other:?}"),
            }
        };
        assert!(taken.fencing_token() > lost.fencing_token());
        assert_eq!(holder.commit(&lost, None).await, Ok(CommitOutcome::LeaseLost));
        assert_eq!(rival.commit(&taken, None).await, Ok(CommitOutcome::Done));
    }
    place.remove().await;
}

/// Around the second at which a sale may be forgotten: one replica's head is ahead, another's behind, and it lags.
async fn what_the_one_ahead_forgets_the_one_behind_refuses(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let (ahead, behind) = (place.begun().await, place.ledger().await);
    // Later payments each time: the mark rises.
    for (n, off) in [-1_i64, 0, 1, 2].into_iter().enumerate() {
        let name = n as u64 + 1;
        let bought = {
            let mut transfer = paid(name);
            transfer.block_time = time(MARK + 300 * name);
            transfer
        };
        let mined = bought.block_time.unix();
        let at = |intent, head| {
            let until = time(mined + 20);
            Claim::builder("demand-insights", key(intent))
                .pay_until(until)
                .payments(vec![bought.clone()])
                .head(time(head))
                .max_payment_age(AGE)
                .lease(LEASE)
                .build()
        };
        let lease = hold(&behind, &at(name, mined - SKEW)).await;
        assert_eq!(behind.commit(&lease, None).await, Ok(CommitOutcome::Done));
        let keep_until = at(name, HEAD).keep_until(&bought.clone().into()).unix();
        let fast = keep_until.checked_add_signed(off).unwrap();
        let _ = ahead.sweep(Network::BASE, time(fast)).await.unwrap();
        assert_eq!(behind.consumed(key(name)).await.map(|sale| sale.is_some()), Ok(off <= 0), "{off}");
        // What the one behind sees at that moment: age alone rules the payment out.
        let slow = fast - 2 * SKEW - LAG;
        assert!(off <= 0 || mined + AGE.as_secs() < slow);
        for head in [mined, slow, fast] {
            for (ledger, intent) in [(&ahead, name), (&behind, name), (&ahead, name + 100), (&behind, name + 100)] {
                let said = ledger.reserve(&at(intent, head)).await.unwrap();
                let refused = matches!(
                    said,
                    ReserveOutcome::IntentConsumed | ReserveOutcome::PaymentUsed | ReserveOutcome::BeforeMemory
                );
                assert!(refused, "{off}, {head}: {said:?}");
            }
        }
    }
    place.remove().await;
}

/// The worker is gone, and the server's clock is set back: as if every lease ended a day later.
async fn a_clock_set_back_by_a_day_keeps_no_lease(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let lost =
        [hold(&ledger, &claim(1, paid(1), LEASE, HEAD)).await, hold(&ledger, &claim(2, paid(2), LEASE, HEAD)).await];
    match kind {
        Kind::Sqlite => place.sql("UPDATE ledger_sales SET lease_until = lease_until + 86400000").await,
        Kind::Postgres => place.sql("UPDATE ledger_sales SET lease_until = lease_until + interval '1 day'").await,
        Kind::Redis => {
            let (mut connection, prefix) = place.redis().await;
            for lease in &lost {
                let key = format!("{prefix}payment:{}", lease.payment().id());
                let mut later = driver::cmd("HINCRBY");
                later.arg(key).arg("until").arg(86_400_000);
                let _: i64 = later.query_async(&mut connection).await.unwrap();
            }
        }
    }
    // By another intent, and by its own.
    let taken =
        [hold(&ledger, &claim(101, paid(1), LEASE, HEAD)).await, hold(&ledger, &claim(2, paid(2), LEASE, HEAD)).await];
    for (lost, taken) in lost.iter().zip(&taken) {
        assert_eq!(ledger.commit(lost, None).await, Ok(CommitOutcome::LeaseLost));
        assert_eq!(ledger.commit(taken, None).await, Ok(CommitOutcome::Done));
    }
    place.remove().await;
}

/// A lease is an hour at most, and clocks are two minutes apart at most: one that ends within that is held, and one that ends later has
/// run out.
async fn a_clock_set_back_a_little_ends_no_lease(kind: Kind) {
    const FURTHEST: u64 = 3_600 + SKEW;
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let minute = Duration::from_secs(60);
    for (name, left, is_held) in [(1, FURTHEST - 30, true), (2, FURTHEST + 30, false)] {
        let lost = hold(&ledger, &claim(name, paid(name), minute, HEAD)).await;
        match kind {
            Kind::Sqlite => {
                let now = "CAST(unixepoch('subsec') * 1000 AS INTEGER)";
                place.sql(&format!("UPDATE ledger_sales SET lease_until = {now} + {left} * 1000")).await;
            }
            Kind::Postgres => {
                let end = format!("clock_timestamp() + interval '{left} seconds'");
                place.sql(&format!("UPDATE ledger_sales SET lease_until = {end}")).await;
            }
            Kind::Redis => {
                let (mut connection, prefix) = place.redis().await;
                let script = "local clock = redis.call('TIME')
                    redis.call('HSET', KEYS[1], 'until', string.format('%.0f', (clock[1] + ARGV[1]) * 1000))";
                let key = format!("{prefix}payment:{}", lost.payment().id());
                let script = driver::Script::new(script);
                let _: () = script.key(key).arg(left).invoke_async(&mut connection).await.unwrap();
            }
        }
        let told = ledger.reserve(&claim(name + 100, paid(name), LEASE, HEAD)).await.unwrap();
        match told {
            ReserveOutcome::Busy { retry_after } if is_held => {
                let left = Duration::from_secs(left);
                assert!(retry_after <= left && retry_after > left - minute, "{retry_after:?}");
                assert_eq!(ledger.commit(&lost, None).await, Ok(CommitOutcome::Done));
            }
            ReserveOutcome::Granted(taken) if !is_held => {
                assert_eq!(ledger.commit(&lost, None).await, Ok(CommitOutcome::LeaseLost));
                assert_eq!(ledger.commit(&taken, None).await, Ok(CommitOutcome::Done));
            }
            other => panic!("{left} seconds are left: {other:?}"),
        }
    }
    place.remove().await;
}
