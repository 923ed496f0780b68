//! `Announcements`: sales that wait for the seller's hook.

use std::{future::Future, sync::Arc};

use super::{book::record::BookedSale, error::LedgerError};
use crate::protocol::PaymentId;

/// The recorded sales of a [`Ledger`](super::Ledger) that wait for their announcement: an optional capability, which
/// [`Ledger::announcements`](super::Ledger::announcements) returns. Every ledger of this crate has it.
///
/// The commit of a lease with [`announcing`](super::Lease::announcing) marks the sale, in the same atomic step. The
/// mark stays until the sale is [announced](Self::announced): if a process ends before, the next one finds the mark. It
/// outlives the record of the sale. Other sales have no mark.
///
/// [`X402Layer::on_sold`](crate::X402Layer::on_sold) relies on it.
pub trait Announcements: Send + Sync + 'static {
    /// Returns up to `most` marked sales, ordered by [`sold_at`](BookedSale::sold_at) and then by the payment id's
    /// text; only those after `after`, if given. Fewer than `most` are the last ones.
    ///
    /// # Errors
    /// [`LedgerError`] if the backend does not answer, or its contents belong to another version.
    fn unannounced(
        &self,
        after: Option<&BookedSale>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<BookedSale>, LedgerError>> + Send;

    /// Removes the mark of this payment's sale, because the hook has run. Repeatable. A crash may bring the mark back.
    ///
    /// # Errors
    /// As [`unannounced`](Self::unannounced).
    fn announced(&self, payment: PaymentId) -> impl Future<Output = Result<(), LedgerError>> + Send;
}

/// A shared handle.
impl<A: Announcements> Announcements for Arc<A> {
    fn unannounced(
        &self,
        after: Option<&BookedSale>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<BookedSale>, LedgerError>> + Send {
        A::unannounced(self, after, most)
    }

    fn announced(&self, payment: PaymentId) -> impl Future<Output = Result<(), LedgerError>> + Send {
        A::announced(self, payment)
    }
}

/// The uninhabited announcement type of a ledger without announcements.
#[derive(Debug)]
pub(super) enum NoAnnouncements {}

impl Announcements for NoAnnouncements {
    async fn unannounced(&self, _: Option<&BookedSale>, _: usize) -> Result<Vec<BookedSale>, LedgerError> {
        match *self {}
    }

    async fn announced(&self, _: PaymentId) -> Result<(), LedgerError> {
        match *self {}
    }
}
