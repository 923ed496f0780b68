//! What PostgreSQL is asked, in full. Each statement finds its rows by an index.
//!
//! At READ COMMITTED a statement sees what was committed when it began, and the unique indexes judge by what is
//! committed when they are asked. `$1` to `$4` are intent, transaction, position and chain wherever there is a pair.

use std::sync::Arc;

use sqlx::AssertSqlSafe;

/// What stands for the prefix in the texts below.
pub(super) const PREFIX: &str = "ledger_";

/// What brings the schema from each version to the next.
pub(super) const STEPS: [&str; 1] = [include_str!("schema.sql")];

/// The first of a transaction, whatever the database's defaults are.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = on";

/// `$2` to `$4` are arrays here; `$5` is the head.
const LOOK: &str = "
WITH now AS MATERIALIZED (SELECT clock_timestamp() AS at)
SELECT memory.version, memory.mark,
    COALESCE((SELECT min(keep_until) FROM ledger_sales WHERE consumed_at IS NOT NULL) < $5, false)
        OR COALESCE((SELECT min(lease_until) FROM ledger_sales WHERE consumed_at IS NULL) < now.at - $6::bigint * interval '1 microsecond', false)
        OR COALESCE((SELECT min(ended_at) FROM ledger_attempts) < now.at - $6::bigint * interval '1 microsecond', false),
    own.consumed_at IS NOT NULL,
    (extract(epoch FROM own.lease_until - now.at) * 1000000)::bigint,
    sale.consumed_at IS NOT NULL,
    (extract(epoch FROM sale.lease_until - now.at) * 1000000)::bigint,
    COALESCE(sale.intent = $1, false),
    attempts.times,
    (extract(epoch FROM now.at - attempts.ended_at) * 1000000)::bigint,
    sale.block_time
FROM now JOIN ledger_memory AS memory ON memory.only_row
LEFT JOIN ledger_sales AS own ON own.intent = $1
LEFT JOIN unnest($2::bytea[], $3::bigint[], $4::bigint[]) WITH ORDINALITY AS wish (tx_hash, log_position, chain_id, place) ON true
LEFT JOIN ledger_sales AS sale
    ON (sale.tx_hash, sale.log_position, sale.chain_id) = (wish.tx_hash, wish.log_position, wish.chain_id)
LEFT JOIN ledger_attempts AS attempts ON attempts.intent = $1
    AND (attempts.tx_hash, attempts.log_position, attempts.chain_id) = (wish.tx_hash, wish.log_position, wish.chain_id)
ORDER BY wish.place";

/// Ends leases that ran out and are in the way; their attempts ended when they did.
const EXPIRE: &str = "
WITH gone AS (
    DELETE FROM ledger_sales
    WHERE (intent = $1 OR tx_hash = $2 AND log_position = $3 AND chain_id = $4)
        AND consumed_at IS NULL AND lease_until <= clock_timestamp()
    RETURNING intent, tx_hash, log_position, chain_id, lease_until
), noted AS (
    UPDATE ledger_attempts AS attempts SET ended_at = gone.lease_until FROM gone
    WHERE (attempts.intent, attempts.tx_hash, attempts.log_position, attempts.chain_id)
        = (gone.intent, gone.tx_hash, gone.log_position, gone.chain_id)
)
SELECT count(*) FROM gone";

/// The write that decides. No row: intent or payment is another's.
const RESERVE: &str = "
INSERT INTO ledger_sales (intent, tx_hash, log_position, chain_id, resource, payer, recipient, token, amount,
    block_number, block_time, keep_until, lease_until)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::text::numeric, $10, $11, $12,
    clock_timestamp() + $13::bigint * interval '1 microsecond')
ON CONFLICT DO NOTHING
RETURNING fence";

/// Counts the attempt, and tells what holds now that nobody else can change it. A statement of its own: it sees
/// whatever was forgotten before the one above was let through.
const ATTEMPT: &str = "
INSERT INTO ledger_attempts AS attempts (intent, tx_hash, log_position, chain_id, times, ended_at)
VALUES ($1, $2, $3, $4, 1, clock_timestamp())
ON CONFLICT (intent, tx_hash, log_position, chain_id) DO UPDATE SET times = LEAST(attempts.times, 1000000) + 1
RETURNING times, (extract(epoch FROM clock_timestamp() - ended_at) * 1000000)::bigint,
    (SELECT mark FROM ledger_memory)";

const RENEW: &str = "
UPDATE ledger_sales SET lease_until = clock_timestamp() + $6::bigint * interval '1 microsecond'
WHERE intent = $1 AND tx_hash = $2 AND log_position = $3 AND chain_id = $4 AND fence = $5 AND consumed_at IS NULL
RETURNING true";

/// A row: it is sold, and whether only now. Flushed before it is answered, whatever the database's default is.
const COMMIT: &str = "
WITH sold AS (
    UPDATE ledger_sales SET consumed_at = COALESCE(consumed_at, clock_timestamp())
    WHERE intent = $1 AND tx_hash = $2 AND log_position = $3 AND chain_id = $4 AND fence = $5
    RETURNING consumed_at >= statement_timestamp() AS only_now, set_config('synchronous_commit', 'on', true) AS flushed
), spent AS (
    DELETE FROM ledger_attempts
    WHERE intent = $1 AND tx_hash = $2 AND log_position = $3 AND chain_id = $4 AND EXISTS (SELECT FROM sold)
)
SELECT only_now, flushed FROM sold";

