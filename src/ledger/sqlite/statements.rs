//! The full text of SQLite's statements. Each statement finds its rows by an index.
//!
//! The questions of a batch are passed as JSON, one row for each, which the part `asked` reads. Statements use
//! `ledger_`, the placeholder for the table prefix.

use std::sync::Arc;

use sqlx::AssertSqlSafe;

/// The migrations of the schema from each revision to the next.
pub(super) const STEPS: [&str; 4] =
    [include_str!("schema.sql"), include_str!("accounts.sql"), include_str!("charges.sql"), include_str!("claims.sql")];

/// The default prefix of every name.
pub(super) const PREFIX: &str = "ledger_";

/// The text after the level at which a transaction is flushed.
macro_rules! begin {
    ($level:literal) => {
        concat!(
            "PRAGMA synchronous = ",
            $level,
            "; BEGIN IMMEDIATE; PRAGMA synchronous; ",
            "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'ledger_sales'), 0)
WHERE ?1 IS NULL
    OR EXISTS (SELECT 1 FROM ledger_sales WHERE fence = ?1 AND consumed_at IS NOT NULL)
    OR EXISTS (SELECT 1 FROM ledger_book WHERE fence = ?1)
    OR (SELECT mark FROM ledger_marks WHERE chain_id = ?3) >= ?2"
        )
    };
}

/// Begins to write, exclusively: every value that is read from here on stays true until the commit. Returns the level
/// at which the transaction will be flushed, which no longer changes. Level 2 flushes the log, with all earlier writes,
/// before the commit returns.
///
/// Then returns the greatest fence of all, which never decreases. Returns no row if the sale of fence `?1`, of a
/// payment of the time `?2` on the chain `?3`, is missing without having been forgotten.
const BEGIN_FLUSHED: &str = begin!("FULL");
pub(super) const FLUSHED: i64 = 2;

/// The same for writes that need not survive a power failure. Level 1 writes to the log in order; the next level-2
/// commit flushes it.
const BEGIN_UNFLUSHED: &str = begin!("NORMAL");
pub(super) const UNFLUSHED: i64 = 1;

/// The database's clock: Unix milliseconds, one value for a whole statement.
macro_rules! now {
    () => {
        "CAST(round(unixepoch('subsec') * 1000) AS INTEGER)"
    };
}

/// The rows of `?1`: intent, payment, fence, and further values.
macro_rules! asked {
    () => {
        "asked AS MATERIALIZED (
    SELECT key AS place, unhex(value ->> 0) AS intent, value ->> 1 AS payment, value ->> 2 AS fence, value ->> 3 AS more
    FROM json_each(?1)
)"
    };
}

/// The row of the lease in the table.
macro_rules! held {
    ($table:literal) => {
        concat!($table, ".fence = asked.fence AND ", pair!($table))
    };
}

macro_rules! pair {
    ($table:literal) => {
        concat!($table, ".intent = asked.intent AND ", $table, ".payment = asked.payment")
    };
}

/// The purchase for a grant. The purchase of a begun settlement takes precedence.
macro_rules! purchase {
    () => {
        "COALESCE(other.purchase, begun.purchase, asked.purchase)"
    };
}

