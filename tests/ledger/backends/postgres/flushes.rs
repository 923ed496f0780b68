//! What waits for the disk, and for how long a transaction that goes on may stay idle.

use std::time::Duration;

use tower_x402::{
    ledger::{
        AccountId, AccountLedger as _, ChargeOutcome, CommitOutcome, Draw, DrawOutcome, DrawRenewal, KeptAnswer,
        Ledger, Opening, RefundOutcome, RenewOutcome, SalesBook as _, Settling,
        sqlx::{self, AssertSqlSafe},
    },
    protocol::{Amount, TxHash},
};

use super::{
    super::{LEASE, MARK, claim, claim_unsettled, hold, paid, time},
    Database,
};

/// Notes of every write to these tables how it is flushed.
const WATCH: &str = "
    CREATE TABLE writes (of text, flush text, idle text);
    CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO writes VALUES (TG_TABLE_NAME, current_setting('synchronous_commit'),
            current_setting('idle_in_transaction_session_timeout'));
        RETURN NULL;
    END $$;";

/// What was written since the last look: table, level, and the limit of an idle transaction.
async fn written(database: &Database) -> Vec<(String, String, String)> {
    let look = "WITH gone AS (DELETE FROM writes RETURNING *) SELECT DISTINCT of, flush, idle FROM gone ORDER BY of";
    sqlx::query_as(look).fetch_all(&database.pools[0]).await.unwrap()
}

fn flushes(written: &[(String, String, String)]) -> Vec<(&str, &str)> {
    written.iter().map(|(of, flush, _)| (of.as_str(), flush.as_str())).collect()
}

#[tokio::test]
async fn settlements_sales_and_refunds_wait_for_the_disk() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    let triggers = ["ledger_sales", "ledger_settling", "ledger_refunds"].map(|table| {
        format!("CREATE TRIGGER watch AFTER INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION watch();")
    });
    sqlx::raw_sql(AssertSqlSafe(WATCH.to_owned() + &triggers.concat())).execute(&database.pools[0]).await.unwrap();

    let lease = hold(&ledger, &claim_unsettled(1, 1, LEASE)).await;
    assert_eq!(ledger.renew(&lease).await, Ok(RenewOutcome::Held));
    assert_eq!(flushes(&written(&database).await), [("ledger_sales", "off")], "a lease need not last");

    for settling in
        [Settling::new([7; 16], time(MARK)), Settling::new([7; 16], time(MARK)).with_transaction(TxHash::new([9; 32]))]
    {
        assert_eq!(ledger.settling(&lease, &settling).await, Ok(RenewOutcome::Held));
        assert_eq!(flushes(&written(&database).await), [("ledger_sales", "on"), ("ledger_settling", "on")]);
    }

    // The second time, too: the first one's caller may be gone before its flush.
    for _ in 0..2 {
        assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
        assert_eq!(flushes(&written(&database).await), [("ledger_sales", "on")]);
    }

    let kept = hold(&ledger, &claim(2, 2)).await;
    written(&database).await;
    for _ in 0..2 {
        assert_eq!(ledger.commit(&kept, Some(&KeptAnswer::new("an answer", LEASE))).await, Ok(CommitOutcome::Done));
        let told = written(&database).await;
        assert_eq!(flushes(&told), [("ledger_sales", "on")]);
        // It is more than one message: between two of them the seller can vanish.
        assert!(told.iter().all(|(_, _, idle)| idle != "0"), "{told:?}");
    }

    let freed = hold(&ledger, &claim(3, 3)).await;
    written(&database).await;
    ledger.release(&freed).await.unwrap();
    assert_eq!(flushes(&written(&database).await), []);

    assert_eq!(ledger.note_refund(paid(2).payment_id(), TxHash::new([5; 32])).await, Ok(RefundOutcome::Noted));
    assert_eq!(flushes(&written(&database).await), [("ledger_refunds", "on")]);
    database.remove().await;
}

/// A call by a pass waits for the disk once: at its charge.
#[tokio::test]
async fn of_an_account_openings_charges_and_closings_wait_for_the_disk() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    let trigger =
        "CREATE TRIGGER watch AFTER INSERT OR UPDATE ON ledger_accounts FOR EACH ROW EXECUTE FUNCTION watch();";
    sqlx::raw_sql(AssertSqlSafe(WATCH.to_owned() + trigger)).execute(&database.pools[0]).await.unwrap();
    let (id, one) = (AccountId::new([7; 16]), Amount::from_base_units(1));
    let accounts = ledger.accounts().unwrap();

    let _ = accounts.open_account(&Opening::new(id, Amount::from_base_units(3))).await.unwrap();
    assert_eq!(flushes(&written(&database).await), [("ledger_accounts", "on")]);
    for charged in [true, false] {
        let DrawOutcome::Granted(call) = accounts.draw(&Draw::new(id, one, LEASE)).await.unwrap() else { panic!() };
        assert_eq!(accounts.renew_draw(&call).await, Ok(DrawRenewal::Held));
        assert_eq!(flushes(&written(&database).await), [("ledger_accounts", "off")], "a lease need not last");
        let expected = match charged {
            true => {
                assert!(matches!(accounts.charge(&call, one, None).await, Ok(ChargeOutcome::Done { .. })));
                "on"
            }
            false => {
                accounts.release_draw(&call).await.unwrap();
                "off"
            }
        };
        assert_eq!(flushes(&written(&database).await), [("ledger_accounts", expected)]);
    }
    assert!(accounts.close_account(id).await.unwrap().is_some());
    assert_eq!(flushes(&written(&database).await), [("ledger_accounts", "on")]);
    database.remove().await;
}

/// The holder renews while a claim that saw the lease run out is about to take it over.
#[tokio::test]
async fn a_lease_that_is_renewed_meanwhile_is_not_taken_over() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    let lease = hold(&ledger, &super::super::claim_for(1, 1, Duration::ZERO, super::HEAD)).await;
    let mut renewal = database.pools[1].begin().await.unwrap();
    let renew = "UPDATE ledger_sales SET lease_until = clock_timestamp() + interval '1 minute'";
    sqlx::raw_sql(renew).execute(&mut *renewal).await.unwrap();
    let rival = ledger.clone();
    let claiming = tokio::spawn(async move { rival.reserve(&claim(2, 1)).await });
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND pid IN (
        SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%ledger_grant%')";
    for _ in 0..200 {
        if sqlx::query_scalar::<_, i64>(waits).fetch_one(&database.pools[0]).await.unwrap() > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    renewal.commit().await.unwrap();
    let told = claiming.await.unwrap().unwrap();
    assert!(matches!(told, super::ReserveOutcome::Busy { .. }), "{told:?}");
    assert_eq!(ledger.commit(&lease, None).await, Ok(CommitOutcome::Done));
    database.remove().await;
}
