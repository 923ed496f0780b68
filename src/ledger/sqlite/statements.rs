//! What SQLite is asked, in full. Each statement finds its rows by an index.
//!
//! `?1` to `?4` are intent, transaction, position and chain wherever there is a pair.

/// What brings the schema from each version to the next.
pub(super) const STEPS: [&str; 1] = [include_str!("schema.sql")];

/// Begins to write, alone: whatever is read from here on stays true until the commit.
pub(super) const BEGIN: &str = "BEGIN IMMEDIATE";

/// The database's clock: Unix milliseconds, one value for a whole statement.
macro_rules! now {
    () => {
        "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)"
    };
}

/// `?2` is a JSON array of transactions, positions and chains; `?3` the head, `?4` how long what is not sold is kept.
pub(super) const LOOK: &str = concat!(
    "
WITH now (at) AS MATERIALIZED (SELECT ",
    now!(),
    ")
SELECT memory.version, memory.mark,
    COALESCE((SELECT min(keep_until) FROM ledger_sales WHERE consumed_at IS NOT NULL) < ?3, 0)
        OR COALESCE((SELECT min(lease_until) FROM ledger_sales WHERE consumed_at IS NULL) < now.at - ?4, 0)
        OR COALESCE((SELECT min(ended_at) FROM ledger_attempts) < now.at - ?4, 0),
    own.consumed_at IS NOT NULL,
    (own.lease_until - now.at) * 1000,
    sale.consumed_at IS NOT NULL,
    (sale.lease_until - now.at) * 1000,
    COALESCE(sale.intent = ?1, 0),
    attempts.times,
    (now.at - attempts.ended_at) * 1000,
    sale.block_time
FROM now CROSS JOIN ledger_memory AS memory
LEFT JOIN ledger_sales AS own ON own.intent = ?1
LEFT JOIN json_each(?2) AS wish
LEFT JOIN ledger_sales AS sale ON sale.tx_hash = unhex(wish.value ->> 0) AND sale.log_position = wish.value ->> 1
    AND sale.chain_id = wish.value ->> 2
LEFT JOIN ledger_attempts AS attempts ON attempts.intent = ?1 AND attempts.tx_hash = unhex(wish.value ->> 0)
    AND attempts.log_position = wish.value ->> 1 AND attempts.chain_id = wish.value ->> 2
ORDER BY wish.key"
);

pub(super) const NOW: &str = concat!("SELECT ", now!());

/// Leases that ran out by `?5` and are in the way: their attempts ended when they did.
pub(super) const NOTE_EXPIRED: &str = "
UPDATE ledger_attempts SET ended_at = gone.lease_until
FROM ledger_sales AS gone
WHERE (gone.intent = ?1 OR gone.tx_hash = ?2 AND gone.log_position = ?3 AND gone.chain_id = ?4)
    AND gone.consumed_at IS NULL AND gone.lease_until <= ?5
    AND ledger_attempts.intent = gone.intent AND ledger_attempts.tx_hash = gone.tx_hash
    AND ledger_attempts.log_position = gone.log_position AND ledger_attempts.chain_id = gone.chain_id";

pub(super) const EXPIRE: &str = "
DELETE FROM ledger_sales
WHERE (intent = ?1 OR tx_hash = ?2 AND log_position = ?3 AND chain_id = ?4)
    AND consumed_at IS NULL AND lease_until <= ?5";

/// The write that decides. No row: intent or payment is another's.
pub(super) const RESERVE: &str = "
INSERT INTO ledger_sales (intent, tx_hash, log_position, chain_id, reserved_at, resource, payer, recipient, token,
    amount, block_number, block_time, keep_until, lease_until)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?5 + ?14)
ON CONFLICT DO NOTHING
RETURNING fence";

/// Counts the attempt, and tells what holds now.
pub(super) const ATTEMPT: &str = "
INSERT INTO ledger_attempts (intent, tx_hash, log_position, chain_id, times, ended_at) VALUES (?1, ?2, ?3, ?4, 1, ?5)
ON CONFLICT (intent, tx_hash, log_position, chain_id) DO UPDATE SET times = min(times, 1000000) + 1
RETURNING times, (?5 - ended_at) * 1000, (SELECT mark FROM ledger_memory)";

pub(super) const RENEW: &str = concat!(
    "
UPDATE ledger_sales SET lease_until = ?6 + ",
    now!(),
    "
WHERE fence = ?5 AND intent = ?1 AND tx_hash = ?2 AND log_position = ?3 AND chain_id = ?4 AND consumed_at IS NULL"
);

pub(super) const COMMIT: &str = concat!(
    "
UPDATE ledger_sales SET consumed_at = ",
    now!(),
    "
WHERE fence = ?5 AND intent = ?1 AND tx_hash = ?2 AND log_position = ?3 AND chain_id = ?4 AND consumed_at IS NULL"
);

pub(super) const IS_COMMITTED: &str = "
SELECT EXISTS (SELECT 1 FROM ledger_sales
WHERE fence = ?5 AND intent = ?1 AND tx_hash = ?2 AND log_position = ?3 AND chain_id = ?4 AND consumed_at IS NOT NULL)";

