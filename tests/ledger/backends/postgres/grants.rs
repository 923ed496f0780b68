//! What changes under a grant, and transactions that the database undoes.

use std::time::Duration;
use tower_x402::protocol::Network;

use tower_x402::ledger::{
    CommitOutcome, Ledger, Maintenance as _, PostgresLedger, RenewOutcome, ReserveOutcome, Settling,
    sqlx::{self, AssertSqlSafe},
};

use super::{
    super::{LEASE, MARK, claim, claim_for, claim_unsettled, hold, sell, time},
    Database,
};

/// What the database does whenever a lease is written.
async fn on_writing(database: &Database, what: &str, does: &str) {
    let trigger = format!(
        "CREATE OR REPLACE FUNCTION meanwhile() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN {does}; RETURN NEW; END $$;
         DROP TRIGGER IF EXISTS meanwhile ON ledger_sales;
         CREATE TRIGGER meanwhile BEFORE {what} ON ledger_sales FOR EACH ROW EXECUTE FUNCTION meanwhile()"
    );
    sqlx::raw_sql(AssertSqlSafe(trigger)).execute(&database.pools[0]).await.unwrap();
}

async fn held(database: &Database) -> i64 {
    let count = "SELECT count(*) FROM ledger_sales WHERE consumed_at IS NULL";
    sqlx::query_scalar(count).fetch_one(&database.pools[0]).await.unwrap()
}

/// A sweep between look and write lets the write through. What holds after it decides.
#[tokio::test]
async fn a_grant_that_no_longer_holds_is_taken_back() {
    let booked = |intent: &str, payment: &str| {
        format!(
            "INSERT INTO ledger_book (intent, payment, chain_id, tx_hash, log_position, fence, resource, payer, recipient, token, amount, block_number,
                block_time, reserved_at, consumed_at)
             VALUES ({intent}, {payment}, NEW.chain_id, NEW.tx_hash, NEW.log_position, 1, 'x', '', '', '', 1, 1, 1, now(), now())"
        )
    };
    type Told = fn(&ReserveOutcome) -> bool;
    let cases: [(String, Told); 3] = [
        (booked("NEW.intent", "'another'"), |told| *told == ReserveOutcome::IntentConsumed),
        (booked("decode('99', 'hex')", "NEW.payment"), |told| *told == ReserveOutcome::PaymentUsed),
        ("UPDATE ledger_marks SET mark = NEW.block_time".to_owned(), |told| *told == ReserveOutcome::BeforeMemory),
    ];
    // At once, where nothing is known of either; and where a lease that ran out is in the way.
    for takes_over in [false, true] {
        let Some(database) = Database::new(0).await else { return };
        let ledger = database.begun().await;
        for (name, (does, expected)) in (1..).zip(&cases) {
            if takes_over {
                let brief = claim_for(name + 50, name, std::time::Duration::ZERO, super::HEAD);
                let _ = hold(&ledger, &brief).await;
            }
            on_writing(&database, "INSERT", does).await;
            let told = ledger.reserve(&claim(name, name)).await.unwrap();
            assert!(expected(&told), "{does}: {told:?}");
            assert_eq!(held(&database).await, 0, "{does}: nobody is left to hold it");
            sqlx::raw_sql("DROP TRIGGER meanwhile ON ledger_sales").execute(&database.pools[0]).await.unwrap();
        }
        database.remove().await;
    }
}

/// A sweep between look and write raises the mark of one network. A grant is held against the mark of its payment's network.
#[tokio::test]
async fn a_grant_is_held_against_its_own_networks_mark() {
    for other in [Network::eip155(1), Network::BASE_SEPOLIA] {
        for takes_over in [false, true] {
            let Some(database) = Database::new(0).await else { return };
            let ledger = database.begun().await;
            ledger.begin(other, time(MARK)).await.unwrap();
            let raise = |network: Network| {
                let chain = network.chain_id();
                format!("UPDATE ledger_marks SET mark = NEW.block_time WHERE chain_id = {chain}")
            };
            for (name, network) in [(1, other), (2, Network::BASE)] {
                if takes_over {
                    let _ = hold(&ledger, &claim_for(name + 50, name, Duration::ZERO, super::HEAD)).await;
                }
                on_writing(&database, "INSERT", &raise(network)).await;
                let told = ledger.reserve(&claim(name, name)).await.unwrap();
                match network {
                    Network::BASE => assert_eq!(told, ReserveOutcome::BeforeMemory, "its own network's mark rose"),
                    _ => assert!(matches!(told, ReserveOutcome::Granted(_)), "another network's mark rose: {told:?}"),
                }
                sqlx::raw_sql("DROP TRIGGER meanwhile ON ledger_sales").execute(&database.pools[0]).await.unwrap();
                ledger.lower_mark_to(network, time(MARK)).await.unwrap();
            }
            database.remove().await;
        }
    }
}

