//! Redeeming, up to the handler: seal, chain, ledger, in that order. A signed payment, which has not happened yet, is reserved first.

pub(crate) mod authorization;
pub(crate) mod transfer;

use std::{pin::pin, sync::Arc};

use crate::{
    paywall::{
        dialect::client_submitted::{Presented, is_submitted},
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, Problem, Rejection, Requote},
        sale::{
            kept::Shown,
            opened::Opened,
            reservation::{HoldOutcome, LeaseGuard},
        },
        seller::{
            inner::MerchantInner,
            standard::Standard,
            time_limits::{SETTLER, verifier_in_time},
        },
        way::authorization::{
            Authorized, exact,
            judgement::{Found, Judgement, judge},
            unsettled::Unsettled,
        },
    },
    protocol::{
        Amount, ChainTime, ProblemCode, Proof, ProvedBy, Receipt, Redemption, TxHash,
        v2::{PaymentPayload, Reason, SchemePayload, SettleResponse},
    },
    verify::NonceState,
};

/// A reserved payment, which buys the handler's answer.
pub(crate) struct Purchase {
    pub(crate) guard: LeaseGuard,
    pub(crate) receipt: Receipt,
    /// What is to be settled before the answer leaves, and what to answer if it cannot be.
    pub(crate) unsettled: Option<Box<(Unsettled, Requote)>>,
}

/// Reserves the payment that buys this answer; `None` where the request is free.
pub(crate) async fn reserve(request: &PricedRequest, proof: Proof) -> Result<Option<Purchase>, Rejection> {
    let Some(amount) = request.amount().await.transpose() else { return Ok(None) };
    match proof {
        Proof::Redemption(redemption) => redeem(request, redemption.into(), amount).await.map(Some),
        // Boxed, so that the other ways do not carry its state.
        Proof::Payment(payment) if is_submitted(&payment) => {
            match Presented::read(&request.route.merchant, &payment)? {
                Some(presented) => Box::pin(redeem(request, presented, amount)).await.map(Some),
                None => Err(without_intent(request, amount)),
            }
        }
        Proof::Payment(payment) => Box::pin(accept(request, *payment, amount)).await.map(Some),
        Proof::IntentOnly(_) => amount.and(Err(ProblemCode::TxRequired.into())),
        Proof::TransactionOnly(_) => Err(without_intent(request, amount)),
    }
}

/// What to answer to a transaction that is shown without an intent.
fn without_intent(request: &PricedRequest, amount: Result<Amount, Rejection>) -> Rejection {
    let seal = request.route.seals.current();
    match amount {
        Ok(amount) => request.with_new_intent(ProblemCode::IntentRequired, seal, amount).into(),
        Err(rejection) => rejection,
    }
}

/// Reserves a payment for this intent, in that transaction.
async fn redeem(
    request: &PricedRequest,
    presented: Presented,
    amount: Result<Amount, Rejection>,
) -> Result<Purchase, Rejection> {
    let redemption = &presented.redemption;
    let Some(verifier) = request.route.merchant.chain() else { return Err(Problem::takes_signed_only().into()) };
    let Some(opened) = Opened::open(&request.route, &redemption.intent) else {
        let seal = request.route.seals.current();
        return Err(request.with_new_intent(ProblemCode::IntentNotFound, seal, amount?).into());
    };
    let shown = Shown::Transaction(redemption.transaction);
    let (claimable, head) = match opened.claimable(request, &**verifier, &presented, amount).await {
        Ok(claimable) => claimable,
        Err(rejection) => return Err(opened.unless_consumed(shown, rejection).await),
    };
    let (guard, proved_by) = match opened.reserve(claimable, redemption, head).await {
        Ok(reserved) => reserved,
        Err(problem) => return Err(opened.refused(shown, problem).await),
    };
    let intent = presented.redemption.intent;
    let receipt = Receipt::new(Arc::clone(&request.route.resource), intent, guard.transfer().clone());
    Ok(Purchase { guard, receipt: receipt.with_proof(proved_by), unsettled: None })
}

