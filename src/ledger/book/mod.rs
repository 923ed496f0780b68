//! `SalesBook`: sales with their times and payers, and refunds.

mod day;
mod query;
pub(super) mod record;
mod stream;
mod totals;

use std::{future::Future, sync::Arc};

pub use day::UtcDay;
pub use query::SalesQuery;
pub use record::{BookedSale, KnownPayment, Refund, RefundOutcome};
pub use stream::Sales;
pub use totals::DayTotal;

use super::LedgerError;
use crate::protocol::{PaymentId, TxHash};

/// The seller's book: every sale on the ledger's record, and the refunds that the seller noted.
///
/// The durable ledgers implement it. The paywall does not depend on it: questions to the book do not affect sales, and
/// a noted refund frees neither a payment nor an intent.
///
/// [`SqliteLedger`](super::SqliteLedger) and [`PostgresLedger`](super::PostgresLedger) keep every sale until the seller
/// deletes it. [`RedisLedger`](super::RedisLedger) keeps a sale as long as its payment could be shown again, a little
/// over two days, and longer if its answer is [kept](crate::Redelivery), or for good if it [keeps the
/// book](super::RedisLedgerBuilder::keep_book).
///
#[cfg_attr(feature = "sqlite", doc = "```")]
#[cfg_attr(not(feature = "sqlite"), doc = "```ignore")]
/// use tower_x402::ledger::{LedgerError, SalesBook, SalesQuery, SqliteLedger, UtcDay};
///
/// /// What came in this month, by day, resource and token.
/// async fn report(book: &impl SalesBook) -> Result<(), LedgerError> {
///     let november: UtcDay = "2026-11-01".parse().expect("a day");
///     for total in book.totals(SalesQuery::since(november.start())).await? {
///         println!("{} {}: {} sales, {} base units of {}", total.day, total.resource, total.sales, total.base_units, total.token);
///     }
///     Ok(())
/// }
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("ledger.db");
/// report(&SqliteLedger::open(&path).await?).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait SalesBook: Send + Sync + 'static {
    /// Returns up to `most` sales of the query, ordered by [`sold_at`](BookedSale::sold_at) and then by the payment
    /// id's text. `after` is the last sale that the caller has. Fewer than `most` are the last ones.
    ///
    /// Paging with `after` misses no sale: a sale is not returned while an earlier one is still being recorded. So a
    /// reader can follow the book while sales go on.
    ///
    /// [`sales`](Self::sales) reads all pages in turn.
    ///
    /// # Errors
    /// [`LedgerError`] if the backend does not answer, or its contents belong to another version.
    fn page(
        &self,
        query: &SalesQuery,
        after: Option<&BookedSale>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<BookedSale>, LedgerError>> + Send;

    /// Returns the record of each of these payments, in order: whether it was sold, and its refund.
    ///
    /// # Errors
    /// As [`page`](Self::page).
    fn known(&self, payments: &[PaymentId]) -> impl Future<Output = Result<Vec<KnownPayment>, LedgerError>> + Send;

    /// Notes that the seller refunded a payment by this transaction. The ledger looks neither up on the chain, and need
    /// not know the payment: one that bought nothing can be refunded, too. A payment that can still be redeemed stays
    /// redeemable.
    ///
    /// A payment has one refund. Noting the same refund again changes nothing; a different one is not noted.
    ///
    /// # Errors
    /// As [`page`](Self::page).
    fn note_refund(
        &self,
        payment: PaymentId,
        transaction: TxHash,
    ) -> impl Future<Output = Result<RefundOutcome, LedgerError>> + Send;

    /// Returns the sales of the query, oldest first. It reads them in pages, so that few are in memory. Sales that are
    /// made meanwhile are included if they are later than those already read.
    fn sales(&self, query: SalesQuery) -> Sales<'_>
    where
        Self: Sized,
    {
        Sales::asking(move |after| {
            let query = query.clone();
            Box::pin(async move { self.page(&query, after.as_ref(), stream::PAGE).await })
        })
    }

    /// Returns the sums of these sales for each UTC day, resource, network and token, in that order.
    ///
    /// Reads every sale, in pages.
    ///
    /// # Errors
    /// As [`page`](Self::page).
    fn totals(&self, query: SalesQuery) -> impl Future<Output = Result<Vec<DayTotal>, LedgerError>> + Send
    where
        Self: Sized,
    {
        totals::of(self.sales(query))
    }
}

/// A shared handle.
impl<B: SalesBook> SalesBook for Arc<B> {
    fn page(
        &self,
        query: &SalesQuery,
        after: Option<&BookedSale>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<BookedSale>, LedgerError>> + Send {
        B::page(self, query, after, most)
    }

    fn known(&self, payments: &[PaymentId]) -> impl Future<Output = Result<Vec<KnownPayment>, LedgerError>> + Send {
        B::known(self, payments)
    }

    fn note_refund(
        &self,
        payment: PaymentId,
        transaction: TxHash,
    ) -> impl Future<Output = Result<RefundOutcome, LedgerError>> + Send {
        B::note_refund(self, payment, transaction)
    }
}
