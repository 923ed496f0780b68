//! Reserves a signed payment, which has not happened yet.

use std::{pin::pin, sync::Arc};

use crate::{
    paywall::{
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection},
        sale::{
            deliver::Purchase,
            kept_answer::Shown,
            opened::Opened,
            reservation::{LeaseGuard, UntilNow},
            upkeep::HoldOutcome,
        },
        seller::{
            attempts::Claimed,
            chain::SellingChain,
            pricing::Cost,
            time_limits::{SETTLER, ledger_in_time, verifier_in_time},
        },
        way::signed::{
            Signed,
            judgement::{Found, Judgement, judge},
            settling::ToSettle,
            showing::Showing,
        },
    },
    protocol::{ChainTime, Payment, PaymentId, ProblemCode, ProvedBy, PurchaseKey, Receipt, v2::Reason},
};

/// A signed payment that a request offers.
pub(crate) struct Paying<'a, F> {
    pub(crate) opened: Opened<'a>,
    /// The proof with which its client asks for a sold answer again.
    pub(crate) shown: Shown,
    /// Whether it may be settled now, for this request.
    pub(crate) payable: Result<(), Reason>,
    /// The purchase that its client names.
    pub(crate) purchase: Option<PurchaseKey>,
    /// Builds the payment from the digest of the request and the head of the chain.
    pub(crate) reserved: F,
}

/// Reserves a signed payment, and checks what the chain says about it.
pub(crate) async fn reserve_signed<S: Signed>(
    request: &PricedRequest,
    chain: &SellingChain,
    paying: Paying<'_, impl FnOnce(&Opened<'_>, [u8; 16], ChainTime) -> S + Send>,
    now: Cost,
) -> Result<Purchase, Rejection> {
    let Paying { opened, shown, payable, purchase, reserved } = paying;
    // Boxed here and below, like everything that a successful payment does not need: this future is moved.
    let Ok(head) = verifier_in_time(chain.view.head()).await else {
        return Err(Box::pin(opened.unless_consumed(shown, unavailable().into())).await);
    };
    let mut reserved = reserved(&opened, opened.digest(request), head);
    let (signed, purchase) = match admit(request, &opened, &mut reserved, (purchase, head), now).await {
        Ok(admitted) => admitted,
        Err(rejection) => return Err(Box::pin(opened.unless_consumed(shown, rejection)).await),
    };
    let proven = purchase.is_ok();
    let claim = opened.claim(head).purchase(purchase.unwrap_or_default()).payments([signed]);
    let mut guard = match opened.grant(claim, |_| Claimed::ByPayer).await {
        Ok(guard) => guard,
        Err(problem) => return Err(Box::pin(opened.refused(shown, problem)).await),
    };
    if !reserved.take_on() {
        Box::pin(guard.release()).await;
        return Err(unavailable().into());
    }
    let case = reserved.showing().case(reserved.is_metered(), guard.begun());
    // The lease is renewed meanwhile: how long a settler may take is a setting of its own.
    let found = match guard.keep(SETTLER + SETTLER, None, pin!(reserved.check(payable, case.begun))).await {
        HoldOutcome::Finished(found) => found,
        HoldOutcome::LeaseLost | HoldOutcome::HeldTooLong | HoldOutcome::BodyLate => Found::Unavailable,
    };
    let rejection = match judge(found, &case) {
        // It became valid only after the reservation, which therefore lacks its purchase.
        Judgement::Settle if !proven && case.begun.is_none() => unavailable().into(),
        Judgement::Settle => {
            let receipt = receipt(&guard, &reserved, request);
            let unsettled = ToSettle { reserved, requote: request.requote(now) };
            return Ok(Purchase { receipt, guard, unsettled: Some(Box::new(unsettled)), cost: now, made: None });
        }
        // The process that settled it is gone.
        Judgement::Resume(paid) => match Box::pin(opened.is_remembered(chain, &paid)).await {
            Ok(()) => return Ok(resumed(guard, &reserved, paid, request, now)),
            Err(problem) => problem.into(),
        },
        judgement => {
            let refuses = case.begun.is_some() && matches!(judgement, Judgement::Refuse(_));
            let judgement = match refuses && Box::pin(guard.is_not_settled()).await != UntilNow::Held {
                true => Judgement::Unknown,
                false => judgement,
            };
            rejection(request, &opened, reserved.showing(), judgement, now)
        }
    };
    Box::pin(guard.release()).await;
    Err(rejection)
}

