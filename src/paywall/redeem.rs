//! Redeeming, up to the handler: seal, chain, ledger, in that order.

use std::sync::Arc;

use super::{
    opened::Opened,
    priced_request::PricedRequest,
    problem::{Problem, Rejection},
    reservation::LeaseGuard,
};
use crate::protocol::{Amount, ProblemCode, Proof, Receipt, Redemption};

/// Reserves the payment that buys this answer; `None` where the request is free.
pub(crate) async fn reserve(request: &PricedRequest, proof: Proof) -> Result<Option<(LeaseGuard, Receipt)>, Rejection> {
    let Some(amount) = request.amount().await.transpose() else { return Ok(None) };
    match proof {
        Proof::Redemption(redemption) => redeem(request, redemption, amount).await.map(Some),
        Proof::IntentOnly(_) => amount.and(Err(ProblemCode::TxRequired.into())),
        Proof::TransactionOnly(_) => {
            let seal = request.route.seals.current();
            Err(request.with_new_intent(ProblemCode::IntentRequired, seal, amount?).into())
        }
    }
}

/// Reserves a payment for this intent, in that transaction.
async fn redeem(
    request: &PricedRequest,
    redemption: Redemption,
    amount: Result<Amount, Rejection>,
) -> Result<(LeaseGuard, Receipt), Rejection> {
    let Some(opened) = Opened::open(&request.route, &redemption.intent) else {
        let seal = request.route.seals.current();
        return Err(request.with_new_intent(ProblemCode::IntentNotFound, seal, amount?).into());
    };
    let (claimable, head) = match opened.claimable(request, &redemption, amount).await {
        Ok(claimable) => claimable,
        Err(rejection) => return Err(opened.unless_consumed(redemption.transaction, rejection).await),
    };
    let (guard, proved_by) = match opened.reserve(claimable, head).await {
        Ok(reserved) => reserved,
        Err(Problem { code: ProblemCode::AlreadyConsumed, .. }) => {
            return Err(opened.already_consumed(redemption.transaction).await);
        }
        Err(problem) => return Err(problem.into()),
    };
    let receipt = Receipt::new(Arc::clone(&request.route.resource), redemption.intent, guard.transfer().clone());
    Ok((guard, receipt.with_proof(proved_by)))
}

/// What to answer to a redemption that is refused before its intent was opened.
pub(crate) async fn unless_consumed(
    request: &PricedRequest,
    redemption: &Redemption,
    rejection: Rejection,
) -> Rejection {
    match Opened::open(&request.route, &redemption.intent) {
        Some(opened) => opened.unless_consumed(redemption.transaction, rejection).await,
        None => rejection,
    }
}
