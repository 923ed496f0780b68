//! `Attempt`: one request for a pass, and what holds for its shop while it is under way.

use http::Uri;
use tokio::time::Instant;

use super::{order::PassOrder, purse::SharedPurse, shop::Shop};
use crate::protocol::Amount;

/// One request for a pass.
pub(super) struct Attempt<'a> {
    pub(super) url: &'a Uri,
    /// What a quote said that it costs.
    pub(super) price: Option<Amount>,
    /// It fetches what an earlier attempt bought, which was never here, and pays nothing new.
    pub(super) goes_on: bool,
    /// When it is given up where it has no answer. A payment takes the time that it takes.
    pub(super) until: Option<Instant>,
}

/// An attempt without an answer. Dropped, it has failed, and nothing is bought for a while: the next caller would wait in vain, too. One that
/// has paid is the exception: the next request asks for what was paid for.
pub(super) struct UnderWay<'a> {
    shop: &'a Shop,
    purse: SharedPurse,
    order: &'a PassOrder,
    goes_on: bool,
    within_limits: bool,
    is_answered: bool,
}

impl<'a> UnderWay<'a> {
    /// Begins it, for a request with limits of its own or without.
    pub(super) fn begin(
        attempt: &Attempt<'_>,
        order: &'a PassOrder,
        (shop, purse): (&'a Shop, &SharedPurse),
        within_limits: bool,
    ) -> Self {
        Self { shop, purse: purse.clone(), order, goes_on: attempt.goes_on, within_limits, is_answered: false }
    }

    /// Its purchase stays open: later attempts ask for what it bought. An earlier one that was found here had a quote of its own, so that no quote
    /// of now says what it bought.
    pub(super) fn stays_open(&self) {
        if self.order.has_resumed() && !self.goes_on && self.shop.forgets_promise() {
            self.purse.lock().save();
        }
    }

    pub(super) fn ends(mut self) {
        self.is_answered = true;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.is_answered {
            return;
        }
        self.stays_open();
        if self.goes_on || self.order.paid().is_none() {
            self.shop.pause(self.within_limits);
        }
    }
}
