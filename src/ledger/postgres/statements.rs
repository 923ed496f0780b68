//! The full text of PostgreSQL's statements. Each statement finds its rows by an index.
//!
//! Every question is one message: a transaction of its own, with its values, from `BEGIN` to `COMMIT`. So it takes one
//! round trip. It sets nothing on the session, leaves no named statement behind, which could clash with another
//! client's behind a pooler, and depends on no default of the server. `$1` and `$2` are intent and payment in every
//! statement on a pair.
//!
//! Only the commit that keeps an answer takes more round trips. Answers are buyers' data and must not be in a
//! statement's text, which servers and drivers log. The answer goes as a parameter of an unnamed statement, inside the
//! transaction.

use std::{fmt::Write as _, time::Duration};

use sqlx::AssertSqlSafe;

use super::super::{
    last_sale::Recorded,
    sql::{chain, seconds},
};
use crate::protocol::{Amount, PaymentId};

/// The placeholder for the prefix in the texts below.
pub(super) const PREFIX: &str = "ledger_";

/// The migrations of the schema from each revision to the next.
pub(super) const STEPS: [&str; 6] = [
    include_str!("schema.sql"),
    include_str!("accounts.sql"),
    include_str!("knows.sql"),
    include_str!("charges.sql"),
    include_str!("claims.sql"),
    include_str!("reserve.sql"),
];

const RESERVE: &str = "SELECT * FROM ledger_reserve($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)";
const GRANT: &str = "
SELECT g_fence, g_mark, g_booked, g_barred, encode(g_request, 'hex'), g_head, encode(g_hash, 'hex'), g_expired
FROM ledger_grant($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";

/// Shows, while the transaction is open, that a sale is being recorded, and since when: by an advisory lock whose name
/// has the clock's milliseconds, as far as its bits suffice. The clock is read before the sale gets its time. Commits
/// share the lock, so none waits for another.
macro_rules! committing {
    ($commit:literal) => {
        concat!(
            "SELECT ",
            $commit,
            " FROM (
    SELECT pg_advisory_xact_lock_shared('ledger_sales'::regclass::oid::int,
        (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint & 2147483647)::int)
) AS committing"
        )
    };
}

/// Commits a sale, with the transfer that settled the payment since the reservation, if any.
const COMMIT: &str = committing!("ledger_commit($1, $2, $3, $4, $5, $6, $7, $8)");
/// The same, for a sale that waits for its announcement.
const COMMIT_TO_ANNOUNCE: &str = committing!("ledger_commit_to_announce($1, $2, $3, $4, $5, $6, $7, $8)");

/// Either, for a sale that is recorded with a charge.
const COMMIT_CHARGE: &str = committing!("ledger_commit_charge($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)");

/// The moment before which every sale is visible, in microseconds: the beginning of the longest open commit, or else
/// `$1`, an earlier reading of the server's clock. A lock is released once its transaction is visible. A lock with a
/// time after `$1` was taken later: its sale gets a time after `$1`.
const COMPLETE_UNTIL: &str = "
SELECT COALESCE(($1 / 1000 - max(open.age) FILTER (WHERE open.age < 1073741824)) * 1000, $1)
FROM (
    SELECT (($1 / 1000 & 2147483647) - objid::bigint + 2147483648) % 2147483648 AS age
    FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 'ledger_sales'::regclass::oid AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
) AS open";
const SWEEP: &str = "SELECT * FROM ledger_sweep($1, $2, $3, $4)";

/// Replaces an answer that a forgotten sale of this intent left behind.
const KEEP: &str = "
INSERT INTO ledger_answers (intent, kept_until, content)
VALUES ($1, clock_timestamp() + $2::bigint * interval '1 microsecond', $3)
ON CONFLICT (intent) DO UPDATE SET kept_until = EXCLUDED.kept_until, content = EXCLUDED.content";

/// The size of all kept answers, in bytes.
const ANSWER_BYTES: &str = "SELECT COALESCE(sum(octet_length(content) + 256), 0)::bigint FROM ledger_answers";