/// Reserves a signed payment, and checks that it can be settled.
async fn accept(
    request: &PricedRequest,
    payload: PaymentPayload,
    amount: Result<Amount, Rejection>,
) -> Result<Purchase, Rejection> {
    let merchant = &request.route.merchant;
    let Some(standard) = &merchant.standard else { return Err(Problem::takes_transfers_only().into()) };
    if let Err(problem) = ready(merchant, standard).await {
        return Err(unless_sold(request, &payload, problem.into()).await);
    }
    let (now, unpriced) = match amount {
        Ok(amount) => (Some(amount), None),
        Err(rejection) => (None, Some(rejection)),
    };
    let authorized = match (Authorized::read(request, &payload, now), unpriced) {
        (Ok(authorized), None) => authorized,
        (Ok(authorized), Some(unpriced)) => {
            let shown = authorized.shown();
            return Err(authorized.opened.unless_consumed(shown, unpriced).await);
        }
        (Err(_), Some(unpriced)) => return Err(unpriced),
        (Err(reason), None) => return Err(unmatched(request, &payload, now, reason).await),
    };
    reserve_signed(request, standard, authorized, now.unwrap_or(Amount::ZERO)).await
}

/// Makes sure that anything can be sold, and to be settled.
async fn ready(merchant: &MerchantInner, standard: &Standard) -> Result<(), Problem> {
    merchant.started().await?;
    standard.learn().await.map(drop).map_err(Problem::from)
}

/// What to answer to a signed payment that is refused before it is looked at: the answer that it bought is told of all the same.
async fn unless_sold(request: &PricedRequest, payload: &PaymentPayload, rejection: Rejection) -> Rejection {
    let Ok((accepted, signed)) = exact(payload) else { return rejection };
    let Ok(Some(intent)) = accepted.intent() else { return rejection };
    let Some(opened) = Opened::open(&request.route, &intent) else { return rejection };
    let shown = Shown::Authorization(signed.authorization.payment_id(accepted.network, accepted.asset));
    opened.unless_consumed(shown, rejection).await
}

async fn reserve_signed(
    request: &PricedRequest,
    standard: &Standard,
    authorized: Authorized<'_>,
    now: Amount,
) -> Result<Purchase, Rejection> {
    let route = &request.route;
    let shown = authorized.shown();
    let payable = authorized.is_payable();
    let Authorized { opened, payment, .. } = authorized;
    let intent = payment.intent.clone();
    let Ok(head) = verifier_in_time(route.merchant.chain.head()).await else {
        let unavailable = Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN);
        return Err(opened.unless_consumed(shown, unavailable.into()).await);
    };
    let mut unsettled = Unsettled::new(standard, &opened, payment, opened.digest(request), head);
    if let Some(found) = unsettled.forged().await {
        let judgement = judge(found, &unsettled.case(None));
        return Err(opened.unless_consumed(shown, rejection(request, &opened, &unsettled, judgement, now)).await);
    }
    unsettled.begin().await;
    // In a block to come: after whatever this ledger has forgotten.
    let transfer = unsettled.transfer(ChainTime::from_unix(head.unix() + 1));
    let mut guard = match opened.grant(opened.claim(head).transfers(vec![transfer])).await {
        Ok(guard) => guard,
        Err(problem) => return Err(opened.refused(shown, problem).await),
    };
    if !unsettled.take_on() {
        guard.release().await;
        return Err(Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN).into());
    }
    let receipt = |guard: &LeaseGuard| {
        Receipt::new(Arc::clone(&route.resource), intent.clone(), guard.transfer().clone())
            .with_proof(ProvedBy::Authorization)
    };
    let case = unsettled.case(guard.begun());
    // The lease is kept: how long a settler may take is its own setting.
    let found = match guard.keep(SETTLER + SETTLER, None, pin!(unsettled.check(payable, case.begun))).await {
        HoldOutcome::Finished(found) => found,
        HoldOutcome::LeaseLost | HoldOutcome::HeldTooLong | HoldOutcome::BodyLate => Found::Unavailable,
    };
    let rejection = match judge(found, &case) {
        Judgement::Settle => {
            let requote = request.requote(now);
            return Ok(Purchase { receipt: receipt(&guard), guard, unsettled: Some(Box::new((unsettled, requote))) });
        }
        // The process that settled it is gone.
        Judgement::Resume(transfer) => match opened.is_remembered(head, &transfer).await {
            Ok(()) => {
                guard.paid_by(transfer);
                return Ok(Purchase { receipt: receipt(&guard), guard, unsettled: None });
            }
            Err(problem) => problem.into(),
        },
        judgement => {
            if case.begun.is_some() && matches!(judgement, Judgement::Refuse(_)) {
                guard.is_not_settled().await;
            }
            rejection(request, &opened, &unsettled, judgement, now)
        }
    };
    guard.release().await;
    Err(rejection)
}