/// `$6`: whether the handler was started.
const RELEASE: &str = "
WITH freed AS (
    DELETE FROM ledger_sales
    WHERE intent = $1 AND tx_hash = $2 AND log_position = $3 AND chain_id = $4 AND fence = $5 AND consumed_at IS NULL
    RETURNING true
), noted AS (
    UPDATE ledger_attempts
    SET times = CASE WHEN $6 THEN times ELSE GREATEST(times - 1, 0) END,
        ended_at = CASE WHEN $6 THEN clock_timestamp() ELSE ended_at END
    WHERE intent = $1 AND tx_hash = $2 AND log_position = $3 AND chain_id = $4 AND EXISTS (SELECT FROM freed)
)
SELECT count(*) FROM freed";

/// Keeps a sale by a later block time.
const PROLONG: &str = "
UPDATE ledger_sales SET block_time = GREATEST(block_time, $5), keep_until = GREATEST(keep_until, $6)
WHERE tx_hash = $2 AND log_position = $3 AND chain_id = $4 AND consumed_at IS NOT NULL AND $1::bytea IS NOT NULL
RETURNING true";

const IS_CONSUMED: &str = "SELECT EXISTS (SELECT FROM ledger_sales WHERE intent = $1 AND consumed_at IS NOT NULL)";

/// Forgets sales that age keeps from coming back, and raises the mark over each; their rows go into the book.
const FORGET_SALES: &str = "
WITH gone AS (
    DELETE FROM ledger_sales WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ledger_sales WHERE consumed_at IS NOT NULL AND keep_until < $1
        ORDER BY keep_until LIMIT $2 FOR UPDATE SKIP LOCKED
    ))
    RETURNING *
), booked AS (
    INSERT INTO ledger_book (fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
        block_number, block_time, reserved_at, consumed_at)
    SELECT fence, intent, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
        block_number, block_time, reserved_at, consumed_at
    FROM gone
), raised AS (
    UPDATE ledger_memory SET mark = GREATEST(mark, (SELECT max(block_time) FROM gone)) WHERE EXISTS (SELECT FROM gone)
)
SELECT count(*) FROM gone";

const FORGET_LEASES: &str = "
WITH gone AS (
    DELETE FROM ledger_sales WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ledger_sales
        WHERE consumed_at IS NULL AND lease_until < clock_timestamp() - $1::bigint * interval '1 microsecond'
        ORDER BY lease_until LIMIT $2 FOR UPDATE SKIP LOCKED
    ))
    RETURNING true
)
SELECT count(*) FROM gone";

const FORGET_ATTEMPTS: &str = "
WITH gone AS (
    DELETE FROM ledger_attempts WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM ledger_attempts WHERE ended_at < clock_timestamp() - $1::bigint * interval '1 microsecond'
        ORDER BY ended_at LIMIT $2 FOR UPDATE SKIP LOCKED
    ))
    RETURNING true
)
SELECT count(*) FROM gone";

const MARK: &str = "SELECT version, mark FROM ledger_memory WHERE version = $1";
const HEALTH: &str = "UPDATE ledger_memory SET version = version WHERE version = $1 RETURNING version, mark";
const START: &str = "UPDATE ledger_memory SET mark = COALESCE(mark, $2) WHERE version = $1 RETURNING version, mark";
const RAISE: &str = "UPDATE ledger_memory SET mark = GREATEST(mark, $2) WHERE version = $1 RETURNING version, mark";
const LOWER: &str = "UPDATE ledger_memory SET mark = LEAST(mark, $2) WHERE version = $1 RETURNING version, mark";

/// One statement under its prefix.
pub(super) struct Text(Arc<str>);

impl Text {
    /// Made of the constants here and a prefix that was checked: nothing in it comes from outside.
    pub(super) fn sql(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(Arc::clone(&self.0))
    }
}

macro_rules! statements {
    ($($name:ident: $text:ident),* $(,)?) => {
        /// Every statement under one prefix.
        pub(super) struct Statements {
            $(pub(super) $name: Text,)*
            pub(super) prefix: Box<str>,
        }

        impl Statements {
            pub(super) fn new(prefix: &str) -> Self {
                Self { $($name: Text($text.replace(PREFIX, prefix).into()),)* prefix: prefix.into() }
            }
        }
    };
}

statements! {
    look: LOOK, expire: EXPIRE, reserve: RESERVE, attempt: ATTEMPT, renew: RENEW, commit: COMMIT, release: RELEASE,
    is_consumed: IS_CONSUMED, prolong: PROLONG, forget_sales: FORGET_SALES, forget_leases: FORGET_LEASES, forget_attempts: FORGET_ATTEMPTS,
    mark: MARK, health: HEALTH, start: START, raise: RAISE, lower: LOWER,
}

impl Statements {
    /// A step of the schema under the prefix.
    pub(super) fn step(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace(PREFIX, &self.prefix))
    }
}
