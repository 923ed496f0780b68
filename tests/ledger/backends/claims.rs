//! Claimable accounts on each ledger over a database: one from before there were any, and one that was restored from a copy.

use std::{fs, time::Duration};

use tower_x402::{
    ledger::{
        AccountId, AccountLedger as _, AccountMemo, ChargeOutcome, Draw, DrawLease, DrawOutcome, LedgerError,
        OpenOutcome, Opening, ReflectOutcome, Reflection, SqliteLedger, redis_driver as driver,
    },
    protocol::Amount,
};

use crate::kinds::{AnyLedger, Kind, Place, on_each_kind};

const PASS: AccountId = AccountId::new([0x16; 16]);
const CHANNEL: AccountId = AccountId::new([0x29; 16]);
const LEASE: Duration = Duration::from_secs(60);

on_each_kind! {
    passes_from_before_there_were_claims_are_kept
    a_copy_that_is_restored_learns_from_the_chain_what_was_claimed
}

fn units(units: u64) -> Amount {
    Amount::from_base_units(units.into())
}

async fn draw(ledger: &AnyLedger, draw: Draw) -> DrawLease {
    match ledger.draw(&draw).await.unwrap() {
        DrawOutcome::Granted(lease) => lease,
        other => panic!("{other:?}"),
    }
}

async fn charge(ledger: &AnyLedger, step: Draw) {
    let (amount, lease) = (step.amount(), draw(ledger, step).await);
    let voucher = AccountMemo::new("a voucher").unwrap();
    assert!(matches!(ledger.charge(&lease, amount, Some(&voucher)).await.unwrap(), ChargeOutcome::Done { .. }));
}

/// The next voucher of a channel.
fn step(amount: u64, spent: u64) -> Draw {
    Draw::new(CHANNEL, units(amount), LEASE).expecting(units(spent))
}

/// A ledger as it was made before there were claimable accounts, with a pass of which two of nine calls are used, and one is held.
async fn made_before(place: &Place) {
    const RECORD: &str = r#"{"limit":"9","spent":"2","fence":1795280000000000,"drawn":3,"memo":"70617373","held":[[1795280000000000,"1",1]],"charged":[11,12]}"#;
    let id = "16".repeat(16);
    match place.kind {
        Kind::Sqlite => {
            fs::File::create_new(place.address().strip_prefix("sqlite:").unwrap()).unwrap();
            place.sql("PRAGMA journal_mode = WAL").await;
            for step in [
                include_str!("../../../src/ledger/sqlite/schema.sql"),
                include_str!("../../../src/ledger/sqlite/accounts.sql"),
                include_str!("../../../src/ledger/sqlite/charges.sql"),
            ] {
                place.sql(step).await;
            }
            place.sql("UPDATE ledger_memory SET version = 3, revision = 3").await;
            let account = format!("INSERT INTO ledger_accounts (id, record) VALUES (x'{id}', '{RECORD}')");
            place.sql(&account).await;
        }
        Kind::Postgres => {
            for step in [
                include_str!("../../../src/ledger/postgres/schema.sql"),
                include_str!("../../../src/ledger/postgres/accounts.sql"),
                include_str!("../../../src/ledger/postgres/knows.sql"),
                include_str!("../../../src/ledger/postgres/charges.sql"),
            ] {
                place.sql(step).await;
            }
            place.sql("UPDATE ledger_memory SET version = 3, revision = 4").await;
            let account = format!(
                "INSERT INTO ledger_accounts (id, version, record) VALUES (decode('{id}', 'hex'), 1795280000000000, '{RECORD}')"
            );
            place.sql(&account).await;
        }
        Kind::Redis => {
            let (mut connection, prefix) = place.redis().await;
            let mut account = driver::cmd("HSET");
            account.arg(format!("{prefix}account:{id}")).arg(&["version", "1795280000000000", "record", RECORD]);
            let _: u64 = account.query_async(&mut connection).await.unwrap();
            let mut ledger = driver::cmd("HSET");
            ledger.arg(format!("{prefix}ledger")).arg(&["schema", "2", "mark:8453", "1795280000"]);
            let _: u64 = ledger.query_async(&mut connection).await.unwrap();
        }
    }
}