const RENEW: &str = "
UPDATE ledger_sales SET lease_until = clock_timestamp() + $4 * interval '1 microsecond'
WHERE intent = $1 AND payment = $2 AND fence = $3 AND consumed_at IS NULL
RETURNING true";

const SETTLING: &str = "SELECT ledger_settle($1, $2, $3, $4, $5, $6, $7, $8, $9)";
const NOT_SETTLED: &str = "
DELETE FROM ledger_settling AS begun
WHERE begun.intent = $1 AND begun.payment = $2 AND EXISTS (
    SELECT FROM ledger_sales AS sale
    WHERE sale.intent = $1 AND sale.payment = $2 AND sale.fence = $3 AND sale.consumed_at IS NULL
)
RETURNING true";

const RELEASE: &str = "
WITH freed AS (
    DELETE FROM ledger_sales
    WHERE intent = $1 AND payment = $2 AND fence = $3 AND consumed_at IS NULL
    RETURNING true
)
SELECT count(*) FROM freed";

/// Keeps a sale according to a later block time.
const PROLONG: &str = "
UPDATE ledger_sales SET block_time = GREATEST(block_time, $3), keep_until = GREATEST(keep_until, $4)
WHERE payment = $2 AND consumed_at IS NOT NULL";

/// Whether the intent is consumed, and its kept answer, in an encoding that no setting of the server changes.
const SOLD: &str = "
SELECT EXISTS (SELECT FROM ledger_sales WHERE intent = $1 AND consumed_at IS NOT NULL),
    (SELECT encode(content, 'hex') FROM ledger_answers WHERE intent = $1 AND kept_until > clock_timestamp())";

/// The settlement that was begun for an intent, of any payment, in the same encoding.
const BEGUN: &str = "
SELECT payment, encode(request, 'hex'), head, encode(tx_hash, 'hex') FROM ledger_settling WHERE intent = $1";

const HEALTH: &str = "UPDATE ledger_memory SET version = version WHERE version = $1 RETURNING version, NULL::bigint";
// In each of these statements `$1` is the version, `$2` a chain, and `$3` a time. A chain on which the ledger has not
// begun has no mark.
const MARK: &str = "
SELECT version, (SELECT mark FROM ledger_marks WHERE chain_id = $2) FROM ledger_memory WHERE version = $1";
const START: &str = "
WITH told AS (
    INSERT INTO ledger_marks AS begun (chain_id, mark) SELECT $2, $3 FROM ledger_memory WHERE version = $1
    ON CONFLICT (chain_id) DO UPDATE SET mark = begun.mark
    RETURNING mark
)
SELECT version, (SELECT mark FROM told) FROM ledger_memory WHERE version = $1";
const RAISE: &str = "
WITH told AS (
    UPDATE ledger_marks SET mark = GREATEST(mark, $3)
    WHERE chain_id = $2 AND EXISTS (SELECT FROM ledger_memory WHERE version = $1)
    RETURNING mark
)
SELECT version, (SELECT mark FROM told) FROM ledger_memory WHERE version = $1";
const LOWER: &str = "
WITH told AS (
    UPDATE ledger_marks SET mark = LEAST(mark, $3)
    WHERE chain_id = $2 AND EXISTS (SELECT FROM ledger_memory WHERE version = $1)
    RETURNING mark
)
SELECT version, (SELECT mark FROM told) FROM ledger_memory WHERE version = $1";
/// The version, and the numbers of leases and sales.
const SIZE: &str = "
SELECT version, (SELECT count(*) FROM ledger_sales WHERE consumed_at IS NULL),
    (SELECT count(*) FROM ledger_sales WHERE consumed_at IS NOT NULL)
FROM ledger_memory";

