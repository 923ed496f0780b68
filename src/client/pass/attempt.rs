//! `Attempt`: one request for a pass, and what holds for its shop while it is under way.

use std::sync::Arc;

use http::Uri;
use tokio::time::Instant;

use super::{order::PassOrder, promise::Promise, purse::SharedPurse, shop::Shop};
use crate::protocol::Amount;

/// One request for a pass.
pub(super) struct Attempt<'a> {
    pub(super) url: &'a Uri,
    /// What a quote said that it costs, and what it promised.
    pub(super) price: Option<Amount>,
    pub(super) promise: Option<Promise>,
    /// It fetches what an earlier attempt bought, which was never here, and pays nothing new.
    pub(super) goes_on: bool,
    /// When it is given up where it has no answer. A payment takes the time that it takes.
    pub(super) until: Option<Instant>,
}

impl Attempt<'_> {
    /// Returns what notes a payment in the file, as soon as it is recorded: from then on the quote says what is bought.
    pub(super) fn noting(&self, shop: &Arc<Shop>, purse: &SharedPurse) -> impl Fn() + Send + Sync + 'static {
        let (shop, purse, promise) = (Arc::clone(shop), purse.clone(), self.promise);
        move || {
            shop.pays(promise);
            purse.lock().save();
        }
    }
}

/// An attempt without an answer. Dropped, it has failed, and nothing is bought for a while: the next caller would wait in vain, too. One that
/// has paid, or has found an earlier payment, is the exception: the next request asks for what was paid for.
pub(super) struct UnderWay<'a> {
    shop: &'a Shop,
    order: &'a PassOrder,
    goes_on: bool,
    within_limits: bool,
    is_sent: bool,
    is_answered: bool,
}

impl<'a> UnderWay<'a> {
    /// Begins it, for a request with limits of its own or without.
    pub(super) const fn begin(
        attempt: &Attempt<'_>,
        order: &'a PassOrder,
        shop: &'a Shop,
        within_limits: bool,
    ) -> Self {
        Self { shop, order, goes_on: attempt.goes_on, within_limits, is_sent: false, is_answered: false }
    }

    pub(super) const fn is_sent(&mut self) {
        self.is_sent = true;
    }

    /// Notes that it may have paid, if the inner layer does not say.
    pub(super) fn may_have_paid(&self) {
        if self.is_sent && !self.goes_on && !self.order.is_followed() {
            self.order.may_have_paid();
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
        self.may_have_paid();
        let is_paid = self.order.paid().is_some() || self.order.has_resumed();
        if self.goes_on || !is_paid {
            self.shop.pause(self.within_limits);
        }
    }
}