/// Looks at the records of claims. A forgotten sale that is still in the book counts as sold. `begun`: the settlement
/// that was begun for the intent; `other`: that of the payment, usually the same; `rival`: another payment's entry of
/// the purchase.
const LOOK: &str = concat!(
    "
WITH now (at) AS MATERIALIZED (SELECT ",
    now!(),
    "), asked AS MATERIALIZED (
    SELECT key AS place, unhex(value ->> 0) AS intent, value ->> 1 AS payment, value ->> 2 AS claim, value ->> 3 AS chain_id,
        unhex(value ->> 4) AS purchase
    FROM json_each(?1)
), memory AS MATERIALIZED (SELECT version FROM ledger_memory)
SELECT asked.claim, memory.version, mark.mark,
    own.consumed_at IS NOT NULL OR EXISTS (SELECT 1 FROM ledger_book AS book WHERE book.intent = asked.intent) AS bought,
    COALESCE((own.lease_until - now.at) * 1000,
        CASE WHEN EXISTS (SELECT 1 FROM ledger_book AS book WHERE book.intent = asked.intent) THEN 0 END),
    sale.consumed_at IS NOT NULL OR booked.fence IS NOT NULL,
    COALESCE((sale.lease_until - now.at) * 1000, CASE WHEN booked.fence IS NOT NULL THEN 0 END),
    sale.block_time,
    own.fence,
    sale.fence,
    COALESCE(other.intent <> asked.intent, 0) OR COALESCE(begun.payment <> asked.payment, 0),
    CASE WHEN begun.payment = asked.payment THEN begun.request END,
    begun.head,
    begun.tx_hash,
    ",
    purchase!(),
    ",
    rival.consumed_at IS NOT NULL,
    (rival.lease_until - now.at) * 1000,
    rival.fence,
    EXISTS (
        SELECT 1 FROM ledger_settling AS waiting
        WHERE waiting.purchase = ",
    purchase!(),
    " AND waiting.payment <> asked.payment AND waiting.intent <> asked.intent
    )
FROM asked CROSS JOIN now CROSS JOIN memory
LEFT JOIN ledger_sales AS own ON own.intent = asked.intent
LEFT JOIN ledger_sales AS sale ON sale.payment = asked.payment
LEFT JOIN ledger_marks AS mark ON mark.chain_id = asked.chain_id
LEFT JOIN ledger_settling AS begun ON begun.intent = asked.intent
LEFT JOIN ledger_settling AS other ON other.payment = asked.payment
LEFT JOIN ledger_sales AS rival ON rival.purchase = ",
    purchase!(),
    " AND rival.payment <> asked.payment
LEFT JOIN ledger_book AS booked ON booked.fence = (
    SELECT min(book.fence) FROM ledger_book AS book WHERE book.payment = asked.payment
)
ORDER BY asked.place"
);

/// Prolongs sales whose payments were mined again later: each row has the later block, and until when the sale is kept.
const PROLONG: &str = "
WITH later AS MATERIALIZED (
    SELECT value ->> 0 AS payment, value ->> 1 AS block_time, value ->> 2 AS block_number, value ->> 3 AS keep_until
    FROM json_each(?1)
)
UPDATE ledger_sales SET keep_until = max(ledger_sales.keep_until, later.keep_until),
    block_number = CASE WHEN later.block_time > ledger_sales.block_time THEN later.block_number
        ELSE ledger_sales.block_number END,
    block_time = max(ledger_sales.block_time, later.block_time)
FROM later WHERE ledger_sales.payment = later.payment AND ledger_sales.consumed_at IS NOT NULL";

/// Ends expired leases that are in the way, by fence.
const EXPIRE: &str =
    "DELETE FROM ledger_sales WHERE fence IN (SELECT value FROM json_each(?1)) AND consumed_at IS NULL";

/// The write that decides. Returns no row if another pair has the intent, the payment or the purchase.
///
/// A new fence is greater than every other and at least the clock in microseconds. So no fence is issued twice, even if
/// a power failure lost the last ones, which were not flushed.
const RESERVE: &str = concat!(
    "
WITH now (at) AS MATERIALIZED (SELECT ",
    now!(),
    "), last (fence) AS MATERIALIZED (
    SELECT max(now.at * 1000, COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'ledger_sales'), 0)) FROM now
)
INSERT INTO ledger_sales (fence, intent, payment, tx_hash, log_position, chain_id, reserved_at, resource, payer,
    recipient, token, amount, block_number, block_time, keep_until, lease_until, purchase)
SELECT last.fence + 1 + key, unhex(value ->> 0), value ->> 1, unhex(value ->> 2), value ->> 3, value ->> 4, now.at,
    value ->> 5, unhex(value ->> 6), unhex(value ->> 7), unhex(value ->> 8), value ->> 9, value ->> 10, value ->> 11,
    value ->> 12, now.at + (value ->> 13), unhex(value ->> 14)
FROM json_each(?1) CROSS JOIN now CROSS JOIN last
WHERE true
ON CONFLICT DO NOTHING
RETURNING fence, intent"
);

const RENEW: &str = concat!(
    "
WITH ",
    asked!(),
    "
UPDATE ledger_sales SET lease_until = asked.more + ",
    now!(),
    "
FROM asked WHERE ",
    held!("ledger_sales"),
    " AND ledger_sales.consumed_at IS NULL
RETURNING fence"
);

