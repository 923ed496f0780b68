//! That the cost of a statement does not grow with the number of records.

use std::time::Duration;
use tower_x402::protocol::Network;

use tower_x402::ledger::{
    Announcements as _, CommitOutcome, KeptAnswer, Ledger, RenewOutcome, ReserveOutcome,
    sqlx::{self, Connection as _, PgConnection, PgPool},
};

use super::{
    super::{HEAD, MARK, claim, claim_for, hold, time},
    Database,
};

/// How often the ledger's tables were read from end to end, by connections that are closed by now: that is when
/// they hand in what they counted.
async fn full_reads(pool: &PgPool) -> i64 {
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let count = "SELECT COALESCE(sum(seq_scan), 0)::bigint FROM pg_stat_user_tables
        WHERE schemaname = current_schema() AND relname IN ('ledger_sales', 'ledger_answers', 'ledger_book', 'ledger_settling', 'ledger_unannounced')";
    sqlx::query_scalar(count).fetch_one(pool).await.unwrap()
}

#[tokio::test]
async fn none_reads_a_table_from_end_to_end() {
    let Some(database) = Database::new(0).await else { return };
    let pool = &database.pools[0];
    drop(database.begun().await);
    // Other people's sales and leases; as many as make a planner look for an index.
    let crowd = format!(
        "INSERT INTO ledger_sales (intent, payment, tx_hash, log_position, chain_id, resource, payer, recipient, token, amount,
            block_number, block_time, keep_until, lease_until, consumed_at)
        SELECT decode(md5(n::text), 'hex'), 'eip155:8453/0x' || md5(n::text) || md5('x' || n) || '/0', sha256(n::text::bytea), 0, 8453, 'x', '\\x66', '\\x77', '\\x55', 490000,
            1, {MARK} + 50, {HEAD} + 86400 * (CASE WHEN n % 100 = 1 THEN 1 ELSE 30 END), clock_timestamp() + interval '1 hour',
            CASE WHEN n % 50 > 0 THEN clock_timestamp() END
        FROM generate_series(1, 30000) AS n;
        INSERT INTO ledger_settling (payment, intent, chain_id, request, head, keep_until)
            SELECT payment, intent, chain_id, intent, {MARK}, keep_until FROM ledger_sales WHERE consumed_at IS NULL;
        INSERT INTO ledger_answers SELECT intent, clock_timestamp() + interval '1 hour', '\\x66' FROM ledger_sales;
        INSERT INTO ledger_book SELECT fence, intent, payment, chain_id, tx_hash, log_position, resource, payer, recipient, token,
            amount, block_number, block_time, reserved_at, consumed_at FROM ledger_sales WHERE consumed_at IS NOT NULL;
        INSERT INTO ledger_unannounced SELECT payment, consumed_at FROM ledger_sales WHERE consumed_at IS NOT NULL;
        ANALYZE ledger_sales, ledger_answers, ledger_book, ledger_settling, ledger_unannounced"
    );
    let mut crowding = PgConnection::connect(&database.url).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(crowd)).execute(&mut crowding).await.unwrap();
    crowding.close().await.unwrap();
    let before = full_reads(pool).await;
    let ledger = database.connected().await;

    // More than five times each, so that plans for any values come into it.
    for name in 1..=20 {
        let failed = hold(&ledger, &claim(name, name)).await;
        assert_eq!(ledger.renew(&failed).await, Ok(RenewOutcome::Held));
        ledger.release(&failed).await.unwrap();
        let sold = hold(&ledger, &claim(name, name)).await.announcing();
        let answer = KeptAnswer::new("an answer", Duration::from_millis(1));
        assert_eq!(ledger.commit(&sold, Some(&answer)).await, Ok(CommitOutcome::Done));
        // The crowd's rows are no sales that can be told; they are found all the same.
        let _ = ledger.unannounced(None, 5).await;
        ledger.announced(sold.payment().id()).await.unwrap();
        assert_eq!(ledger.reserve(&claim(name, 99)).await, Ok(ReserveOutcome::IntentConsumed));
        assert_eq!(ledger.consumed(failed.intent()).await.map(|sale| sale.is_some()), Ok(true));
    }
    // Take-overs, and sweeps.
    for name in 101..=110 {
        let _ = hold(&ledger, &claim_for(name, name, Duration::ZERO, HEAD)).await;
        let _ = hold(&ledger, &claim(name + 100, name)).await;
    }
    let swept = ledger.sweep(Network::BASE, time(HEAD + 86_401)).await.unwrap();
    assert!(swept > 200, "{swept}");
    drop(ledger);
    // Each statement ran ten times at least. A few readings from before may be counted late, for the server gathers
    // them from its processes when it likes.
    assert!(full_reads(pool).await - before < 10, "a statement reads a table from end to end");
    database.remove().await;
}