/// What to answer to a payment that buys nothing now.
fn rejection(
    request: &PricedRequest,
    opened: &Opened<'_>,
    unsettled: &Unsettled,
    judgement: Judgement,
    now: Amount,
) -> Rejection {
    match judgement {
        Judgement::Prove(transaction) => unsettled.to_prove(transaction).into(),
        Judgement::Elsewhere => {
            request.with_new_intent(ProblemCode::IntentNotFound, request.route.seals.of(opened.recipient), now).into()
        }
        Judgement::Refuse(reason) => request.requote(now).refuse(reason, Some(unsettled.payer())),
        Judgement::Wait(wait) => Problem::after(ProblemCode::TxNotConfirmed, wait).into(),
        Judgement::TooOld => opened.too_old().into(),
        Judgement::Unknown => unsettled.outcome_unknown(None).into(),
        Judgement::Settle | Judgement::Resume(_) | Judgement::Unavailable => {
            Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN).into()
        }
    }
}

/// What to answer to a payment that is none of those that are offered: a new quote, unless it was used.
async fn unmatched(
    request: &PricedRequest,
    payload: &PaymentPayload,
    now: Option<Amount>,
    reason: Reason,
) -> Rejection {
    let merchant = &request.route.merchant;
    let now = now.unwrap_or(Amount::ZERO);
    let payer = match &payload.payload {
        SchemePayload::Authorization(signed) => Some(signed.authorization.from),
        _ => None,
    };
    let refused = |reason| request.requote(now).refuse(reason, payer);
    let Ok((accepted, signed)) = exact(payload) else { return refused(reason) };
    let known = accepted.network == merchant.network
        && merchant.accepted.iter().any(|asset| asset.contract() == accepted.asset);
    let Some(chain) = merchant.chain().filter(|_| known) else { return refused(reason) };
    let authorization = &signed.authorization;
    let since = ChainTime::from_unix(merchant.clock.unix().saturating_sub(merchant.quote_ttl.as_secs()));
    let state = chain.authorization(accepted.asset, authorization.from, &authorization.nonce, since);
    match verifier_in_time(state).await {
        Ok(NonceState::Unused) => refused(reason),
        // It may have paid here, also where what used it was not found.
        Ok(NonceState::Used(_) | NonceState::Spent) => {
            let seal = request.route.seals.of(accepted.pay_to);
            request.with_new_intent(ProblemCode::IntentNotFound, seal, now).into()
        }
        Err(_) => Problem::after(ProblemCode::VerificationUnavailable, ASK_AGAIN).into(),
    }
}

/// What to answer to a redemption that is refused before its intent was opened.
pub(crate) async fn unless_consumed(
    request: &PricedRequest,
    redemption: &Redemption,
    rejection: Rejection,
) -> Rejection {
    match Opened::open(&request.route, &redemption.intent) {
        Some(opened) => opened.unless_consumed(Shown::Transaction(redemption.transaction), rejection).await,
        None => rejection,
    }
}

impl Unsettled {
    /// Whether it is settled, or will be, is not known: the same header again goes on.
    pub(crate) fn outcome_unknown(&self, transaction: Option<TxHash>) -> Problem {
        Problem {
            settlement: Some(Box::new(self.pending(transaction))),
            detail: Some(
                "Whether the payment is settled is not known yet. Send the same request with the same PAYMENT-SIGNATURE again after Retry-After; do not sign another.",
            ),
            ..Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN)
        }
    }

    /// What is told of a payment that is made, or may be, and has bought nothing.
    pub(crate) fn pending(&self, transaction: Option<TxHash>) -> SettleResponse {
        let payer = self.payment.authorization.authorization.from;
        let pending = SettleResponse::pending(transaction, self.payment.requirements.network);
        pending.with_payer(payer).with_amount(self.amount())
    }
}
