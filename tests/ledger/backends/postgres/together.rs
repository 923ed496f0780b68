//! Questions that wait together share a transaction; none that fails, or waits for a row, takes others with it.

use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use tokio::time::timeout;
use tower_x402::ledger::{Claim, CommitOutcome, Ledger as _, ReserveOutcome, sqlx};

use super::{
    super::{AGE, LEASE, claim, hold, paid},
    Database,
    shares::held_up,
};

const SOON: Duration = Duration::from_secs(10);

/// How many transactions wrote the rows last.
async fn transactions(database: &Database) -> i64 {
    let count = "SELECT count(DISTINCT xmin::text) FROM ledger_sales";
    sqlx::query_scalar(count).fetch_one(&database.pools[0]).await.unwrap()
}

fn is_granted(outcome: &Result<ReserveOutcome, tower_x402::ledger::LedgerError>) -> bool {
    matches!(outcome, Ok(ReserveOutcome::Granted(_)))
}

#[tokio::test]
async fn what_waits_together_is_written_together() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    let claims: Vec<_> = (1..=64).map(|name| claim(name, name)).collect();
    let leases = join_all(claims.iter().map(|claim| hold(&ledger, claim))).await;
    assert!(transactions(&database).await <= 4, "64 leases");
    let sold = join_all(leases.iter().map(|lease| ledger.commit(lease, None))).await;
    assert!(sold.iter().all(|sold| *sold == Ok(CommitOutcome::Done)), "{sold:?}");
    assert!(transactions(&database).await <= 4, "64 sales");
    for claim in &claims {
        assert_eq!(ledger.reserve(claim).await, Ok(ReserveOutcome::IntentConsumed));
    }
    database.remove().await;
}

/// Of one payment and of one intent, asked for in one transaction, one claim is granted.
#[tokio::test]
async fn together_a_payment_is_granted_once() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    let claims: Vec<_> =
        (1..=16).flat_map(|name| [claim(name, 99), claim(100, name), claim(name + 200, name)]).collect();
    let outcomes = join_all(claims.iter().map(|claim| ledger.reserve(claim))).await;
    let granted = |is_meant: fn(&Claim) -> bool| {
        claims.iter().zip(&outcomes).filter(|(claim, outcome)| is_meant(claim) && is_granted(outcome)).count()
    };
    assert_eq!(granted(|claim| claim.payments()[0].id() == paid(99).payment_id()), 1);
    assert!(granted(|claim| claim.intent() == self::claim(100, 1).intent()) <= 1);
    let mut payments: Vec<_> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Ok(ReserveOutcome::Granted(lease)) => Some(lease.payment().id()),
            _ => None,
        })
        .collect();
    let all = payments.len();
    payments.sort_unstable();
    payments.dedup();
    assert_eq!((payments.len(), all), (17, 17), "each payment once");
    database.remove().await;
}

#[tokio::test]
async fn one_that_is_held_up_holds_up_no_other() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    let rival = held_up(&database, [claim(9, 9)]).await;
    let late = claim(9, 9);
    let late = Box::pin(ledger.reserve(&late));
    let claims: Vec<_> = (1..=8).map(|name| claim(name, name)).collect();
    let others = Box::pin(join_all(claims.iter().map(|claim| ledger.reserve(claim))));
    let Ok(Either::Right((others, late))) = timeout(SOON, select(late, others)).await else {
        panic!("the others wait for it")
    };
    assert!(others.iter().all(is_granted), "{others:?}");
    sqlx::Connection::close(rival).await.unwrap();
    assert!(is_granted(&late.await), "it was only late");
    database.remove().await;
}

#[tokio::test]
async fn one_that_fails_fails_alone() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    let good = |name| claim(name, name);
    // PostgreSQL has no text with this character.
    let bad = Claim::builder("\0", good(9).intent())
        .pay_until(good(9).head())
        .payments([paid(9)])
        .head(good(9).head())
        .max_payment_age(AGE)
        .lease(LEASE)
        .build();
    let claims: Vec<_> = (1..=8).map(good).chain([bad]).collect();
    let mut outcomes = join_all(claims.iter().map(|claim| ledger.reserve(claim))).await;
    assert!(outcomes.pop().unwrap().is_err());
    assert!(outcomes.iter().all(is_granted), "{outcomes:?}");
    database.remove().await;
}
