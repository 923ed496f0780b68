//! What PostgreSQL is asked, in full. Each statement finds its rows by an index.
//!
//! Every question is one message: a transaction of its own, values included, begun and committed. So it is one round
//! trip; it sets nothing on the session and leaves no statement behind, whose name another client might have behind a
//! pooler; and it depends on no default of the server's. `$1` to `$4` are intent, transaction, position and chain
//! wherever there is a pair.

use std::{fmt::Write as _, time::Duration};

use sqlx::AssertSqlSafe;

/// What stands for the prefix in the texts below.
pub(super) const PREFIX: &str = "ledger_";

/// What brings the schema from each version to the next.
pub(super) const STEPS: [&str; 2] = [include_str!("schema.sql"), include_str!("schema_2.sql")];

const RESERVE: &str = "SELECT * FROM ledger_reserve($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)";
const GRANT: &str = "SELECT * FROM ledger_grant($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)";
const COMMIT: &str = "SELECT ledger_commit($1, $2, $3, $4, $5)";
const SWEEP: &str = "SELECT * FROM ledger_sweep($1, $2, $3, $4, $5)";

const RENEW: &str = "
UPDATE ledger_sales SET lease_until = clock_timestamp() + $6 * interval '1 microsecond'
WHERE intent = $1 AND tx_hash = $2 AND log_position = $3 AND chain_id = $4 AND fence = $5 AND consumed_at IS NULL
RETURNING true";

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
WHERE tx_hash = $2 AND log_position = $3 AND chain_id = $4 AND consumed_at IS NOT NULL";

const IS_CONSUMED: &str = "SELECT EXISTS (SELECT FROM ledger_sales WHERE intent = $1 AND consumed_at IS NOT NULL)";

// `$1` is the version, in each of these.
const MARK: &str = "SELECT version, mark FROM ledger_memory WHERE version = $1 AND revision >= 2";
const HEALTH: &str =
    "UPDATE ledger_memory SET version = version WHERE version = $1 AND revision >= 2 RETURNING version, mark";
const START: &str =
    "UPDATE ledger_memory SET mark = COALESCE(mark, $2) WHERE version = $1 AND revision >= 2 RETURNING version, mark";
const RAISE: &str =
    "UPDATE ledger_memory SET mark = GREATEST(mark, $2) WHERE version = $1 AND revision >= 2 RETURNING version, mark";
const LOWER: &str =
    "UPDATE ledger_memory SET mark = LEAST(mark, $2) WHERE version = $1 AND revision >= 2 RETURNING version, mark";

/// Whether there is a schema. `$1` is its first table.
const IS_THERE: &str = "SELECT to_regclass($1) IS NOT NULL";
/// Version and revision; the first one did not know of revisions.
const VERSIONS: &str = "
SELECT memory.version, COALESCE((to_jsonb(memory) ->> 'revision')::bigint, 1) FROM ledger_memory AS memory";
const REACHED: &str = "UPDATE ledger_memory SET version = $1, revision = $2";

/// Whether an answer waits until the disk has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flush {
    /// It does: a crash takes nothing back.
    Now,
    /// It does not: a crash may take it back, as if it had never been asked.
    Later,
}

/// A value as it stands in a statement. Nothing in it comes from outside but digits.
pub(super) struct Literal(String);

pub(super) fn bytes(value: &[u8]) -> Literal {
    Literal(format!("decode('{}', 'hex')", const_hex::encode(value)))
}

pub(super) fn text(value: &str) -> Literal {
    Literal(format!("convert_from({}, 'UTF8')", bytes(value.as_bytes()).0))
}

pub(super) fn whole(value: i64) -> Literal {
    Literal(format!("({value})::bigint"))
}

pub(super) fn numeric(value: crate::protocol::Amount) -> Literal {
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

/// One statement under its prefix.
pub(super) struct Text(String);

impl Text {
    fn filled(&self, values: &[Literal], into: &mut String) {
        let mut parts = self.0.split('$');
        into.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.len() - part.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
            let value = part.get(..digits).and_then(|number| number.parse::<usize>().ok());
            match value.and_then(|number| values.get(number.wrapping_sub(1))) {
                Some(value) => into.push_str(&value.0),
                // An error of the server's, rather than a statement that means something else.
                None => into.push('$'),
            }
            into.push_str(part.get(digits..).unwrap_or_default());
        }
    }
}

macro_rules! statements {
    ($($name:ident: $text:ident),* $(,)?) => {
        /// Every statement under one prefix.
        pub(super) struct Statements {
            $(pub(super) $name: Text,)*
            pub(super) prefix: Box<str>,
            pub(super) schema: Option<Box<str>>,
        }

        impl Statements {
            /// Prefix and schema are checked: they stand in a statement as they are.
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
    reserve: RESERVE, grant: GRANT, commit: COMMIT, sweep: SWEEP, renew: RENEW, release: RELEASE, prolong: PROLONG,
    is_consumed: IS_CONSUMED, mark: MARK, health: HEALTH, start: START, raise: RAISE, lower: LOWER, is_there: IS_THERE,
    versions: VERSIONS, reached: REACHED,
}

impl Statements {
    /// The beginning of a transaction, whatever the database's defaults are.
    pub(super) fn opening(&self, flush: Flush, time_limit: Duration) -> String {
        let flush = if flush == Flush::Now { "on" } else { "off" };
        let limit = time_limit.as_millis().clamp(1, 1_000_000_000);
        let mut message = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = {flush}; \
             SET LOCAL statement_timeout = {limit}; "
        );
        if let Some(schema) = &self.schema {
            let _ = write!(message, "SET LOCAL search_path = \"{schema}\"; ");
        }
        message
    }

    /// One question as one message.
    pub(super) fn question(
        &self,
        flush: Flush,
        time_limit: Duration,
        text: &Text,
        values: &[Literal],
    ) -> AssertSqlSafe<String> {
        let mut message = self.opening(flush, time_limit);
        text.filled(values, &mut message);
        message.push_str("; COMMIT");
        AssertSqlSafe(message)
    }

    /// A statement of a transaction that goes on.
    pub(super) fn part(&self, text: &Text, values: &[Literal]) -> AssertSqlSafe<String> {
        let mut message = String::new();
        text.filled(values, &mut message);
        AssertSqlSafe(message)
    }

    /// A step of the schema under the prefix.
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
        let AssertSqlSafe(message) = statements.question(Flush::Later, Duration::from_secs(2), &asked, &values);
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
