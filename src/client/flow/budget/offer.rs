//! `Offer`: what a budget is asked about a quote.

use std::time::Duration;

use super::denial::Denial;
use crate::protocol::{ChainTime, Quote};

/// What a budget is asked about a quote.
pub(crate) struct Offer<'a> {
    pub(crate) quote: &'a Quote,
    /// Host and port; empty where the request names none.
    pub(crate) host: &'a str,
    pub(crate) plain_http: bool,
    pub(crate) now: ChainTime,
    /// How much time there must be left.
    pub(crate) least_time: Duration,
}

impl Offer<'_> {
    /// Whether it can be paid in time.
    pub(crate) fn is_in_time(&self) -> Result<(), Denial> {
        is_in_time(self.quote, self.now, self.least_time)
    }
}

/// Whether a quote leaves the time that a payment takes: approval and the wait for other payments take
/// theirs, so it is asked more than once.
pub(crate) fn is_in_time(quote: &Quote, now: ChainTime, least: Duration) -> Result<(), Denial> {
    let least = Duration::from_secs(least.as_secs());
    match quote.expiry.unix().checked_sub(now.unix()).map(Duration::from_secs) {
        None | Some(Duration::ZERO) => Err(Denial::Expired),
        Some(left) if left < least => Err(Denial::ExpiresSoon { left, least }),
        Some(_) => Ok(()),
    }
}