/// Checks what can be known without a lease. Returns the payment to claim, and the purchase; `Err` in its place if the signature is not proven.
async fn admit<S: Signed>(
    request: &PricedRequest,
    opened: &Opened<'_>,
    reserved: &mut S,
    (purchase, head): (Option<PurchaseKey>, ChainTime),
    now: Cost,
) -> Result<(Payment, Result<Option<PurchaseKey>, Unproven>), Rejection> {
    if let Some(found) = reserved.forged().await {
        let judgement = judge(found, &reserved.showing().case(reserved.is_metered(), None));
        return Err(rejection(request, opened, reserved.showing(), judgement, now));
    }
    // A signature that may be forged reserves no purchase: its payer may be someone else.
    let purchase = match purchase {
        Some(_) if !reserved.is_proven().await.ok_or_else(unavailable)? => Err(Unproven),
        purchase => Ok(purchase),
    };
    reserved.showing_mut().begin().await;
    // In a future block, so after everything that this ledger has forgotten.
    let signed = reserved.payment(ChainTime::from_unix(head.unix() + 1));
    if opened.route.merchant.attempts.is_awaited(signed.id()) {
        Box::pin(goes_on(opened, reserved.showing(), signed.id())).await?;
    }
    Ok((signed, purchase))
}

/// The signature may be forged, so the claim leaves the client's purchase out.
struct Unproven;

/// Returns the purchase by a payment that an earlier request has settled.
fn resumed<S: Signed>(
    mut guard: LeaseGuard,
    reserved: &S,
    paid: Payment,
    request: &PricedRequest,
    now: Cost,
) -> Purchase {
    if reserved.is_metered() {
        guard.charge(paid.amount());
    }
    let made = paid.transaction().map(|made| Box::new(reserved.showing().pending(Some(made))));
    guard.paid_by(paid);
    let receipt = receipt(&guard, reserved, request);
    Purchase { receipt, guard, unsettled: None, cost: now, made }
}

fn receipt<S: Signed>(guard: &LeaseGuard, reserved: &S, request: &PricedRequest) -> Receipt {
    let (resource, showing) = (Arc::clone(&request.route.resource), reserved.showing());
    let receipt = Receipt::of(resource, showing.intent().clone(), Arc::clone(guard.shared_payment()));
    let receipt = receipt.with_proof(ProvedBy::Authorization);
    if reserved.is_metered() { receipt.with_maximum(showing.amount()) } else { receipt }
}

fn unavailable() -> Problem {
    Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN)
}

/// Checks whether a signature alone may still buy with a payment that its payer has proved to be mined, and waits for. It may if the
/// payment was settled for its quote. Any other such payment is public, and the signature buys nothing. If it were checked under a lease, a
/// copy would hold the payment as often as it is shown.
async fn goes_on(opened: &Opened<'_>, showing: &Showing, payment: PaymentId) -> Result<(), Problem> {
    let in_progress = || Problem::after(ProblemCode::RedemptionInProgress, ASK_AGAIN);
    if !showing.is_quoted() {
        return Err(in_progress());
    }
    match ledger_in_time(opened.route.merchant.ledger.begun(opened.key, payment)).await {
        Ok(begun) => begun.map(drop).ok_or_else(in_progress),
        Err(_) => Err(Problem::after(ProblemCode::LedgerUnavailable, ASK_AGAIN)),
    }
}

/// Returns the reply to a payment that buys nothing now.
fn rejection(
    request: &PricedRequest,
    opened: &Opened<'_>,
    showing: &Showing,
    judgement: Judgement,
    now: Cost,
) -> Rejection {
    match judgement {
        Judgement::Prove(transaction) => showing.to_prove(transaction).into(),
        Judgement::Elsewhere => {
            let seal = request.route.seals.of(opened.recipient);
            request.with_new_intent(ProblemCode::IntentNotFound, seal, now.amount).into()
        }
        Judgement::Refuse(reason) => request.requote(now).refuse(reason, showing.network(), Some(showing.payer())),
        Judgement::Wait(wait) => Problem::after(ProblemCode::TxNotConfirmed, wait).into(),
        Judgement::TooOld => opened.too_old().into(),
        Judgement::Unknown => showing.outcome_unknown(None).into(),
        Judgement::UsedUntold => showing.used_untold().into(),
        Judgement::Settle | Judgement::Resume(_) | Judgement::Unavailable => unavailable().into(),
    }
}
