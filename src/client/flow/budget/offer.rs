//! `Offer`: a quote with its circumstances, for the budget to judge.

use std::time::Duration;

use super::denial::Denial;
use crate::protocol::{ChainTime, Quote};

/// A quote with its circumstances, for the budget to judge.
pub(crate) struct Offer<'a> {
    pub(crate) quote: &'a Quote,
    /// Host and port; empty if the request names none.
    pub(crate) host: &'a str,
    pub(crate) plain_http: bool,
    pub(crate) now: ChainTime,
    /// The least time that must be left for the payment.
    pub(crate) least_time: Duration,
}

impl Offer<'_> {
    /// Checks whether the quote can be paid in time.
    pub(crate) fn is_in_time(&self) -> Result<(), Denial> {
        is_in_time(self.quote, self.now, self.least_time)
    }
}

/// Checks whether a quote leaves enough time to pay. It is checked repeatedly, because approval and waiting for other
/// payments take time.
pub(crate) fn is_in_time(quote: &Quote, now: ChainTime, least: Duration) -> Result<(), Denial> {
    let least = Duration::from_secs(least.as_secs());
    match quote.expiry.unix().checked_sub(now.unix()).map(Duration::from_secs) {
        None | Some(Duration::ZERO) => Err(Denial::Expired),
        Some(left) if left < least => Err(Denial::ExpiresSoon { left, least }),
        Some(_) => Ok(()),
    }
}