/// A grant that is taken back leaves the record of the settlement.
#[tokio::test]
async fn a_grant_that_is_taken_back_leaves_what_was_begun() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    let lease = hold(&ledger, &claim_unsettled(1, 1, Duration::ZERO)).await;
    let begun = Settling::new([7; 16], time(MARK));
    assert_eq!(ledger.settling(&lease, &begun).await, Ok(RenewOutcome::Held));
    on_writing(&database, "INSERT", "UPDATE ledger_marks SET mark = NEW.block_time").await;
    assert_eq!(ledger.reserve(&claim_unsettled(1, 1, LEASE)).await, Ok(ReserveOutcome::BeforeMemory));
    assert_eq!(held(&database).await, 0, "no lease is left");
    sqlx::raw_sql("DROP TRIGGER meanwhile ON ledger_sales").execute(&database.pools[0]).await.unwrap();
    ledger.lower_mark_to(Network::BASE, time(MARK)).await.unwrap();
    assert_eq!(ledger.reserve(&claim_unsettled(2, 1, LEASE)).await, Ok(ReserveOutcome::Busy { retry_after: LEASE }));
    assert_eq!(hold(&ledger, &claim_unsettled(1, 1, LEASE)).await.settling(), Some(&begun));
    database.remove().await;
}

/// A settlement that is begun between look and write, and whose lease ran out at once, is found by what holds after the write.
#[tokio::test]
async fn a_settlement_that_is_begun_meanwhile_is_not_missed() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    let others = "INSERT INTO ledger_settling (payment, intent, chain_id, request, head, keep_until)
         VALUES (NEW.payment, decode('99', 'hex'), NEW.chain_id, decode(repeat('07', 16), 'hex'), 1, NEW.keep_until) ON CONFLICT DO NOTHING";
    on_writing(&database, "INSERT", others).await;
    assert_eq!(ledger.reserve(&claim_unsettled(1, 1, LEASE)).await, Ok(ReserveOutcome::Busy { retry_after: LEASE }));
    let own = "INSERT INTO ledger_settling (payment, intent, chain_id, request, head, keep_until)
         VALUES (NEW.payment, NEW.intent, NEW.chain_id, decode(repeat('07', 16), 'hex'), 1, NEW.keep_until) ON CONFLICT DO NOTHING";
    on_writing(&database, "INSERT", own).await;
    let lease = hold(&ledger, &claim_unsettled(2, 2, LEASE)).await;
    assert_eq!(lease.settling(), Some(&Settling::new([7; 16], time(1))), "a fresh lease would hide it");
    database.remove().await;
}

/// The function that takes over a lease asks the clock itself: the lease may have been renewed since the look.
#[tokio::test]
async fn a_lease_that_was_renewed_meanwhile_is_not_taken_over() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    // The longest lease, on a clock that was set back by less than clocks may be apart; and an end beyond that.
    for (name, left, is_held) in [(1, 1, true), (2, 3_600, true), (3, 3_690, true), (4, 3_750, false), (5, 0, false)] {
        let lease = hold(&ledger, &claim(name, name)).await;
        let payment = lease.payment().id();
        let end = format!(
            "UPDATE ledger_sales SET lease_until = clock_timestamp() + interval '{left} seconds' WHERE payment = '{payment}'"
        );
        sqlx::raw_sql(AssertSqlSafe(end)).execute(&database.pools[0]).await.unwrap();
        let grant = format!(
            "SELECT g_fence IS NULL FROM ledger_grant(decode(repeat('99', 16), 'hex'), '{payment}', '', 0, 8453, 'x', '', '', '',
                1, 1, {}, {}, 1000000, NULL, true)",
            MARK + 100,
            MARK + 100
        );
        let mut work = database.pools[0].begin().await.unwrap();
        let refused: bool = sqlx::query_scalar(AssertSqlSafe(grant)).fetch_one(&mut *work).await.unwrap();
        assert_eq!(refused, is_held, "{left} seconds are left");
        work.rollback().await.unwrap();
        assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    }
    database.remove().await;
}

/// Serialization failures and deadlocks are the database's way to say: once more.
#[tokio::test]
async fn what_the_database_undoes_is_asked_once_more() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    sqlx::raw_sql("CREATE SEQUENCE hiccups").execute(&database.pools[0]).await.unwrap();
    for (name, code) in (1..).zip(["40001", "40P01"]) {
        let does = format!("IF nextval('hiccups') % 2 = 1 THEN RAISE EXCEPTION USING ERRCODE = '{code}'; END IF");
        on_writing(&database, "INSERT OR UPDATE", &does).await;
        let lease = hold(&ledger, &claim(name, name)).await;
        assert_eq!(ledger.renew(&lease).await, Ok(RenewOutcome::Held), "{code}");
        assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done), "{code}");
        assert_eq!(ledger.reserve(&claim(name, name)).await, Ok(ReserveOutcome::IntentConsumed));
    }
    // Any other is an error at once.
    on_writing(
        &database,
        "INSERT",
        "IF nextval('hiccups') % 2 = 1 THEN RAISE EXCEPTION USING ERRCODE = '23514'; END IF",
    )
    .await;
    assert!(ledger.reserve(&claim(5, 5)).await.is_err());
    database.remove().await;
}

#[tokio::test]
async fn what_is_sold_is_neither_renewed_nor_freed() {
    let Some(database) = Database::new(0).await else { return };
    let ledger: PostgresLedger = database.begun().await;
    let lease = hold(&ledger, &claim(1, 1)).await;
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    assert_eq!(ledger.renew(&lease).await, Ok(RenewOutcome::LeaseLost));
    ledger.release(&lease).await.unwrap();
    assert_eq!(ledger.reserve(&claim(1, 1)).await, Ok(ReserveOutcome::IntentConsumed));
    sell(&ledger, &claim(2, 2)).await;
    database.remove().await;
}