/// Up to `$5` sales from `$1` until before `$2`, in microseconds; at the first moment only those whose payment comes
/// after `$3`; only those of the resource `$4`, if it is set. Reads remembered and forgotten sales, each by its index.
const PAGE: &str = "
SELECT sale.payment, sale.resource, sale.chain_id, encode(sale.tx_hash, 'hex'), sale.log_position,
    encode(sale.payer, 'hex'), encode(sale.recipient, 'hex'), encode(sale.token, 'hex'), sale.amount::text, sale.block_number,
    sale.block_time, (extract(epoch FROM sale.consumed_at) * 1000000)::bigint, encode(refund.tx_hash, 'hex'),
    (extract(epoch FROM refund.noted_at) * 1000000)::bigint, charge.maximum::text
FROM (
    (
        SELECT payment, resource, chain_id, tx_hash, log_position, payer, recipient, token, amount, block_number, block_time,
            consumed_at
        FROM ledger_sales
        WHERE consumed_at >= timestamptz 'epoch' + $1 * interval '1 microsecond'
            AND consumed_at < timestamptz 'epoch' + $2 * interval '1 microsecond'
            AND (consumed_at > timestamptz 'epoch' + $1 * interval '1 microsecond' OR payment > $3)
            AND ($4 IS NULL OR resource = $4)
        ORDER BY consumed_at, payment LIMIT $5
    )
    UNION ALL
    (
        SELECT payment, resource, chain_id, tx_hash, log_position, payer, recipient, token, amount, block_number, block_time,
            consumed_at
        FROM ledger_book
        WHERE consumed_at >= timestamptz 'epoch' + $1 * interval '1 microsecond'
            AND consumed_at < timestamptz 'epoch' + $2 * interval '1 microsecond'
            AND (consumed_at > timestamptz 'epoch' + $1 * interval '1 microsecond' OR payment > $3)
            AND ($4 IS NULL OR resource = $4)
        ORDER BY consumed_at, payment LIMIT $5
    )
) AS sale
LEFT JOIN ledger_refunds AS refund ON refund.payment = sale.payment
LEFT JOIN ledger_charges AS charge ON charge.payment = sale.payment
ORDER BY sale.consumed_at, sale.payment LIMIT $5";

/// Up to `$3` sales that wait for their announcement, after the time `$1`, in microseconds, and the payment `$2`. The
/// columns are those of a page.
const UNANNOUNCED: &str = "
SELECT sale.payment, sale.resource, sale.chain_id, encode(sale.tx_hash, 'hex'), sale.log_position,
    encode(sale.payer, 'hex'), encode(sale.recipient, 'hex'), encode(sale.token, 'hex'), sale.amount::text, sale.block_number,
    sale.block_time, (extract(epoch FROM sale.consumed_at) * 1000000)::bigint, encode(refund.tx_hash, 'hex'),
    (extract(epoch FROM refund.noted_at) * 1000000)::bigint, charge.maximum::text
FROM (
    (
        SELECT sale.payment, resource, chain_id, tx_hash, log_position, payer, recipient, token, amount, block_number, block_time,
            consumed_at
        FROM ledger_unannounced AS waiting JOIN ledger_sales AS sale ON sale.payment = waiting.payment
        WHERE (waiting.sold_at, waiting.payment) > (timestamptz 'epoch' + $1 * interval '1 microsecond', $2)
            AND sale.consumed_at IS NOT NULL
        ORDER BY waiting.sold_at, waiting.payment LIMIT $3
    )
    UNION ALL
    (
        SELECT book.payment, resource, chain_id, tx_hash, log_position, payer, recipient, token, amount, block_number, block_time,
            consumed_at
        FROM ledger_unannounced AS waiting JOIN ledger_book AS book ON book.payment = waiting.payment
        WHERE (waiting.sold_at, waiting.payment) > (timestamptz 'epoch' + $1 * interval '1 microsecond', $2)
        ORDER BY waiting.sold_at, waiting.payment LIMIT $3
    )
) AS sale
LEFT JOIN ledger_refunds AS refund ON refund.payment = sale.payment
LEFT JOIN ledger_charges AS charge ON charge.payment = sale.payment
ORDER BY sale.consumed_at, sale.payment LIMIT $3";
const ANNOUNCED: &str = "DELETE FROM ledger_unannounced WHERE payment = $1 RETURNING true";

