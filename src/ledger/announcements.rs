//! `Announcements`: sales that wait for their seller's hook.

use std::{future::Future, sync::Arc};

use super::{book::record::BookedSale, error::LedgerError};
use crate::protocol::PaymentId;

/// The sales that a [`Ledger`](super::Ledger) recorded and that wait for their announcement: an optional capability, which
/// [`Ledger::announcements`](super::Ledger::announcements) returns. Every ledger of this crate has it.
///
/// The commit of a lease with [`announcing`](super::Lease::announcing) marks the sale, in the same atomic step. The
/// mark stays until the sale is [announced](Self::announced): a process that ends in between leaves it to the next one.
/// It outlives the record of the sale. Other sales have no mark.
///
/// [`X402Layer::on_sold`](crate::X402Layer::on_sold) relies on it.
pub trait Announcements: Send + Sync + 'static {
    /// Returns up to `most` of the sales that are marked, in the order of [`sold_at`](BookedSale::sold_at) and, of those that are equal
    /// in it, of the payment id's text; those behind `after`, where it is given. Fewer than `most`: there are no more.
    ///
    /// # Errors
    /// [`LedgerError`] if the backend does not answer, or its contents belong to another version.
    fn unannounced(
        &self,
        after: Option<&BookedSale>,
        most: usize,
    ) -> impl Future<Output = Result<Vec<BookedSale>, LedgerError>> + Send;

    /// Removes the mark of this payment's sale: what follows from it was done. Repeatable. A crash may bring the mark back.
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

/// What a ledger without announcements returns none of.
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