/// All sales of a transaction get one time, later than that of every earlier sale, so that no sale appears behind a
/// reader of the book. Sales more than an hour ahead of the clock do not count: the clock was set back.
const COMMIT: &str = concat!(
    "
WITH now (at) AS MATERIALIZED (SELECT ",
    now!(),
    "), moment (at) AS MATERIALIZED (
    SELECT max(now.at,
        1 + COALESCE((SELECT max(consumed_at) FROM ledger_sales WHERE consumed_at IS NOT NULL AND consumed_at < now.at + 3600000), 0),
        1 + COALESCE((SELECT max(consumed_at) FROM ledger_book WHERE consumed_at < now.at + 3600000), 0))
    FROM now
), ",
    asked!(),
    "
UPDATE ledger_sales SET consumed_at = moment.at
FROM asked CROSS JOIN moment WHERE ",
    held!("ledger_sales"),
    " AND ledger_sales.consumed_at IS NULL
RETURNING fence"
);

/// Records the settled transfer for leases whose payment was settled since the grant, before their commit.
const SETTLED: &str = "
WITH settled AS MATERIALIZED (
    SELECT unhex(value ->> 0) AS intent, value ->> 1 AS payment, value ->> 2 AS fence, unhex(value ->> 3) AS tx_hash,
        value ->> 4 AS log_position, value ->> 5 AS block_number, value ->> 6 AS block_time, value ->> 7 AS keep_until
    FROM json_each(?1)
)
UPDATE ledger_sales SET tx_hash = settled.tx_hash, log_position = settled.log_position,
    block_number = settled.block_number, block_time = settled.block_time,
    keep_until = max(ledger_sales.keep_until, settled.keep_until)
FROM settled WHERE ledger_sales.fence = settled.fence AND ledger_sales.intent = settled.intent
    AND ledger_sales.payment = settled.payment AND ledger_sales.consumed_at IS NULL";

/// Records the payer's maximum for leases that are committed with a charge: the amount that the grant wrote.
const ALLOWED: &str = "
INSERT INTO ledger_charges (payment, maximum)
SELECT sale.payment, sale.amount
FROM json_each(?1) CROSS JOIN ledger_sales AS sale ON sale.fence = value ->> 2 AND sale.intent = unhex(value ->> 0)
    AND sale.payment = value ->> 1 AND sale.consumed_at IS NULL
WHERE true
ON CONFLICT (payment) DO UPDATE SET maximum = excluded.maximum";

/// Records the charges of the same leases.
const CHARGED: &str = "
WITH charged AS MATERIALIZED (
    SELECT unhex(value ->> 0) AS intent, value ->> 1 AS payment, value ->> 2 AS fence, value ->> 3 AS amount
    FROM json_each(?1)
)
UPDATE ledger_sales SET amount = charged.amount
FROM charged WHERE ledger_sales.fence = charged.fence AND ledger_sales.intent = charged.intent
    AND ledger_sales.payment = charged.payment AND ledger_sales.consumed_at IS NULL";

const IS_COMMITTED: &str = concat!(
    "
WITH ",
    asked!(),
    "
SELECT sale.fence FROM asked CROSS JOIN ledger_sales AS sale ON ",
    held!("sale"),
    " WHERE sale.consumed_at IS NOT NULL"
);

/// Records settlements that are begun under held leases: intent, payment, chain, the request's digest, the head, the
/// transaction, and until when the record is kept. Each replaces the records of its payment and of its intent, and
/// belongs to its lease's purchase.
const SETTLING: &str = "
INSERT OR REPLACE INTO ledger_settling (intent, payment, chain_id, request, head, tx_hash, keep_until, purchase)
SELECT unhex(value ->> 0), value ->> 1, value ->> 2, unhex(value ->> 3), value ->> 4, unhex(value ->> 5), value ->> 6,
    (SELECT sale.purchase FROM ledger_sales AS sale WHERE sale.payment = value ->> 1)
FROM json_each(?1)";