/// For each payment of `$1`, whether it is sold, and its refund.
const KNOWN: &str = "
SELECT EXISTS (SELECT FROM ledger_sales AS sale WHERE sale.payment = asked.payment AND sale.consumed_at IS NOT NULL)
        OR (SELECT true FROM ledger_book AS book WHERE book.payment = asked.payment LIMIT 1) IS NOT NULL,
    encode(refund.tx_hash, 'hex'), (extract(epoch FROM refund.noted_at) * 1000000)::bigint
FROM unnest($1) WITH ORDINALITY AS asked (payment, place)
LEFT JOIN ledger_refunds AS refund ON refund.payment = asked.payment
ORDER BY asked.place";

/// Whether the refund is newly noted, or else the earlier note. No row: another process is noting one at this moment.
const NOTE_REFUND: &str = "
WITH noted AS (
    INSERT INTO ledger_refunds (payment, tx_hash) VALUES ($1, $2) ON CONFLICT (payment) DO NOTHING RETURNING true
)
SELECT EXISTS (SELECT FROM noted), (SELECT encode(tx_hash, 'hex') FROM ledger_refunds WHERE payment = $1)";

/// Fails the transaction unless the sale `$1` of the fence `$2` is known, or the mark of its chain `$4` has reached its
/// time `$3`.
const KNOWS: &str = "CALL ledger_knows($1, $2, $3, $4); ";
/// The error code of `KNOWS`.
pub(super) const UNKNOWN: &str = "X4020";

/// The clock in microseconds, and version and record of the account `$1`, if it exists.
const ACCOUNT: &str = "
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, version, record
FROM (SELECT) AS one LEFT JOIN ledger_accounts ON id = $1";
const NEW_ACCOUNT: &str = "
INSERT INTO ledger_accounts (id, version, record, expires)
VALUES ($1, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $2, $3)
ON CONFLICT DO NOTHING RETURNING true";
/// Updates the account if its version is still `$4`.
const SET_ACCOUNT: &str = "
UPDATE ledger_accounts SET version = version + 1, record = $2, expires = $3 WHERE id = $1 AND version = $4 RETURNING true";
/// The same for a claimable account: `$4` is whether there is a debt, and `$5` whether it is not closed.
const NEW_CLAIMABLE: &str = "
INSERT INTO ledger_accounts (id, version, record, expires, owed, claimable)
VALUES ($1, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, $2, $3, $4, $5)
ON CONFLICT DO NOTHING RETURNING true";
/// Updates the account if its version is still `$6`.
const SET_CLAIMABLE: &str = "
UPDATE ledger_accounts SET version = version + 1, record = $2, expires = $3, owed = $4, claimable = $5
WHERE id = $1 AND version = $6 RETURNING true";
/// The clock in microseconds, and up to `$2` accounts of a list after the id `$1`.
const OWED: &str = "
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, encode(id, 'hex'), record
FROM ledger_accounts WHERE owed AND id > $1 ORDER BY id LIMIT $2";
const CLAIMABLE: &str = "
SELECT floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, encode(id, 'hex'), record
FROM ledger_accounts WHERE claimable AND id > $1 ORDER BY id LIMIT $2";
/// Forgets up to `$2` accounts that expired more than `$1` microseconds ago; returns how many.
const FORGET_ACCOUNTS: &str = "
WITH gone AS (
    DELETE FROM ledger_accounts WHERE id IN (
        SELECT id FROM ledger_accounts
        WHERE expires < floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint - $1
        ORDER BY expires LIMIT $2
    ) RETURNING 1
) SELECT count(*) FROM gone";

/// Whether the schema exists. `$1` is its first table.
const IS_THERE: &str = "SELECT to_regclass($1) IS NOT NULL";
const VERSION: &str = "SELECT version FROM ledger_memory";
const REVISION: &str = "SELECT revision FROM ledger_memory";
/// The version of the schema, and the server's clock in microseconds.
const SCHEMA_IS: &str = "
SELECT version, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint FROM ledger_memory";
const REACHED: &str = "UPDATE ledger_memory SET version = $1, revision = $2";

