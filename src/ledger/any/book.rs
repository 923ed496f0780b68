//! The book of an `AnyLedger`.

use super::{
    super::{BookedSale, KnownPayment, LedgerError, RefundOutcome, SalesBook, SalesQuery},
    ledger::{AnyLedger, Kind},
};
use crate::protocol::{PaymentId, TxHash};

/// A [`MemoryLedger`](crate::ledger::MemoryLedger) keeps no book: every question about one fails as
/// [`Other`](crate::ledger::LedgerErrorKind::Other).
impl SalesBook for AnyLedger {
    async fn page(
        &self,
        query: &SalesQuery,
        after: Option<&BookedSale>,
        most: usize,
    ) -> Result<Vec<BookedSale>, LedgerError> {
        let _ = (query, after, most);
        match &self.kind {
            Kind::Memory(_) => Err(no_book()),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(ledger) => ledger.page(query, after, most).await,
            #[cfg(feature = "postgres")]
            Kind::Postgres(ledger) => ledger.page(query, after, most).await,
            #[cfg(feature = "redis")]
            Kind::Redis(ledger) => ledger.page(query, after, most).await,
        }
    }

    async fn known(&self, payments: &[PaymentId]) -> Result<Vec<KnownPayment>, LedgerError> {
        let _ = payments;
        match &self.kind {
            Kind::Memory(_) => Err(no_book()),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(ledger) => ledger.known(payments).await,
            #[cfg(feature = "postgres")]
            Kind::Postgres(ledger) => ledger.known(payments).await,
            #[cfg(feature = "redis")]
            Kind::Redis(ledger) => ledger.known(payments).await,
        }
    }

    async fn note_refund(&self, payment: PaymentId, transaction: TxHash) -> Result<RefundOutcome, LedgerError> {
        let _ = (payment, transaction);
        match &self.kind {
            Kind::Memory(_) => Err(no_book()),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(ledger) => ledger.note_refund(payment, transaction).await,
            #[cfg(feature = "postgres")]
            Kind::Postgres(ledger) => ledger.note_refund(payment, transaction).await,
            #[cfg(feature = "redis")]
            Kind::Redis(ledger) => ledger.note_refund(payment, transaction).await,
        }
    }
}

fn no_book() -> LedgerError {
    LedgerError::other("a ledger in memory keeps no book of sales")
}