/// Removes the records of settlements, under held leases.
const NOT_SETTLED: &str = concat!(
    "
WITH ",
    asked!(),
    "
DELETE FROM ledger_settling WHERE (intent, payment) IN (
    SELECT sale.intent, sale.payment FROM asked CROSS JOIN ledger_sales AS sale ON ",
    held!("sale"),
    " WHERE sale.consumed_at IS NULL
)"
);

/// Ends the settlements of sold intents and payments.
const END_SETTLING: &str = concat!(
    "
WITH ",
    asked!(),
    "
DELETE FROM ledger_settling
WHERE payment IN (SELECT payment FROM asked) OR intent IN (SELECT intent FROM asked)"
);

const RELEASE: &str = concat!(
    "
WITH ",
    asked!(),
    "
DELETE FROM ledger_sales WHERE fence IN (
    SELECT sale.fence FROM asked CROSS JOIN ledger_sales AS sale ON ",
    held!("sale"),
    " WHERE sale.consumed_at IS NULL
)
RETURNING fence"
);

/// Keeps one answer: intent, content, and how long it is kept; unless all answers would take more than `?4`. The
/// schema's triggers count 256 bytes in addition to each content.
const KEEP: &str = concat!(
    "INSERT INTO ledger_answers (intent, content, kept_until) SELECT ?1, ?2, ?3 + ",
    now!(),
    " FROM ledger_memory WHERE answers + 256 + length(?2) <= ?4
ON CONFLICT (intent) DO UPDATE SET content = excluded.content, kept_until = excluded.kept_until"
);

/// Whether the intent is consumed, and its kept answer.
const SOLD: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM ledger_sales WHERE intent = ?1 AND consumed_at IS NOT NULL),
    (SELECT content FROM ledger_answers WHERE intent = ?1 AND kept_until > ",
    now!(),
    ")"
);

/// The settlement that was begun for an intent, of any payment.
const BEGUN: &str = "SELECT payment, request, head, tx_hash FROM ledger_settling WHERE intent = ?1";

