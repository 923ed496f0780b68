//! Reserving a signed payment, which has not happened yet.

use std::{pin::pin, sync::Arc};

use crate::{
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::{deliver::Purchase, opened::Opened, reservation::LeaseGuard, upkeep::HoldOutcome},
        seller::{
            attempts::Claimed,
            chain::SellingChain,
            pricing::Cost,
            standard::Standard,
            time_limits::{SETTLER, verifier_in_time},
        },
        way::authorization::{
            judgement::{Found, Judgement, judge},
            reserved::ReservedAuthorization,
            settling::ToSettle,
            shown::Authorized,
        },
    },
    protocol::{ChainTime, ProblemCode, ProvedBy, PurchaseKey, Receipt},
};

/// A signed payment that is offered, and the purchase that its client names.
pub(super) struct Paying<'a> {
    pub(super) authorized: Authorized<'a>,
    pub(super) purchase: Option<PurchaseKey>,
}

/// Reserves a signed payment, and looks at what the chain says of it.
pub(super) async fn reserve_signed(
    request: &PricedRequest,
    chain: &Arc<SellingChain>,
    standard: &Standard,
    paying: Paying<'_>,
    now: Cost,
) -> Result<Purchase, Rejection> {
    let route = &request.route;
    let Paying { authorized, purchase } = paying;
    let shown = authorized.shown();
    let payable = authorized.is_payable();
    let Authorized { opened, payment, .. } = authorized;
    let intent = payment.intent.clone();
    let Ok(head) = verifier_in_time(chain.view.head()).await else {
        let unavailable = Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN);
        return Err(opened.unless_consumed(shown, unavailable.into()).await);
    };
    let mut reserved = ReservedAuthorization::new(chain, standard, &opened, payment, opened.digest(request), head);
    if let Some(found) = reserved.forged().await {
        let judgement = judge(found, &reserved.case(None));
        return Err(opened.unless_consumed(shown, rejection(request, &opened, &reserved, judgement, now)).await);
    }
    // A signature that may be forged reserves no purchase: its payer might be another's.
    let proven = match purchase {
        Some(_) => match reserved.is_proven().await {
            Some(proven) => proven,
            None => {
                let unavailable = Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN);
                return Err(opened.unless_consumed(shown, unavailable.into()).await);
            }
        },
        None => true,
    };
    reserved.begin().await;
    // In a future block, so after everything that this ledger has forgotten.
    let signed = reserved.signed(ChainTime::from_unix(head.unix() + 1));
    let claim = opened.claim(head).purchase(purchase.filter(|_| proven)).payments([signed]);
    let mut guard = match opened.grant(claim, |_| Claimed::ByPayer).await {
        Ok(guard) => guard,
        Err(problem) => return Err(opened.refused(shown, problem).await),
    };
    if !reserved.take_on() {
        guard.release().await;
        return Err(Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN).into());
    }
    let receipt = |guard: &LeaseGuard| {
        Receipt::new(Arc::clone(&route.resource), intent.clone(), guard.payment().clone())
            .with_proof(ProvedBy::Authorization)
    };
    let case = reserved.case(guard.begun());
    // The lease is kept: how long a settler may take is its own setting.
    let found = match guard.keep(SETTLER + SETTLER, None, pin!(reserved.check(payable, case.begun))).await {
        HoldOutcome::Finished(found) => found,
        HoldOutcome::LeaseLost | HoldOutcome::HeldTooLong | HoldOutcome::BodyLate => Found::Unavailable,
    };
    let judgement = match judge(found, &case) {
        // Valid only since it was reserved, and so without its purchase.
        Judgement::Settle if !proven && case.begun.is_none() => Judgement::Unavailable,
        judgement => judgement,
    };
    let rejection = match judgement {
        Judgement::Settle => {
            let receipt = receipt(&guard);
            let unsettled = ToSettle { reserved, requote: request.requote(now) };
            return Ok(Purchase { receipt, guard, unsettled: Some(Box::new(unsettled)), cost: now });
        }
        // The process that settled it is gone.
        Judgement::Resume(paid) => match opened.is_remembered(head, &paid).await {
            Ok(()) => {
                guard.paid_by(paid);
                return Ok(Purchase { receipt: receipt(&guard), guard, unsettled: None, cost: now });
            }
            Err(problem) => problem.into(),
        },
        judgement => {
            if case.begun.is_some() && matches!(judgement, Judgement::Refuse(_)) {
                guard.is_not_settled().await;
            }
            rejection(request, &opened, &reserved, judgement, now)
        }
    };
    guard.release().await;
    Err(rejection)
}

/// What to answer to a payment that buys nothing now.
fn rejection(
    request: &PricedRequest,
    opened: &Opened<'_>,
    reserved: &ReservedAuthorization,
    judgement: Judgement,
    now: Cost,
) -> Rejection {
    match judgement {
        Judgement::Prove(transaction) => reserved.to_prove(transaction).into(),
        Judgement::Elsewhere => {
            let seal = request.route.seals.of(opened.recipient);
            request.with_new_intent(ProblemCode::IntentNotFound, seal, now.amount).into()
        }
        Judgement::Refuse(reason) => request.requote(now).refuse(reason, reserved.network(), Some(reserved.payer())),
        Judgement::Wait(wait) => Problem::after(ProblemCode::TxNotConfirmed, wait).into(),
        Judgement::TooOld => opened.too_old().into(),
        Judgement::Unknown => reserved.outcome_unknown(None).into(),
        Judgement::Settle | Judgement::Resume(_) | Judgement::Unavailable => {
            Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN).into()
        }
    }
}
