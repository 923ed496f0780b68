//! `Unmatched`: a signed payment that matches no offer. It is billed anew only if it is certainly unused.

use std::future::Future;

use crate::{
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::opened::Opened,
        seller::{attempts::Claimed, chain::SellingChain, pricing::Cost, time_limits::verifier_in_time},
    },
    protocol::{Address, ChainTime, Payment, ProblemCode, v2::Reason},
    verify::{NonceState, VerifyError},
};

/// A payment on a chain of the merchant that matches no offer.
pub(crate) struct Unmatched<'a> {
    pub(crate) chain: &'a SellingChain,
    pub(crate) payer: Address,
    pub(crate) pay_to: Address,
    /// The time from which it can no longer be taken.
    pub(crate) until: ChainTime,
    /// What differs.
    pub(crate) reason: Reason,
}

impl Unmatched<'_> {
    /// Returns the reply: a bill at the present price, unless the payment is used or being settled. `state` is the chain's state of its
    /// nonce, if anything reads the chain. `payment` builds the payment as it would be reserved at a time.
    pub(crate) async fn refuse(
        self,
        request: &PricedRequest,
        now: Cost,
        state: Option<impl Future<Output = Result<NonceState, VerifyError>>>,
        payment: impl FnOnce(ChainTime) -> Payment,
    ) -> Rejection {
        let bill = || request.requote(now).refuse(self.reason.clone(), self.chain.network, Some(self.payer));
        // Before the state: a payment that is unused after its end was never taken.
        let Ok(head) = verifier_in_time(self.chain.view.head()).await else {
            return Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN).into();
        };
        let clock = ChainTime::from_unix(request.route.merchant.clock.unix());
        let state = match state {
            Some(state) => verifier_in_time(state).await.map(Some),
            None => Ok(None),
        };
        match state {
            // A head that is ahead of the clock may be wrong.
            Ok(Some(NonceState::Unused)) if self.until <= head.min(clock) => return bill(),
            Ok(Some(NonceState::Unused) | None) => {}
            // It may have paid here, even if the transaction that used it was not found.
            Ok(Some(NonceState::Used(_) | NonceState::Spent)) => {
                let seal = request.route.seals.of(self.pay_to);
                return request.with_new_intent(ProblemCode::IntentNotFound, seal, now.amount).into();
            }
            Err(_) => return Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN).into(),
        }
        let payment = payment(ChainTime::from_unix(head.unix() + 1));
        match self.is_free(request, now, head, payment).await {
            Ok(()) => bill(),
            Err(problem) => problem.into(),
        }
    }

    /// Checks that no intent holds the payment, settles it or bought an answer with it. An intent may, even if its route has another name
    /// now. The ledger answers that by a reservation, which is released at once.
    async fn is_free(
        &self,
        request: &PricedRequest,
        now: Cost,
        head: ChainTime,
        payment: Payment,
    ) -> Result<(), Problem> {
        let terms = request.intent_terms(request.route.seals.of(self.pay_to), now.amount);
        let opened = Opened::unquoted(&request.route, terms, self.pay_to, &payment.id());
        let guard = opened.grant(opened.claim(head).payments([payment]), |_| Claimed::ByPayer).await?;
        let is_begun = guard.begun().is_some();
        guard.release().await;
        match is_begun {
            true => Err(Problem::after(ProblemCode::RedemptionInProgress, ASK_AGAIN)),
            false => Ok(()),
        }
    }
}
