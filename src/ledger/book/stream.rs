//! `Sales`: the sales of a book, page by page.

use std::{
    collections::VecDeque,
    fmt,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_core::Stream;

use super::record::BookedSale;
use crate::ledger::LedgerError;

/// The number of sales in a page.
pub(super) const PAGE: usize = 500;

pub(super) type Page<'a> = Pin<Box<dyn Future<Output = Result<Vec<BookedSale>, LedgerError>> + Send + 'a>>;
/// Asks for up to [`PAGE`] sales after a given one.
type Ask<'a> = Box<dyn Fn(Option<BookedSale>) -> Page<'a> + Send + 'a>;

/// A stream of sales, oldest first. Returned by [`SalesBook::sales`](super::SalesBook::sales).
///
/// It ends after the last sale, or after an error. Each sale comes exactly once.
#[must_use = "streams do nothing unless they are polled"]
pub struct Sales<'a> {
    ask: Ask<'a>,
    /// `None` if there is no further page.
    page: Option<Page<'a>>,
    read: VecDeque<BookedSale>,
}

impl<'a> Sales<'a> {
    pub(super) fn asking(ask: impl Fn(Option<BookedSale>) -> Page<'a> + Send + 'a) -> Self {
        let ask: Ask<'a> = Box::new(ask);
        Self { page: Some(ask(None)), ask, read: VecDeque::new() }
    }

    /// Returns the next sale; `None` after the last one, and after an error.
    ///
    /// # Errors
    /// [`LedgerError`] if the backend does not answer, or its contents belong to another version.
    pub async fn next(&mut self) -> Option<Result<BookedSale, LedgerError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Sales<'_> {
    type Item = Result<BookedSale, LedgerError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(sale) = self.read.pop_front() {
                return Poll::Ready(Some(Ok(sale)));
            }
            let Some(page) = &mut self.page else { return Poll::Ready(None) };
            let page = ready!(page.as_mut().poll(cx));
            self.page = None;
            match page {
                Ok(sales) => {
                    // A page that is not full is the last one.
                    self.page = sales.get(PAGE - 1).map(|last| (self.ask)(Some(last.clone())));
                    self.read = sales.into();
                }
                Err(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }
}

impl fmt::Debug for Sales<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sales").field("read", &self.read.len()).finish_non_exhaustive()
    }
}
