//! The book, read and written in transactions of their own.

use std::time::{Duration, SystemTime};

use super::{
    super::{
        Announcements, BookedSale, KnownPayment, LedgerError, Refund, RefundOutcome, SalesBook, SalesQuery,
        sql::{BOOK_TIME, SaleRow, compatible, hash, in_time, moment, not_before},
    },
    connection::{Row, ask},
    handle::PostgresLedger,
    statements::{Flush, Literal, Text, array, bytes, null, payment, text, whole},
};
use crate::protocol::{PaymentId, TxHash};

/// PostgreSQL's unit of time.
const MICROSECOND: Duration = Duration::from_micros(1);
/// The latest moment in comparisons, in microseconds: the end of the year 9999.
const LAST: i64 = 253_402_300_799_999_999;
/// How often to look for a refund that another process noted at the same time.
const TRIES: usize = 8;

/// The columns of a sale: payment, resource, chain, transaction, position; payer, recipient, token, amount; the block's
/// number and time; the time of the sale; the refund and the time of its note; the payer's maximum.
type SaleColumns = (
    String,
    String,
    i64,
    String,
    i64,
    String,
    String,
    String,
    String,
    i64,
    i64,
    i64,
    Option<String>,
    Option<i64>,
    Option<String>,
);

impl SalesBook for PostgresLedger {
    async fn page(
        &self,
        query: &SalesQuery,
        after: Option<&BookedSale>,
        most: usize,
    ) -> Result<Vec<BookedSale>, LedgerError> {
        let since = not_before(after.map_or(query.start(), |last| last.sold_at), MICROSECOND).min(LAST);
        let until = query.end().map_or(LAST, |end| not_before(end, MICROSECOND).min(LAST));
        let behind = after.map_or_else(|| text(""), |last| payment(last.payment));
        let resource = query.of_resource().map_or_else(|| null("text"), text);
        let most = whole(i64::try_from(most).unwrap_or(i64::MAX));
        let limit = self.time_limit.max(BOOK_TIME);
        in_time(limit, async {
            let complete = [whole(self.is_current().await?)];
            let complete = self.one::<(i64,)>(Flush::Later, &self.statements.complete_until, &complete).await?;
            let (complete,) = complete.ok_or(LedgerError::unavailable())?;
            let values = [whole(since), whole(until.min(complete)), behind, resource, most];
            let rows = ask(|| self.rows_in::<SaleColumns>(limit, Flush::Later, &self.statements.page, &values)).await?;
            rows.into_iter().map(sale).collect()
        })
        .await
    }

    async fn known(&self, payments: &[PaymentId]) -> Result<Vec<KnownPayment>, LedgerError> {
        let payments = array(payments.iter().copied().map(payment), "text");
        let rows: Vec<(bool, Option<String>, Option<i64>)> =
            self.book_rows(Flush::Later, &self.statements.known, &[payments]).await?;
        rows.into_iter()
            .map(|(sold, transaction, noted)| Ok(KnownPayment::new(sold, refund(transaction, noted)?)))
            .collect()
    }

    async fn note_refund(&self, paid: PaymentId, transaction: TxHash) -> Result<RefundOutcome, LedgerError> {
        let values = || [payment(paid), bytes(transaction.as_bytes())];
        for _ in 0..TRIES {
            let rows: Vec<(bool, Option<String>)> =
                self.book_rows(Flush::Now, &self.statements.note_refund, &values()).await?;
            match rows.into_iter().next() {
                Some((true, _)) => return Ok(RefundOutcome::Noted),
                Some((false, Some(noted))) => {
                    let noted = hash(decoded(&noted)?)?;
                    let is_same = noted == transaction;
                    let differs = RefundOutcome::Differs { transaction: noted };
                    return Ok(if is_same { RefundOutcome::NotedBefore } else { differs });
                }
                // Another process noted one since this statement began; the next statement sees it.
                _ => {}
            }
        }
        Err(LedgerError::unavailable())
    }
}

impl Announcements for PostgresLedger {
    async fn unannounced(&self, after: Option<&BookedSale>, most: usize) -> Result<Vec<BookedSale>, LedgerError> {
        let since = after.map_or(0, |last| not_before(last.sold_at, MICROSECOND).min(LAST));
        let behind = after.map_or_else(|| text(""), |last| payment(last.payment));
        let values = [whole(since), behind, whole(i64::try_from(most).unwrap_or(i64::MAX))];
        let limit = self.time_limit.max(BOOK_TIME);
        in_time(limit, async {
            self.is_current().await?;
            let question = || self.rows_in::<SaleColumns>(limit, Flush::Later, &self.statements.unannounced, &values);
            ask(question).await?.into_iter().map(sale).collect()
        })
        .await
    }

    async fn announced(&self, paid: PaymentId) -> Result<(), LedgerError> {
        let values = [payment(paid)];
        let question = self.one::<(bool,)>(Flush::Later, &self.statements.announced, &values);
        in_time(self.time_limit, question).await.map(drop)
    }
}

impl PostgresLedger {
    /// Asks the book, if it exists.
    pub(super) async fn book_rows<T: Row>(
        &self,
        flush: Flush,
        question: &Text,
        values: &[Literal],
    ) -> Result<Vec<T>, LedgerError> {
        let limit = self.time_limit.max(BOOK_TIME);
        in_time(limit, async {
            self.is_current().await?;
            ask(|| self.rows_in(limit, flush, question, values)).await
        })
        .await
    }

    /// Checks that the tables have this version, since they may not have been migrated. Returns the server's time, in
    /// microseconds.
    async fn is_current(&self) -> Result<i64, LedgerError> {
        let schema: Option<(i64, i64)> = self.one(Flush::Later, &self.statements.schema_is, &[]).await?;
        compatible(schema.map(|(version, _)| version))?;
        schema.map(|(_, now)| now).ok_or(LedgerError::incompatible())
    }
}

fn decoded(hex: &str) -> Result<Vec<u8>, LedgerError> {
    const_hex::decode(hex).map_err(|_| LedgerError::incompatible())
}

fn refund(transaction: Option<String>, noted: Option<i64>) -> Result<Option<Refund>, LedgerError> {
    let Some(transaction) = transaction else { return Ok(None) };
    let noted = noted.map_or(SystemTime::UNIX_EPOCH, moment);
    Ok(Some(Refund::new(hash(decoded(&transaction)?)?, noted)))
}

fn sale(told: SaleColumns) -> Result<BookedSale, LedgerError> {
    let row = SaleRow {
        payment: told.0,
        resource: told.1,
        chain_id: told.2,
        transaction: decoded(&told.3)?,
        payer: decoded(&told.5)?,
        recipient: decoded(&told.6)?,
        token: decoded(&told.7)?,
        amount: told.8,
        block_number: told.9,
        block_time: told.10,
        sold_at: moment(told.11),
        refund: refund(told.12, told.13)?,
        maximum: told.14,
    };
    row.read()
}