/// The sales of the chain `?4` that age keeps from coming back: their number, their fences, their latest block time;
/// and whether there are leases, answers and begun settlements to forget.
const FORGETTABLE: &str = concat!(
    "
SELECT count(*), json_group_array(fence), max(block_time),
    COALESCE((SELECT min(lease_until) FROM ledger_sales WHERE consumed_at IS NULL) < ",
    now!(),
    " - ?3, 0),
    COALESCE((SELECT min(kept_until) FROM ledger_answers) < ",
    now!(),
    ", 0),
    COALESCE((SELECT min(keep_until) FROM ledger_settling WHERE chain_id = ?4) < ?1, 0)
FROM (
    SELECT fence, block_time FROM ledger_sales WHERE consumed_at IS NOT NULL AND chain_id = ?4 AND keep_until < ?1
    ORDER BY keep_until LIMIT ?2
)"
);

const BOOK: &str = "
INSERT INTO ledger_book (fence, intent, payment, chain_id, tx_hash, log_position, resource, payer, recipient, token,
    amount, block_number, block_time, reserved_at, consumed_at)
SELECT fence, intent, payment, chain_id, tx_hash, log_position, resource, payer, recipient, token, amount,
    block_number, block_time, reserved_at, consumed_at
FROM ledger_sales WHERE fence IN (SELECT value FROM json_each(?1))";

/// Deletes answers with their sales.
const DROP_ANSWERS: &str = "
DELETE FROM ledger_answers WHERE intent IN (
    SELECT intent FROM ledger_sales WHERE fence IN (SELECT value FROM json_each(?1))
)";

const FORGET_SALES: &str = "DELETE FROM ledger_sales WHERE fence IN (SELECT value FROM json_each(?1))";

const FORGET_LEASES: &str = concat!(
    "
DELETE FROM ledger_sales WHERE fence IN (
    SELECT fence FROM ledger_sales WHERE consumed_at IS NULL AND lease_until < ",
    now!(),
    " - ?1
    ORDER BY lease_until LIMIT ?2
)"
);

/// Forgets settlements whose payments age keeps from coming back.
const FORGET_SETTLING: &str = "
DELETE FROM ledger_settling WHERE payment IN (
    SELECT payment FROM ledger_settling WHERE chain_id = ?3 AND keep_until < ?1 ORDER BY keep_until LIMIT ?2
)";

/// Deletes expired answers.
const FORGET_ANSWERS: &str = concat!(
    "
DELETE FROM ledger_answers WHERE intent IN (
    SELECT intent FROM ledger_answers WHERE kept_until < ",
    now!(),
    "
    ORDER BY kept_until LIMIT ?1
)"
);

/// The clock in microseconds, and the accounts of these ids. At least one row; an account that does not exist is null.
const ACCOUNTS: &str = concat!(
    "
SELECT ",
    now!(),
    " * 1000, account.id, account.record
FROM json_each(?1) AS asked LEFT JOIN ledger_accounts AS account ON account.id = unhex(asked.value)"
);

/// Writes the records of accounts: id, record, end.
const SET_ACCOUNTS: &str = "
INSERT OR REPLACE INTO ledger_accounts (id, record, expires)
SELECT unhex(value ->> 0), value ->> 1, value ->> 2 FROM json_each(?1)";

/// The same for claimable accounts: id, record, end, whether there is a debt, whether it is not closed.
const SET_CLAIMABLE: &str = "
INSERT OR REPLACE INTO ledger_accounts (id, record, expires, owed, claimable)
SELECT unhex(value ->> 0), value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?1)";

/// The clock in microseconds, and up to `?2` accounts of a list after the id `?1`.
macro_rules! list {
    ($list:literal) => {
        concat!(
            "SELECT ",
            now!(),
            " * 1000, id, record FROM ledger_accounts WHERE ",
            $list,
            " = 1 AND id > ?1 ORDER BY id LIMIT ?2"
        )
    };
}
const OWED: &str = list!("owed");
const CLAIMABLE: &str = list!("claimable");

/// Forgets accounts that expired longer ago than a number of microseconds.
const FORGET_ACCOUNTS: &str = concat!(
    "
DELETE FROM ledger_accounts WHERE id IN (
    SELECT id FROM ledger_accounts WHERE expires < ",
    now!(),
    " * 1000 - ?1
    ORDER BY expires LIMIT ?2
)"
);

const RAISE_OVER: &str = "UPDATE ledger_marks SET mark = max(mark, ?1) WHERE chain_id = ?2";

/// The version, if it is `?1`, and the mark of the chain `?2`.
const MARK: &str =
    "SELECT version, (SELECT mark FROM ledger_marks WHERE chain_id = ?2) FROM ledger_memory WHERE version = ?1";
const BEAT: &str = "UPDATE ledger_memory SET beats = beats + 1 WHERE version = ?1";
/// In each of these statements `?1` is the version, `?2` a chain and `?3` a time.
const START: &str = "INSERT INTO ledger_marks (chain_id, mark) SELECT ?2, ?3 FROM ledger_memory WHERE version = ?1
ON CONFLICT DO NOTHING";
const RAISE: &str = "UPDATE ledger_marks SET mark = max(mark, ?3)
WHERE chain_id = ?2 AND EXISTS (SELECT 1 FROM ledger_memory WHERE version = ?1)";
const LOWER: &str = "UPDATE ledger_marks SET mark = min(mark, ?3)
WHERE chain_id = ?2 AND EXISTS (SELECT 1 FROM ledger_memory WHERE version = ?1)";

/// The version, and the numbers of leases and sales.
const SIZE: &str = "
SELECT version, (SELECT count(*) FROM ledger_sales WHERE consumed_at IS NULL),
    (SELECT count(*) FROM ledger_sales WHERE consumed_at IS NOT NULL)
FROM ledger_memory";

/// Up to `?5` sales from `?1` until before `?2`; at the first moment only those whose payment comes after `?3`; only
/// those of the resource `?4`, if it is set. Reads remembered and forgotten sales, each by its index.
const PAGE: &str = "
SELECT told.*, refund.tx_hash, refund.noted_at, charge.maximum
FROM (
    SELECT * FROM (
        SELECT payment, resource, chain_id, tx_hash, log_position, payer, recipient, token, amount, block_number, block_time,
            consumed_at
        FROM ledger_sales
        WHERE consumed_at >= ?1 AND consumed_at < ?2 AND (consumed_at > ?1 OR payment > ?3)
            AND (?4 IS NULL OR resource = ?4)
        ORDER BY consumed_at, payment LIMIT ?5
    )
    UNION ALL
    SELECT * FROM (
        SELECT payment, resource, chain_id, tx_hash, log_position, payer, recipient, token, amount, block_number, block_time,
            consumed_at
        FROM ledger_book
        WHERE consumed_at >= ?1 AND consumed_at < ?2 AND (consumed_at > ?1 OR payment > ?3)
            AND (?4 IS NULL OR resource = ?4)
        ORDER BY consumed_at, payment LIMIT ?5
    )
) AS told
LEFT JOIN ledger_refunds AS refund ON refund.payment = told.payment
LEFT JOIN ledger_charges AS charge ON charge.payment = told.payment
ORDER BY told.consumed_at, told.payment LIMIT ?5";

/// Marks sales of this transaction that wait for their announcement.
const TO_ANNOUNCE: &str = concat!(
    "
WITH ",
    asked!(),
    "
INSERT INTO ledger_unannounced (payment, sold_at)
SELECT sale.payment, sale.consumed_at FROM asked CROSS JOIN ledger_sales AS sale ON ",
    held!("sale"),
    " WHERE sale.consumed_at IS NOT NULL
ON CONFLICT DO NOTHING"
);

/// Up to `?3` sales that wait for their announcement, after the time `?1` and the payment `?2`. The columns are those
/// of a page.
const UNANNOUNCED: &str = "
SELECT told.*, refund.tx_hash, refund.noted_at, charge.maximum
FROM (
    SELECT * FROM (
        SELECT sale.payment, resource, chain_id, tx_hash, log_position, payer, recipient, token, amount, block_number,
            block_time, consumed_at
        FROM ledger_unannounced AS waiting CROSS JOIN ledger_sales AS sale ON sale.payment = waiting.payment
        WHERE (waiting.sold_at, waiting.payment) > (?1, ?2) AND sale.consumed_at IS NOT NULL
        ORDER BY waiting.sold_at, waiting.payment LIMIT ?3
    )
    UNION ALL
    SELECT * FROM (
        SELECT book.payment, resource, chain_id, tx_hash, log_position, payer, recipient, token, amount, block_number,
            block_time, consumed_at
        FROM ledger_unannounced AS waiting CROSS JOIN ledger_book AS book ON book.payment = waiting.payment
        WHERE (waiting.sold_at, waiting.payment) > (?1, ?2)
        ORDER BY waiting.sold_at, waiting.payment LIMIT ?3
    )
) AS told
LEFT JOIN ledger_refunds AS refund ON refund.payment = told.payment
LEFT JOIN ledger_charges AS charge ON charge.payment = told.payment
ORDER BY told.consumed_at, told.payment LIMIT ?3";
const ANNOUNCED: &str = "DELETE FROM ledger_unannounced WHERE payment = ?1";

/// For each payment of `?1`, whether it is sold, and its refund.
const KNOWN: &str = "
WITH asked AS MATERIALIZED (SELECT key AS place, value AS payment FROM json_each(?1))
SELECT EXISTS (
        SELECT 1 FROM ledger_sales AS sale WHERE sale.payment = asked.payment AND sale.consumed_at IS NOT NULL
    ) OR EXISTS (SELECT 1 FROM ledger_book AS book WHERE book.payment = asked.payment),
    refund.tx_hash, refund.noted_at
FROM asked LEFT JOIN ledger_refunds AS refund ON refund.payment = asked.payment
ORDER BY asked.place";

const NOTE_REFUND: &str = concat!(
    "INSERT INTO ledger_refunds (payment, tx_hash, noted_at) VALUES (?1, ?2, ",
    now!(),
    ") ON CONFLICT DO NOTHING"
);
const REFUND: &str = "SELECT tx_hash FROM ledger_refunds WHERE payment = ?1";

/// Whether the ledger's tables exist.
const IS_THERE: &str = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'ledger_memory')";
const VERSION: &str = "SELECT version FROM ledger_memory";
const REVISION: &str = "SELECT revision FROM ledger_memory";
const REACHED: &str = "UPDATE ledger_memory SET version = ?1, revision = ?2";

