//! A book that is read while sales are recorded.

use std::time::UNIX_EPOCH;

use tower_x402::ledger::{SalesBook as _, SalesQuery};

use super::*;
use crate::backends::paid;

/// The earlier of two sales becomes visible last: a reader that had gone on from the later one would never see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_whose_commit_takes_long_is_not_passed_over() {
    let Some(database) = Database::new(0).await else { return };
    let ledger = database.begun().await;
    sqlx::raw_sql(AssertSqlSafe(format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN NULL; END';
        CREATE TRIGGER slow AFTER UPDATE ON ledger_sales FOR EACH ROW
        WHEN (NEW.payment = '{}' AND NEW.consumed_at IS NOT NULL) EXECUTE FUNCTION slow()",
        paid(1).payment_id()
    )))
    .execute(&database.pools[0])
    .await
    .unwrap();
    let everything = SalesQuery::since(UNIX_EPOCH);
    sell(&ledger, &claim(3, 3)).await;
    let read = ledger.page(&everything, None, 9).await.unwrap();
    assert_eq!(read.len(), 1, "no commit is open");

    let slow = hold(&ledger, &claim(1, 1)).await;
    let committing = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.commit(&slow, None).await }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    sell(&ledger, &claim(2, 2)).await;
    assert!(!committing.is_finished());
    let read = ledger.page(&everything, None, 9).await.unwrap();
    assert_eq!(read.len(), 1, "the later sale waits for the one whose commit is open");
    assert_eq!(committing.await.unwrap(), Ok(CommitOutcome::Done));
    let rest = ledger.page(&everything, read.last(), 9).await.unwrap();
    let rest: Vec<_> = rest.iter().map(|sale| sale.payment).collect();
    assert_eq!(rest, [paid(1).payment_id(), paid(2).payment_id()]);
    database.remove().await;
}
