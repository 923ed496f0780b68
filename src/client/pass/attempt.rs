//! `Attempt`: one request for a pass, and the state of its shop while the request is in progress.

use std::sync::Arc;

use http::Uri;
use tokio::time::Instant;

use super::{order::PassOrder, promise::Promise, purse::SharedPurse, shop::Shop};
use crate::protocol::Amount;

/// One request for a pass.
pub(super) struct Attempt<'a> {
    pub(super) url: &'a Uri,
    /// The quoted price, and the quote's promise.
    pub(super) price: Option<Amount>,
    pub(super) promise: Option<Promise>,
    /// Whether it only fetches a pass that an earlier attempt bought and that did not arrive. Then it makes no new payment.
    pub(super) goes_on: bool,
    /// When it is given up without an answer. `None` for a purchase, because a payment takes its own time.
    pub(super) until: Option<Instant>,
}

impl Attempt<'_> {
    /// Returns the callback for a recorded payment. It notes in the shop and in the file that the purchase has paid, and the promise of
    /// its quote, which from then on says what is bought.
    pub(super) fn noting(&self, shop: &Arc<Shop>, purse: &SharedPurse) -> impl Fn() + Send + Sync + 'static {
        let (shop, purse, promise) = (Arc::clone(shop), purse.clone(), self.promise);
        move || {
            shop.pays(promise);
            purse.lock().save();
        }
    }
}

/// An attempt that has no answer yet. If it is dropped, it has failed, and the shop pauses: the next caller would wait in vain, too. A
/// purchase that has paid or has found an earlier payment causes no pause: the next request fetches what was paid for.
pub(super) struct UnderWay<'a> {
    shop: &'a Shop,
    order: &'a PassOrder,
    goes_on: bool,
    within_limits: bool,
    is_sent: bool,
    is_answered: bool,
}

impl<'a> UnderWay<'a> {
    /// Begins an attempt. `within_limits` says whether its request has limits of its own.
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

    /// Notes that a purchase that was sent may have paid, if the inner layer reports nothing.
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
