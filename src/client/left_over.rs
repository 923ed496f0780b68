//! Payments that bought nothing yet, put to another quote before anything new is paid.

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use tower_service::Service;

use super::{
    Entry, PayError, PurchaseId, ReplayBody, ResponseBody, State, Step,
    book::Claim,
    buy::{BoxError, Visit},
};
use crate::protocol::{ProblemCode, Quote};

impl<S, B, R> Visit<S, B>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Error: Into<BoxError>,
    B: ReplayBody,
    R: Body<Data = Bytes>,
{
    /// The answer by what this very request has paid, if it has. What does not cover the quote is an error: otherwise a
    /// price that moves by a unit at each question would be paid at each question.
    pub(super) async fn own_left_over(&mut self, quote: &Quote) -> Result<Option<Response<ResponseBody<R>>>, PayError> {
        let Some(fingerprint) = self.order.fingerprint.clone() else { return Ok(None) };
        while let Some(claim) = self.shared.book.left_over(&fingerprint, quote) {
            let entry = claim.entry();
            if !entry.covers(quote) {
                return Err(not_covered(entry, quote));
            }
            // Who never had an answer was told that the same request would go on with this payment.
            let may_pay_anew = entry.delivered;
            if let Some(answer) = self.put(claim, quote, may_pay_anew).await? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The answer by what another request has paid to the same seller, where that is exactly the price.
    pub(super) async fn adopted(&mut self, quote: &Quote) -> Result<Option<Response<ResponseBody<R>>>, PayError> {
        while let Some(claim) = self.shared.book.adoptable(&self.order.host, quote) {
            if let Some(answer) = self.put(claim, quote, true).await? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Puts a payment to a quote; `None` where it is of no use, and another may be made.
    async fn put(
        &mut self,
        mut claim: Claim,
        quote: &Quote,
        may_pay_anew: bool,
    ) -> Result<Option<Response<ResponseBody<R>>>, PayError> {
        self.goes_on_with(&claim);
        let (fingerprint, request) = (self.order.fingerprint.clone(), self.order.what.clone());
        let adopt = |entry: &mut Entry| {
            entry.state = State::Redeeming;
            entry.delivered = false;
            entry.takes_terms_of(quote);
            entry.fingerprint = fingerprint.unwrap_or_default();
            entry.request = request;
        };
        claim.note(adopt).await;
        let shown_before = self.attempts;
        match self.finish(claim).await {
            // It was used up already, and bought nothing now. At a later showing it may have bought this answer.
            Err(PayError::Refused { transaction, code })
                if may_pay_anew && is_used_up(code) && self.attempts == shown_before + 1 =>
            {
                tracing::warn!(%transaction, code = code.as_str(), "a payment that was left over is of no use");
                // What is paid now is another purchase.
                self.purchase = PurchaseId::random();
                Ok(None)
            }
            outcome => outcome.map(Some),
        }
    }

    /// Says which purchase is gone on with.
    pub(super) fn goes_on_with(&mut self, claim: &Claim) {
        let entry = claim.entry();
        self.purchase = entry.id;
        self.step(Step::Resumed { purchase: entry.id, transaction: entry.transaction() });
    }
}

const fn is_used_up(code: ProblemCode) -> bool {
    matches!(code, ProblemCode::TxAlreadyUsed | ProblemCode::PaymentTooOld)
}

fn not_covered(entry: &Entry, quote: &Quote) -> PayError {
    let Some(transaction) = entry.transaction() else {
        return PayError::Unsettled { transaction: None, reason: None };
    };
    let price = quote.amount.to_decimal(quote.decimals);
    let asked = if entry.is_paid_as(quote) {
        price
    } else {
        format!("{price} to another recipient, or on another chain or in another token")
    };
    PayError::NotCovered { purchase: entry.id, transaction, paid: entry.amount.to_decimal(entry.decimals), asked }
}