/// How long a batch of questions waits for a row that another transaction has locked.
const LOCKED: Duration = Duration::from_millis(100);

/// Whether an answer waits for the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// Waits for the disk: a crash undoes nothing.
    Now,
    /// Does not wait: a crash may undo the question, as if it had never been asked.
    Later,
}

/// A value in a statement. Outside input reaches it only as digits.
pub(super) struct Literal(String);

pub(super) fn bytes(value: &[u8]) -> Literal {
    Literal(format!("decode('{}', 'hex')", const_hex::encode(value)))
}

/// Consists of lower-case letters, digits, `:` and `/` only.
pub(super) fn payment(id: PaymentId) -> Literal {
    Literal(format!("'{id}'::text"))
}

pub(super) fn text(value: &str) -> Literal {
    Literal(format!("convert_from({}, 'UTF8')", bytes(value.as_bytes()).0))
}

pub(super) fn whole(value: i64) -> Literal {
    Literal(format!("({value})::bigint"))
}

pub(super) fn numeric(value: Amount) -> Literal {
    let digits: String = value.to_string().chars().filter(char::is_ascii_digit).collect();
    Literal(format!("{digits}::numeric"))
}

pub(super) fn flag(value: bool) -> Literal {
    Literal(value.to_string())
}

pub(super) fn null(of: &str) -> Literal {
    Literal(format!("NULL::{of}"))
}

pub(super) fn array(values: impl Iterator<Item = Literal>, of: &str) -> Literal {
    let values: Vec<_> = values.map(|value| value.0).collect();
    Literal(format!("ARRAY[{}]::{of}[]", values.join(", ")))
}

/// A statement with its prefix.
pub(super) struct Text(String);

impl Text {
    /// Returns a statement that takes no values.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    fn filled(&self, values: &[Literal], into: &mut String) {
        let mut parts = self.0.split('$');
        into.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.len() - part.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
            let value = part.get(..digits).and_then(|number| number.parse::<usize>().ok());
            match value.and_then(|number| values.get(number.wrapping_sub(1))) {
                Some(value) => into.push_str(&value.0),
                // The server reports an error, rather than run a statement with another meaning.
                None => into.push('$'),
            }
            into.push_str(part.get(digits..).unwrap_or_default());
        }
    }
}

macro_rules! statements {
    ($($name:ident: $text:ident),* $(,)?) => {
        /// All statements with one prefix.
        pub(super) struct Statements {
            $(pub(super) $name: Text,)*
            pub(super) prefix: Box<str>,
            pub(super) schema: Option<Box<str>>,
        }

        impl Statements {
            /// Prefix and schema must be checked before, since they are put into statements as they are.
            pub(super) fn new(prefix: &str, schema: Option<&str>) -> Self {
                Self {
                    $($name: Text($text.replace(PREFIX, prefix)),)*
                    prefix: prefix.into(),
                    schema: schema.map(Into::into),
                }
            }
        }
    };
}

statements! {
    reserve: RESERVE, grant: GRANT, commit: COMMIT, commit_to_announce: COMMIT_TO_ANNOUNCE, commit_charge: COMMIT_CHARGE, unannounced: UNANNOUNCED, announced: ANNOUNCED, keep: KEEP, answer_bytes: ANSWER_BYTES, sweep: SWEEP, renew: RENEW, settling: SETTLING, not_settled: NOT_SETTLED, release: RELEASE, prolong: PROLONG,
    sold: SOLD, begun: BEGUN, mark: MARK, health: HEALTH, start: START, raise: RAISE, lower: LOWER,
    account: ACCOUNT, new_account: NEW_ACCOUNT, set_account: SET_ACCOUNT, forget_accounts: FORGET_ACCOUNTS,
    new_claimable: NEW_CLAIMABLE, set_claimable: SET_CLAIMABLE, owed: OWED, claimable: CLAIMABLE,
    size: SIZE, page: PAGE, known: KNOWN, note_refund: NOTE_REFUND, schema_is: SCHEMA_IS, complete_until: COMPLETE_UNTIL, knows: KNOWS, is_there: IS_THERE, version: VERSION, revision: REVISION, reached: REACHED,
}

