//! Purchases that go on: of an earlier call, of this request, or of another one whose payment bought nothing.

use super::PurchaseFlow;
use crate::{
    client::{Failure, PurchaseEvent, ReplayBody, dialect::Bill, flow::PurchaseGuard},
    protocol::{Amount, ChainTime},
};

impl<S: Clone, B: ReplayBody> PurchaseFlow<S, B> {
    /// Finds an unfinished purchase of this request that was left while this call was on its way to paying for another.
    pub(super) fn left_meanwhile(&self) -> Result<Option<PurchaseGuard>, Failure> {
        match self.request().identity.fingerprint.as_deref() {
            Some(fingerprint) => self.inner.registry.left(fingerprint),
            None => Ok(None),
        }
    }

    /// Finds an unfinished purchase of this request.
    pub(super) fn resumed(&mut self) -> Result<Option<PurchaseGuard>, Failure> {
        let (registry, request) = (&self.inner.registry, self.seller.request());
        let resumes = !request.is_quote_only() || request.pays_nothing_new();
        let fingerprint = request.identity.fingerprint.as_deref().filter(|_| resumes);
        let guard = fingerprint.and_then(|fingerprint| match request.paid() {
            Some(transaction) => registry.paid_with(fingerprint, transaction),
            None => registry.resume(fingerprint, request.resumes_only()),
        });
        if let Some(guard) = &guard {
            // A client that was polled ready must not hold its readiness while the chain is asked.
            self.seller.drop_readiness();
            self.resumes_with(guard)?;
        }
        Ok(guard)
    }

    /// Turns to a purchase that is resumed, unless it may yet cost more than the request allows.
    pub(super) fn resumes_with(&mut self, guard: &PurchaseGuard) -> Result<(), Failure> {
        let is_own = self.request().identity.fingerprint.as_ref() == Some(&guard.entry().fingerprint);
        if let Some(order) = self.request().pass_order().filter(|_| is_own) {
            order.resumes(Some(guard.entry().id));
        }
        let (entry, limit) = (guard.entry(), self.request().max_price_of_resumed());
        if let Some(limit) = limit.filter(|_| entry.may_cost_more_than(limit)) {
            let shown = |amount: Amount| amount.to_decimal(entry.decimals);
            let (price, limit) = (shown(entry.amount), shown(limit));
            return Err(Failure::AboveMaxPrice {
                purchase: entry.id,
                price,
                limit,
                valid_before: entry.valid_before(),
            });
        }
        match self.request().pass_order() {
            Some(order) if is_own && !entry.is_settled() && !entry.is_sold() => order.owes(entry.amount),
            // For this request, another request's payment is a new payment.
            Some(order) if !is_own => order.pays(entry.amount),
            _ => {}
        }
        self.turns_to(guard);
        Ok(())
    }

    pub(super) fn turns_to(&mut self, guard: &PurchaseGuard) {
        let entry = guard.entry();
        self.progress.turn_to(entry.id);
        self.progress.report(PurchaseEvent::Resumed { purchase: entry.id, transaction: entry.transaction() });
    }

    /// Whether a fresh quote is not over by this machine's clock. Otherwise the clock may be fast, and no payment is too old by it: a quote
    /// that is over says so, and a bill that tells no time says nothing.
    pub(super) fn is_clock_confirmed(&self, bill: &Bill) -> bool {
        let now = self.inner.now();
        bill.transfers.iter().any(|terms| terms.quote.expiry > now)
    }

    /// The earliest moment at which a payment was made that a seller still accepts.
    pub(super) fn accepted_since(&self) -> ChainTime {
        let age = self.inner.settings.payment_age.as_secs();
        ChainTime::from_unix(self.inner.now().unix().saturating_sub(age))
    }
}
