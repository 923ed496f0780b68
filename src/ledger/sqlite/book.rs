//! The book: read on a reading connection, written by the writer.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sqlx::{Row as _, sqlite::SqliteRow};

use super::{
    super::{
        Announcements, BookedSale, KnownPayment, LedgerError, Refund, RefundOutcome, SalesBook, SalesQuery,
        sql::{BOOK_TIME, SaleRow, compatible, failed, hash, in_time, not_before},
    },
    codes::ask,
    handle::SqliteLedger,
    question::{Answer, Question},
};
use crate::protocol::{PaymentId, TxHash};

/// SQLite's unit of time.
const MILLISECOND: Duration = Duration::from_millis(1);

impl SalesBook for SqliteLedger {
    async fn page(
        &self,
        query: &SalesQuery,
        after: Option<&BookedSale>,
        most: usize,
    ) -> Result<Vec<BookedSale>, LedgerError> {
        self.is_current().await?;
        let since = not_before(after.map_or(query.start(), |last| last.sold_at), MILLISECOND);
        let until = query.end().map_or(i64::MAX, |end| not_before(end, MILLISECOND));
        let behind = after.map(|last| last.payment.to_string()).unwrap_or_default();
        let question = || {
            let question = sqlx::query(self.statements.page.sql()).bind(since).bind(until).bind(behind.clone());
            let question = question.bind(query.of_resource().map(str::to_owned));
            question.bind(i64::try_from(most).unwrap_or(i64::MAX)).fetch_all(&self.readers)
        };
        let rows = in_time(self.time_limit.max(BOOK_TIME), ask(question)).await?;
        rows.iter().map(sale).collect()
    }

    async fn known(&self, payments: &[PaymentId]) -> Result<Vec<KnownPayment>, LedgerError> {
        self.is_current().await?;
        let texts: Vec<_> = payments.iter().map(PaymentId::to_string).collect();
        let texts = serde_json::to_string(&texts).map_err(|_| LedgerError::unavailable())?;
        let question = || sqlx::query(self.statements.known.sql()).bind(texts.clone()).fetch_all(&self.readers);
        let rows = in_time(self.time_limit.max(BOOK_TIME), ask(question)).await?;
        rows.iter().map(|row| Ok(KnownPayment::new(get(row, 0)?, refund(row, 1)?))).collect()
    }

    async fn note_refund(&self, payment: PaymentId, transaction: TxHash) -> Result<RefundOutcome, LedgerError> {
        self.is_current().await?;
        match self.ask(Question::Refund(payment, transaction)).await? {
            Answer::Refunded(outcome) => Ok(outcome),
            _ => Err(LedgerError::unavailable()),
        }
    }
}

impl Announcements for SqliteLedger {
    async fn unannounced(&self, after: Option<&BookedSale>, most: usize) -> Result<Vec<BookedSale>, LedgerError> {
        self.is_current().await?;
        let since = after.map_or(i64::MIN, |last| not_before(last.sold_at, MILLISECOND));
        let behind = after.map(|last| last.payment.to_string()).unwrap_or_default();
        let question = || {
            let question = sqlx::query(self.statements.unannounced.sql()).bind(since).bind(behind.clone());
            question.bind(i64::try_from(most).unwrap_or(i64::MAX)).fetch_all(&self.readers)
        };
        let rows = in_time(self.time_limit.max(BOOK_TIME), ask(question)).await?;
        rows.iter().map(sale).collect()
    }

    async fn announced(&self, payment: PaymentId) -> Result<(), LedgerError> {
        self.ask(Question::Announced(payment)).await.map(drop)
    }
}

impl SqliteLedger {
    /// Checks that the tables have this version, since they may not have been migrated.
    pub(super) async fn is_current(&self) -> Result<(), LedgerError> {
        if !self.queue.home().is_sound() {
            return Err(LedgerError::unavailable());
        }
        let question = || sqlx::query_scalar(self.statements.version.sql()).fetch_optional(&self.readers);
        compatible(in_time(self.time_limit, ask(question)).await?)
    }
}

fn get<'r, T>(row: &'r SqliteRow, column: usize) -> Result<T, LedgerError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(column).map_err(|error| failed(&error))
}

fn moment(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

/// Decodes a refund from two columns, starting at this one.
fn refund(row: &SqliteRow, column: usize) -> Result<Option<Refund>, LedgerError> {
    let transaction: Option<Vec<u8>> = get(row, column)?;
    let Some(transaction) = transaction else { return Ok(None) };
    Ok(Some(Refund::new(hash(transaction)?, moment(get(row, column + 1)?))))
}

fn sale(row: &SqliteRow) -> Result<BookedSale, LedgerError> {
    let row = SaleRow {
        payment: get(row, 0)?,
        resource: get(row, 1)?,
        chain_id: get(row, 2)?,
        transaction: get(row, 3)?,
        payer: get(row, 5)?,
        recipient: get(row, 6)?,
        token: get(row, 7)?,
        amount: get(row, 8)?,
        block_number: get(row, 9)?,
        block_time: get(row, 10)?,
        sold_at: moment(get(row, 11)?),
        refund: refund(row, 12)?,
        maximum: get(row, 14)?,
    };
    row.read()
}