/// A statement with its prefix.
pub(super) struct Text(Arc<str>);

impl Text {
    /// Made of the constants here and a checked prefix, without outside input.
    pub(super) fn sql(&self) -> AssertSqlSafe<Arc<str>> {
        AssertSqlSafe(Arc::clone(&self.0))
    }
}

macro_rules! statements {
    ($($name:ident: $text:ident),* $(,)?) => {
        /// All statements with one prefix.
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
    begin_flushed: BEGIN_FLUSHED, begin_unflushed: BEGIN_UNFLUSHED, look: LOOK, prolong: PROLONG, expire: EXPIRE, reserve: RESERVE,
    renew: RENEW, settling: SETTLING, not_settled: NOT_SETTLED, end_settling: END_SETTLING, forget_settling: FORGET_SETTLING, settled: SETTLED, allowed: ALLOWED, charged: CHARGED, commit: COMMIT, is_committed: IS_COMMITTED, release: RELEASE,
    keep: KEEP, sold: SOLD, begun: BEGUN, forgettable: FORGETTABLE, book: BOOK, drop_answers: DROP_ANSWERS,
    forget_sales: FORGET_SALES, forget_leases: FORGET_LEASES,
    forget_answers: FORGET_ANSWERS, raise_over: RAISE_OVER, mark: MARK, beat: BEAT,
    start: START, raise: RAISE, lower: LOWER, size: SIZE,
    accounts: ACCOUNTS, set_accounts: SET_ACCOUNTS, set_claimable: SET_CLAIMABLE, owed: OWED, claimable: CLAIMABLE, forget_accounts: FORGET_ACCOUNTS,
    page: PAGE, to_announce: TO_ANNOUNCE, unannounced: UNANNOUNCED, announced: ANNOUNCED, known: KNOWN, note_refund: NOTE_REFUND, refund: REFUND, is_there: IS_THERE, version: VERSION, revision: REVISION, reached: REACHED,
}

impl Statements {
    /// A migration step with the prefix.
    pub(super) fn step(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace(PREFIX, &self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Connection as _, Row as _, SqliteConnection};

    use super::*;

    /// Checks the tables of sales and the book; only the ledger's own row and a claim's few wishes may be scanned.
    #[tokio::test]
    async fn no_statement_reads_a_table_from_end_to_end() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        for step in STEPS {
            sqlx::raw_sql(step).execute(&mut connection).await.unwrap();
        }
        let (_, last_of_begin) = BEGIN_FLUSHED.rsplit_once("; ").unwrap();
        for statement in [
            last_of_begin,
            LOOK,
            PROLONG,
            EXPIRE,
            RESERVE,
            RENEW,
            SETTLING,
            NOT_SETTLED,
            END_SETTLING,
            FORGET_SETTLING,
            SETTLED,
            ALLOWED,
            CHARGED,
            COMMIT,
            IS_COMMITTED,
            RELEASE,
            KEEP,
            SOLD,
            BEGUN,
            FORGETTABLE,
            BOOK,
            DROP_ANSWERS,
            FORGET_SALES,
            FORGET_LEASES,
            FORGET_ANSWERS,
            PAGE,
            TO_ANNOUNCE,
            UNANNOUNCED,
            ANNOUNCED,
            KNOWN,
            NOTE_REFUND,
            REFUND,
            ACCOUNTS,
            SET_ACCOUNTS,
            SET_CLAIMABLE,
            OWED,
            CLAIMABLE,
            FORGET_ACCOUNTS,
        ] {
            let plan = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {statement}"));
            for line in sqlx::raw_sql(plan).fetch_all(&mut connection).await.unwrap() {
                let line: String = line.get("detail");
                let scans = [
                    "own",
                    "sale",
                    "book",
                    "booked",
                    "ledger_sales",
                    "ledger_book",
                    "ledger_answers",
                    "ledger_refunds",
                    "ledger_charges",
                    "charge",
                    "ledger_settling",
                    "begun",
                    "other",
                    "rival",
                    "waiting",
                    "refund",
                    "account",
                    "ledger_accounts",
                ];
                assert!(
                    !scans.iter().any(|table| format!("{line} ").starts_with(&format!("SCAN {table} "))),
                    "{line}{statement}"
                );
            }
        }
    }
}