async fn passes_from_before_there_were_claims_are_kept(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    made_before(&place).await;
    let memo = AccountMemo::new("pass").unwrap();
    if kind == Kind::Postgres {
        // A new program on a database that nobody has migrated yet: passes are sold, and channels are not.
        let ledger = place.ledger().await;
        charge(&ledger, Draw::new(PASS, units(1), LEASE)).await;
        let channel = Opening::new(CHANNEL, units(9)).claimable();
        assert_eq!(ledger.open_account(&channel).await, Err(LedgerError::incompatible()));
        assert_eq!(ledger.owed(None, 9).await, Err(LedgerError::incompatible()));
        assert_eq!(ledger.account(PASS).await.unwrap().unwrap().spent, units(3));
        place.sql("UPDATE ledger_accounts SET record = replace(record, '\"spent\":\"3\"', '\"spent\":\"2\"')").await;
    }
    for _ in 0..2 {
        let ledger = place.begun().await;
        let account = ledger.account(PASS).await.unwrap().unwrap();
        assert_eq!((account.limit, account.spent, account.claims), (units(9), units(2), None));
        ledger.close().await;
    }
    let ledger = place.begun().await;
    let lease = draw(&ledger, Draw::new(PASS, units(7), LEASE)).await;
    assert!(kind == Kind::Postgres || *lease.memo() == memo);
    assert_eq!(ledger.charge(&lease, units(7), None).await, Ok(ChargeOutcome::Done { left: Amount::ZERO }));
    assert_eq!((ledger.owed(None, 9).await, ledger.claimable(None, 9).await), (Ok(vec![]), Ok(vec![])));
    // And channels are sold beside it.
    let opened = ledger.open_account(&Opening::new(CHANNEL, units(9)).claimable()).await.unwrap();
    assert!(matches!(opened, OpenOutcome::Open(_)));
    charge(&ledger, step(2, 0)).await;
    let owed = ledger.owed(None, 9).await.unwrap();
    assert_eq!(owed.iter().map(|(id, account)| (*id, account.owed())).collect::<Vec<_>>(), [(CHANNEL, units(2))]);
    place.remove().await;
}

/// What was charged since the copy is owed no more, and what was claimed since then is known from the chain.
async fn a_copy_that_is_restored_learns_from_the_chain_what_was_claimed(kind: Kind) {
    let Some(place) = Place::new(kind).await else { return };
    let ledger = place.begun().await;
    let opened = ledger.open_account(&Opening::new(CHANNEL, units(100)).claimable()).await.unwrap();
    assert!(matches!(opened, OpenOutcome::Open(_)));
    charge(&ledger, step(4, 0)).await;
    let under_way = draw(&ledger, step(3, 4)).await;
    copy(&place).await;
    assert!(matches!(ledger.charge(&under_way, units(3), None).await.unwrap(), ChargeOutcome::Done { .. }));
    charge(&ledger, step(5, 7)).await;
    let claimed = Reflection::new(CHANNEL).claimed(units(12)).as_of(9);
    assert!(matches!(ledger.reflect(&claimed).await.unwrap(), ReflectOutcome::Done(_)));
    assert_eq!(ledger.owed(None, 9).await, Ok(vec![]));
    ledger.close().await;

    restore(&place).await;
    let ledger = place.begun().await;
    let owed = ledger.owed(None, 9).await.unwrap();
    assert_eq!(owed.iter().map(|(_, account)| account.owed()).collect::<Vec<_>>(), [units(4)], "as it was then");
    // The claimer reads the chain before it claims.
    let ReflectOutcome::Done(account) = ledger.reflect(&claimed).await.unwrap() else { panic!("it is claimable") };
    assert_eq!((account.spent, account.owed(), account.held), (units(12), Amount::ZERO, Amount::ZERO));
    assert_eq!(ledger.owed(None, 9).await, Ok(vec![]));
    assert_eq!(ledger.charge(&under_way, units(3), None).await, Ok(ChargeOutcome::LeaseLost), "it was claimed");
    let old = ledger.draw(&step(3, 4)).await.unwrap();
    assert_eq!(old, DrawOutcome::Mismatch { spent: units(12) }, "an old voucher buys nothing again");
    charge(&ledger, step(1, 12)).await;
    place.remove().await;
}

async fn copy(place: &Place) {
    place.sql("CREATE TABLE saved AS SELECT * FROM ledger_accounts").await;
    copy_keys(place, "", ":saved").await;
}

async fn restore(place: &Place) {
    place.sql("DELETE FROM ledger_accounts; INSERT INTO ledger_accounts SELECT * FROM saved").await;
    copy_keys(place, ":saved", "").await;
}

async fn copy_keys(place: &Place, from: &str, to: &str) {
    if place.kind != Kind::Redis {
        return;
    }
    let (mut connection, prefix) = place.redis().await;
    for key in [format!("account:{CHANNEL}"), "accounts_owed".to_owned(), "accounts_claimable".to_owned()] {
        let mut copy = driver::cmd("COPY");
        copy.arg(format!("{prefix}{key}{from}")).arg(format!("{prefix}{key}{to}")).arg("REPLACE");
        let _: u64 = copy.query_async(&mut connection).await.unwrap();
    }
}

/// An SQLite file that nobody migrates says so.
#[tokio::test]
async fn a_file_that_is_not_migrated_lists_nothing() {
    let place = Place::new(Kind::Sqlite).await.unwrap();
    made_before(&place).await;
    let path = place.address().strip_prefix("sqlite:").unwrap();
    let ledger = SqliteLedger::builder().run_migrations(false).open(path).await.unwrap();
    assert!(matches!(ledger.draw(&Draw::new(PASS, units(1), LEASE)).await.unwrap(), DrawOutcome::Granted(_)));
    assert_eq!(ledger.owed(None, 9).await, Err(LedgerError::unavailable()));
    ledger.close().await;
    place.remove().await;
}
