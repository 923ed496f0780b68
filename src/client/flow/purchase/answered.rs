//! What the caller is given: the answer, and word of what it cost.

use bytes::Bytes;
use http::{Response, response::Parts};
use http_body::Body;

use super::PurchaseFlow;
use crate::client::{
    Failure, JournalEntry, PaymentMethod, Purchase, ReplayBody, ResponseBody,
    dialect::reply,
    flow::PurchaseGuard,
    pass::{Ending, PassOrder, PassSale},
};

impl<S, B: ReplayBody> PurchaseFlow<S, B> {
    /// The response for the caller.
    pub(super) fn answered<R: Body<Data = Bytes>>(
        &mut self,
        guard: PurchaseGuard,
        parts: Parts,
        body: ResponseBody<R>,
    ) -> Response<ResponseBody<R>> {
        self.timings.redeem = self.lap();
        let purchase = self.bought(guard.outcome(), &parts);
        let is_callers = self.inner.settings.acknowledged_by_caller;
        // A pass closes its purchase once it is kept.
        let is_pass = self.request().pass_order().is_some_and(PassOrder::buys_a_pass);
        let body = match guard.deliver() {
            Some(delivery) if !is_callers && !is_pass => body.delivering(delivery),
            _ => body,
        };
        let mut response = Response::from_parts(parts, body);
        response.extensions_mut().insert(purchase);
        response
    }

    fn bought(&self, entry: &JournalEntry, parts: &Parts) -> Purchase {
        let (transaction, paid_with) = (entry.transaction, entry.paid_with());
        let confirmed = match entry.paid_by() {
            PaymentMethod::Authorization | PaymentMethod::Permit | PaymentMethod::Channel => {
                reply::claims_success(parts)
            }
            PaymentMethod::Transfer => transaction.is_some_and(|transaction| reply::confirms(parts, transaction)),
        };
        Purchase {
            id: entry.id,
            state: entry.state,
            paid_by: entry.paid_by(),
            standard: entry.standard(),
            confirmed,
            recipient: entry.recipient,
            network: entry.network,
            token: paid_with.map(|(token, _)| token),
            payer: paid_with.map(|(_, payer)| payer),
            amount: entry.amount,
            charged: entry.charge(),
            decimals: entry.decimals,
            transaction,
            sent: entry.signed().map_or(entry.transfers().len(), |_| 1),
            attempts: self.attempts,
            timings: self.timings,
        }
    }

    /// How the order of a pass ended, for its money.
    pub(super) fn ending<T>(&self, came: &Result<Response<T>, Failure>) -> Ending {
        let (registry, is_callers) = (&self.inner.registry, self.inner.settings.acknowledged_by_caller);
        let is_open = self.request().identity.fingerprint.as_deref().is_some_and(|print| registry.has_open(print));
        Ending::of(came, is_open, |id| PassSale { registry: registry.clone(), id, is_callers })
    }
}
