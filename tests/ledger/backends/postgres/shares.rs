//! A crowd of reservations, which cost their authors nothing, leaves connections to those that pay.

use std::time::Duration;

use futures_util::future::{join_all, select};
use tokio::time::timeout;
use tower_x402::ledger::{
    Claim, CommitOutcome, Ledger as _, PostgresLedger, RenewOutcome, Settling,
    sqlx::{AssertSqlSafe, Connection as _, PgConnection, raw_sql},
};

use super::{
    super::{HEAD, LEASE, PATIENT, claim, claim_unsettled, hold, time},
    Database,
};

const CROWD: u64 = 30;
const SOON: Duration = Duration::from_secs(10);

/// Holds every reservation of these payments up, for as long as the connection is open.
pub(super) async fn held_up(database: &Database, payments: impl IntoIterator<Item = Claim>) -> PgConnection {
    let mut rival = PgConnection::connect(&database.url).await.unwrap();
    raw_sql("BEGIN").execute(&mut rival).await.unwrap();
    for claim in payments {
        let payment = claim.payments()[0].id();
        let row = format!(
            "INSERT INTO ledger_sales (intent, payment, tx_hash, log_position, chain_id, resource, payer, recipient, token, amount,
                block_number, block_time, keep_until, lease_until)
            VALUES (decode(md5('{payment}'), 'hex'), '{payment}', '', 0, 8453, 'x', '', '', '', 1, 1, 1, 1, clock_timestamp())"
        );
        raw_sql(AssertSqlSafe(row)).execute(&mut rival).await.unwrap();
    }
    rival
}

async fn connected(database: &Database, connections: u32) -> PostgresLedger {
    let builder = PostgresLedger::builder().pool_size(connections).time_limit(PATIENT);
    builder.connect(&database.url).await.unwrap()
}

/// With three connections, the fewest of which some are left.
#[tokio::test]
async fn reservations_leave_connections_to_what_is_held() {
    let Some(database) = Database::new(0).await else { return };
    drop(database.begun().await);
    let ledger = connected(&database, 3).await;
    let [sold, begun, freed] = [1, 2, 3].map(|name| claim(name, name));
    let (sold, begun, freed) = (hold(&ledger, &sold).await, hold(&ledger, &begun).await, hold(&ledger, &freed).await);
    let rival = held_up(&database, [claim(9, 9), claim_unsettled(9, 9, LEASE)]).await;
    let crowd = (100..100 + CROWD).flat_map(|name| [claim(name, 9), claim_unsettled(name + CROWD, 9, LEASE)]);
    let crowd: Vec<_> = crowd.collect();
    let reservations = Box::pin(join_all(crowd.iter().map(|claim| ledger.reserve(claim))));
    let holders = Box::pin(async {
        // The crowd is there first.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let settling = Settling::new([7; 16], time(HEAD));
        assert_eq!(ledger.settling(&begun, &settling).await, Ok(RenewOutcome::Held));
        assert_eq!(ledger.renew(&begun).await, Ok(RenewOutcome::Held));
        assert_eq!(ledger.commit(&sold, None).await, Ok(CommitOutcome::Done));
        assert_eq!(ledger.release(&freed).await, Ok(()));
    });
    let first = timeout(SOON, select(holders, reservations)).await;
    assert!(matches!(first, Ok(futures_util::future::Either::Left(_))), "no holder waits for a reservation");
    drop(first);
    rival.close().await.unwrap();
    database.remove().await;
}

/// Nor does who paid wait for those who signed something.
#[tokio::test]
async fn payments_that_have_not_happened_hold_up_none_that_has() {
    let Some(database) = Database::new(0).await else { return };
    drop(database.begun().await);
    let ledger = connected(&database, 10).await;
    let rival = held_up(&database, [claim_unsettled(9, 9, LEASE)]).await;
    let crowd: Vec<_> = (100..100 + CROWD).map(|name| claim_unsettled(name, 9, LEASE)).collect();
    let forgers = Box::pin(join_all(crowd.iter().map(|claim| ledger.reserve(claim))));
    let sales = Box::pin(async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        for name in 1..=10 {
            let lease = hold(&ledger, &claim(name, name)).await;
            assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
        }
    });
    let first = timeout(SOON, select(sales, forgers)).await;
    assert!(matches!(first, Ok(futures_util::future::Either::Left(_))), "no sale waits for a forger");
    drop(first);
    rival.close().await.unwrap();
    database.remove().await;
}

/// Every refused proof is a look-up, and the intent that it names is free.
#[tokio::test]
async fn look_ups_leave_connections_to_what_is_held() {
    let Some(database) = Database::new(0).await else { return };
    drop(database.begun().await);
    let ledger = connected(&database, 3).await;
    let [sold, begun, freed] = [1, 2, 3].map(|name| claim(name, name));
    let (sold, begun, freed) = (hold(&ledger, &sold).await, hold(&ledger, &begun).await, hold(&ledger, &freed).await);
    let mut rival = PgConnection::connect(&database.url).await.unwrap();
    raw_sql("BEGIN; LOCK TABLE ledger_answers").execute(&mut rival).await.unwrap();
    let looked_up = Box::pin(join_all((0..CROWD).map(|_| ledger.consumed(sold.intent()))));
    let holders = Box::pin(async {
        // The crowd is there first.
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(ledger.renew(&begun).await, Ok(RenewOutcome::Held));
        assert_eq!(ledger.commit(&sold, None).await, Ok(CommitOutcome::Done));
        assert_eq!(ledger.release(&freed).await, Ok(()));
        // Nor does a payment that was not made.
        let signed = hold(&ledger, &claim_unsettled(4, 4, LEASE)).await;
        assert_eq!(ledger.release(&signed).await, Ok(()));
    });
    let first = timeout(SOON, select(holders, looked_up)).await;
    assert!(matches!(first, Ok(futures_util::future::Either::Left(_))), "no holder waits for a look-up");
    drop(first);
    rival.close().await.unwrap();
    database.remove().await;
}