/// The limit in milliseconds, at least 1: the server takes 0 for no limit.
fn millis(limit: Duration) -> u128 {
    limit.as_millis().clamp(1, 1_000_000_000)
}

impl Statements {
    /// The beginning of a transaction, independent of the database's defaults.
    pub(super) fn opening(&self, flush: Flush, time_limit: Duration) -> String {
        let flush = if flush == Flush::Now { "on" } else { "off" };
        let limit = millis(time_limit);
        let mut message = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = {flush}; \
             SET LOCAL statement_timeout = {limit}; "
        );
        if let Some(schema) = &self.schema {
            let _ = write!(message, "SET LOCAL search_path = \"{schema}\"; ");
        }
        message
    }

    /// One question as one message. It fails if the server does not know one of the last sales.
    pub(super) fn question(
        &self,
        flush: Flush,
        time_limit: Duration,
        last: &[Recorded],
        text: &Text,
        values: &[Literal],
    ) -> AssertSqlSafe<String> {
        self.questions(flush, time_limit, last, &[(text, values)])
    }

    /// Several questions as one message, with the same condition. With more than one question it fails soon if a row is
    /// locked, since asked alone only one of them would wait.
    pub(super) fn questions(
        &self,
        flush: Flush,
        time_limit: Duration,
        last: &[Recorded],
        asked: &[(&Text, &[Literal])],
    ) -> AssertSqlSafe<String> {
        let mut message = self.opening(flush, time_limit);
        if asked.len() > 1 {
            let _ = write!(message, "SET LOCAL lock_timeout = {}; ", millis(LOCKED));
        }
        for &Recorded { payment: paid, fence, block_time } in last {
            let (fence, time, chain) = (fence.cast_signed(), seconds(block_time), chain(paid.network()));
            let sale = [payment(paid), whole(fence), whole(time), whole(chain)];
            self.knows.filled(&sale, &mut message);
        }
        for (text, values) in asked {
            text.filled(values, &mut message);
            message.push_str("; ");
        }
        message.push_str("COMMIT");
        AssertSqlSafe(message)
    }

    /// The first statement of a transaction that continues. The server ends an idle transaction after the time limit:
    /// otherwise a vanished client's locks would stay for as long as its connection seems alive.
    pub(super) fn beginning(
        &self,
        flush: Flush,
        time_limit: Duration,
        text: &Text,
        values: &[Literal],
    ) -> AssertSqlSafe<String> {
        let mut message = self.opening(flush, time_limit);
        let limit = millis(time_limit);
        let _ = write!(message, "SET LOCAL idle_in_transaction_session_timeout = {limit}; ");
        text.filled(values, &mut message);
        AssertSqlSafe(message)
    }

    /// A later statement of a transaction that continues.
    pub(super) fn part(&self, text: &Text, values: &[Literal]) -> AssertSqlSafe<String> {
        let mut message = String::new();
        text.filled(values, &mut message);
        AssertSqlSafe(message)
    }

    /// A migration step with the prefix.
    pub(super) fn step(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace(PREFIX, &self.prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_one_transaction_that_names_nothing() {
        let statements = Statements::new("a1_", Some("shop"));
        let values = [bytes(&[0xab]), whole(-5), text("it's"), flag(true)];
        let asked = Text("SELECT $4, $1 FROM x WHERE y = $2 AND z = $3".to_owned());
        let AssertSqlSafe(message) = statements.question(Flush::Later, Duration::from_secs(2), &[], &asked, &values);
        assert_eq!(
            message,
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = off; \
             SET LOCAL statement_timeout = 2000; SET LOCAL search_path = \"shop\"; \
             SELECT true, decode('ab', 'hex') FROM x WHERE y = (-5)::bigint \
             AND z = convert_from(decode('69742773', 'hex'), 'UTF8'); COMMIT"
        );
        assert!(statements.opening(Flush::Now, Duration::ZERO).contains("synchronous_commit = on; "));
    }
}