pub(super) const SPENT: &str = "
DELETE FROM ledger_attempts WHERE intent = ?1 AND tx_hash = ?2 AND log_position = ?3 AND chain_id = ?4";

pub(super) const RELEASE: &str = "
DELETE FROM ledger_sales
WHERE fence = ?5 AND intent = ?1 AND tx_hash = ?2 AND log_position = ?3 AND chain_id = ?4 AND consumed_at IS NULL";

pub(super) const STARTED: &str = concat!(
    "
UPDATE ledger_attempts SET ended_at = ",
    now!(),
    "
WHERE intent = ?1 AND tx_hash = ?2 AND log_position = ?3 AND chain_id = ?4"
);

pub(super) const NOT_STARTED: &str = "
UPDATE ledger_attempts SET times = max(times - 1, 0)
WHERE intent = ?1 AND tx_hash = ?2 AND log_position = ?3 AND chain_id = ?4";

/// Keeps a sale by a later block time.
pub(super) const PROLONG: &str = "
UPDATE ledger_sales SET block_time = max(block_time, ?5), keep_until = max(keep_until, ?6)
WHERE tx_hash = ?2 AND log_position = ?3 AND chain_id = ?4 AND consumed_at IS NOT NULL AND ?1 IS NOT NULL";

pub(super) const IS_CONSUMED: &str =
    "SELECT EXISTS (SELECT 1 FROM ledger_sales WHERE intent = ?1 AND consumed_at IS NOT NULL)";

/// Sales that age keeps from coming back: how many, their fences, their latest block time.
pub(super) const FORGETTABLE: &str = "
SELECT count(*), json_group_array(fence), max(block_time) FROM (
    SELECT fence, block_time FROM ledger_sales WHERE consumed_at IS NOT NULL AND keep_until < ?1
    ORDER BY keep_until LIMIT ?2
)";

pub(super) const BOOK: &str = "
INSERT INTO ledger_book (fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
    block_number, block_time, reserved_at, consumed_at)
SELECT fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
    block_number, block_time, reserved_at, consumed_at
FROM ledger_sales WHERE fence IN (SELECT value FROM json_each(?1))";

pub(super) const FORGET_SALES: &str = "DELETE FROM ledger_sales WHERE fence IN (SELECT value FROM json_each(?1))";

pub(super) const FORGET_LEASES: &str = concat!(
    "
DELETE FROM ledger_sales WHERE fence IN (
    SELECT fence FROM ledger_sales WHERE consumed_at IS NULL AND lease_until < ",
    now!(),
    " - ?1
    ORDER BY lease_until LIMIT ?2
)"
);

pub(super) const FORGET_ATTEMPTS: &str = concat!(
    "
DELETE FROM ledger_attempts WHERE (intent, tx_hash, log_position, chain_id) IN (
    SELECT intent, tx_hash, log_position, chain_id FROM ledger_attempts WHERE ended_at < ",
    now!(),
    " - ?1
    ORDER BY ended_at LIMIT ?2
)"
);

pub(super) const RAISE_OVER: &str = "UPDATE ledger_memory SET mark = max(mark, ?1)";

pub(super) const IS_THERE: &str =
    "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'ledger_memory')";

pub(super) const MARK: &str = "SELECT version, mark FROM ledger_memory WHERE version = ?1";
pub(super) const HEALTH: &str = "UPDATE ledger_memory SET version = version WHERE version = ?1 RETURNING version, mark";
pub(super) const START: &str =
    "UPDATE ledger_memory SET mark = COALESCE(mark, ?2) WHERE version = ?1 RETURNING version, mark";
pub(super) const RAISE: &str =
    "UPDATE ledger_memory SET mark = max(COALESCE(mark, ?2), ?2) WHERE version = ?1 RETURNING version, mark";
pub(super) const LOWER: &str =
    "UPDATE ledger_memory SET mark = min(COALESCE(mark, ?2), ?2) WHERE version = ?1 RETURNING version, mark";

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};

    use super::*;

    /// Of sales, attempts and the book; the ledger's own row and a claim's few wishes are read from end to end.
    #[tokio::test]
    async fn no_statement_reads_a_table_from_end_to_end() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        for step in STEPS {
            sqlx::raw_sql(step).execute(&mut connection).await.unwrap();
        }
        for statement in [
            LOOK,
            NOTE_EXPIRED,
            EXPIRE,
            RESERVE,
            ATTEMPT,
            RENEW,
            COMMIT,
            IS_COMMITTED,
            SPENT,
            RELEASE,
            STARTED,
            NOT_STARTED,
            PROLONG,
            IS_CONSUMED,
            FORGETTABLE,
            BOOK,
            FORGET_SALES,
            FORGET_LEASES,
            FORGET_ATTEMPTS,
        ] {
            let plan = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
            for line in sqlx::raw_sql(plan).fetch_all(&mut connection).await.unwrap() {
                let line: String = line.get("detail");
                let scans = ["own", "sale", "gone", "attempts", "ledger_sales", "ledger_attempts", "ledger_book"];
                assert!(!scans.iter().any(|table| line.starts_with(&format!("SCAN {table}"))), "{line}{statement}");
            }
        }
    }
}
