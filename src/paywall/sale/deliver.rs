//! Delivery: the handler runs under a lease, and its answer leaves only after its own commit.

use std::{convert::Infallible, future::Future, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Body;
use tokio::time::Instant;
use tower_service::Service;

use crate::{
    metrics,
    paywall::{
        body::{RequestBody, ResponseBody},
        priced_request::PricedRequest,
        refusal::{ASK_AGAIN, ChargeFault, Fault, Problem, Rejection},
        sale::{
            answer::{Answer, read},
            charge::{Said, of_fixed, of_maximum},
            ending::{Ending, Unsold},
            handler::{judge, run},
            holder::Holder,
            kept_answer::{Shown, keep, sold_before},
            parts,
            recording::commit,
            reservation::{Committed, LeaseGuard},
            settle::{Unsettled, settle},
        },
        seller::{pricing::Cost, route::Route},
    },
    protocol::{Amount, IntentKey, Payment, ProblemCode, Receipt, headers::PAYMENT_RESPONSE, v2::SettleResponse},
};

/// A reserved payment, which buys the handler's answer.
pub(crate) struct Purchase {
    pub(crate) guard: LeaseGuard,
    pub(crate) receipt: Receipt,
    /// The payment to settle before the answer leaves.
    pub(crate) unsettled: Option<Box<dyn Unsettled>>,
    /// What the request costs.
    pub(crate) cost: Cost,
    /// The signed payment that an earlier request settled. An answer that is not sold must tell the payer about it.
    pub(crate) made: Option<Box<SettleResponse>>,
}

/// The intent that a payment consumes, in the extensions of the request that buys a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoldIntent(pub(crate) IntentKey);

/// The result of a purchase.
pub(crate) struct Delivery<ResB, E> {
    pub(crate) outcome: Result<Response<ResponseBody<ResB>>, Unsold<E>>,
    /// The signed payment that was settled before the handler ran. An answer that is not sold must tell the payer about it.
    pub(crate) made: Option<Box<SettleResponse>>,
    /// Whether the payment was settled before the handler ran: the payer has spent the money, whatever becomes of the answer.
    pub(crate) paid: bool,
}

/// Writes the taken payment into the head of a sold answer. The amount is the most that the payer allowed, where the handler set the
/// charge.
type MarkSold = fn(&mut HeaderMap, &Payment, Option<Amount>);

/// Runs the handler and sells its answer.
pub(crate) fn deliver<S, B, ResB>(
    request: PricedRequest,
    unread: Option<B>,
    inner: S,
    purchase: Purchase,
    mark_sold: MarkSold,
) -> impl Future<Output = Delivery<ResB, S::Error>>
where
    S: Service<Request<RequestBody<B>>, Response = Response<ResB>>,
    B: Body<Data = Bytes>,
    ResB: Body<Data = Bytes>,
{
    // Outside the future: its captures are moved with it, and an `async fn` stores each argument twice.
    let Purchase { mut guard, mut receipt, mut unsettled, cost, mut made } = purchase;
    let (route, digest) = (Arc::clone(&request.route), parts::digest(&request));
    let mut request = request.into_request(unread);
    parts::ask_for_all(&mut request, &route);
    async move {
        // A way to pay that only writes to the ledger gains nothing by settling first: the payment is held already.
        let comes_first = |unsettled: &mut Box<dyn Unsettled>| unsettled.sends() && !unsettled.is_metered();
        if let Some(to_settle) = unsettled.take_if(|unsettled| route.settle_first && comes_first(unsettled)) {
            let Some(settlement) = settle(to_settle, guard).await else {
                return Delivery { outcome: Err(outcome_unknown().into()), made, paid: false };
            };
            let outcome;
            (guard, unsettled, outcome) = settlement.into_parts();
            if let Err(not) = outcome {
                let outcome = Box::pin(keep_payment(not.into(), guard, unsettled.as_deref(), &route)).await;
                return Delivery { outcome, made, paid: false };
            }
            receipt = receipt.settled_by(Arc::clone(guard.shared_payment()));
            made = unsettled
                .as_ref()
                .and_then(|unsettled| Some((unsettled, guard.payment().transaction().or(unsettled.made_by())?)))
                .map(|(unsettled, transaction)| Box::new(unsettled.made(transaction)));
        }
        let paid = guard.payment().is_settled();
        request.extensions_mut().insert(receipt);
        if route.sells_pass.is_some() {
            request.extensions_mut().insert(SoldIntent(guard.intent()));
        }
        let late = request.body_mut().watch(route.pace());
        // Only a rule about bodies waits for the rest of an answer.
        let hold_end = route.consumes_body.as_ref().and_then(|_| Instant::now().checked_add(route.merchant.max_hold));
        // The handler is gone at the end of this statement, however its work ended.
        let outcome = run(request, inner, Holder::Payment(&guard), late.as_deref(), &route).await;
        let ending = judge(outcome, &route, Holder::Payment(&guard));
        let mut ending = read(ending, &route, Holder::Payment(&guard), hold_end).await;
        if let Ending::Sale(answer) = &mut ending {
            match charge(answer.said, &mut guard, unsettled.as_deref(), cost) {
                // A ticket for an answer that cost nothing could get parts of a later, expensive one.
                Ok(charge) => parts::tell(answer.response.headers_mut(), digest.filter(|_| !charge.is_zero()), &route),
                Err(fault) => ending = Ending::NoSale(Err(Rejection::from(Fault::Charge(fault)).into())),
            }
        }
        let is_due = made.is_none() && matches!(ending, Ending::Sale(_));
        if let Some(to_settle) = unsettled.take_if(|_| is_due) {
            let Some(settlement) = settle(to_settle, guard).await else {
                return Delivery { outcome: Err(outcome_unknown().into()), made, paid };
            };
            let outcome;
            (guard, unsettled, outcome) = settlement.into_parts();
            if let Err(not) = outcome {
                ending = not.into();
            }
        }
        let outcome = match ending.split() {
            Ok(answer) => sell(answer, guard, unsettled.as_deref(), &route, mark_sold).await,
            // Boxed: most answers are sold, and the future of every request would otherwise reserve room for the other endings.
            Err(ending) => Box::pin(keep_payment(ending, guard, unsettled.as_deref(), &route)).await,
        };
        Delivery { outcome, made, paid }
    }
}

/// Decides how much of the payment is charged, from the handler's charge, and returns that amount.
fn charge(
    said: Said,
    guard: &mut LeaseGuard,
    unsettled: Option<&dyn Unsettled>,
    cost: Cost,
) -> Result<Amount, ChargeFault> {
    let paid = guard.payment().amount();
    match unsettled {
        Some(unsettled) if unsettled.is_metered() => {
            let charge = of_maximum(said, paid)?;
            guard.charge(charge);
            Ok(charge)
        }
        // The payment was charged before, for an answer that did not leave.
        None if guard.maximum().is_some() => Ok(paid),
        _ => of_fixed(said, cost, paid).map(|()| paid),
    }
}

/// Ends the lease if nothing is sold.
async fn keep_payment<ResB, E>(
    ending: Ending<Infallible, ResB, E>,
    guard: LeaseGuard,
    unsettled: Option<&dyn Unsettled>,
    route: &Route,
) -> Result<Response<ResponseBody<ResB>>, Unsold<E>> {
    match ending {
        Ending::Sale(never) => match never {},
        Ending::NoSale(answer) => {
            if let Some(unsettled) = unsettled {
                unsettled.let_go().await;
            }
            guard.release().await;
            if answer.is_ok() {
                metrics::redeemed(&route.resource, "not_sold");
            }
            answer
        }
        Ending::LeaseLost => Err(withheld(guard, unsettled, route).await.into()),
        Ending::Unknown(problem) => Err(problem.into()),
    }
}

/// Records the sale, and only then lets the answer leave.
fn sell<ResB, E>(
    answer: Answer<ResB>,
    guard: LeaseGuard,
    unsettled: Option<&dyn Unsettled>,
    route: &Route,
    mark_sold: MarkSold,
) -> impl Future<Output = Result<Response<ResponseBody<ResB>>, Unsold<E>>> {
    let Answer { mut response, kept, .. } = answer;
    let paid = guard.payment();
    mark_sold(response.headers_mut(), paid, guard.maximum());
    if let Some(told) = unsettled.and_then(Unsettled::told) {
        response.headers_mut().insert(PAYMENT_RESPONSE, told.to_header());
    }
    let kept = kept.map(|(redelivery, body)| keep(&redelivery, paid, response.status(), response.headers(), &body));
    let unknown = move |taken| match unsettled {
        Some(unsettled) => unsettled.outcome_unknown(taken),
        None => outcome_unknown(),
    };
    let taken = paid.transaction();
    async move {
        let Some((committed, guard)) = commit(guard, kept, route).await else { return Err(unknown(taken).into()) };
        match committed {
            Committed::Done => {
                let paid = guard.payment();
                // A restored ledger reads these fields back as a `LoggedSale`.
                tracing::info!(
                    payment = %paid.id(), intent = %const_hex::encode(guard.intent().as_bytes()), resource = &*route.resource, payer = ?paid.payer(),
                    voucher = unsettled.and_then(Unsettled::logged).map(tracing::field::display), amount = %paid.amount(),
                    "sold"
                );
                count(route, paid, guard.maximum());
                Ok(response)
            }
            // Boxed, as both are rare.
            Committed::LeaseLost => Err(Box::pin(withheld(guard, unsettled, route)).await.into()),
            Committed::Unknown => {
                tracing::error!(payment = %guard.payment().id(), "whether the sale was recorded is not known");
                Box::pin(guard.release()).await;
                Err(unknown(taken).into())
            }
        }
    }
}

/// It is unknown whether the payment is taken, and by which transaction.
fn outcome_unknown() -> Problem {
    Problem::after(ProblemCode::OutcomeUnknown, ASK_AGAIN)
}

/// Counts a sale.
fn count(route: &Route, paid: &Payment, maximum: Option<Amount>) {
    if let Some(maximum) = maximum {
        metrics::allowed(&route.resource, paid.network(), &paid.token(), || maximum.saturating_to_u64());
    }
    metrics::sold(&route.resource, paid.network(), &paid.token(), || paid.amount().saturating_to_u64());
    // Without a verifier the block is unknown.
    if route.merchant.on(paid.network()).is_some_and(|chain| chain.reader().is_some()) {
        metrics::answered_after(&route.resource, || route.merchant.clock.unix().saturating_sub(paid.time().unix()));
    }
}

/// Withholds an answer because another request now holds the pair, or has sold it. Returns the kept answer of that sale, if there is one.
async fn withheld(guard: LeaseGuard, unsettled: Option<&dyn Unsettled>, route: &Route) -> Rejection {
    tracing::warn!(payment = %guard.payment().id(), "lease lost; the answer is withheld");
    let paid = guard.payment();
    let shown = match (unsettled, paid.transaction()) {
        (Some(unsettled), _) => unsettled.shown(),
        (None, Some(transaction)) => Shown::Transaction(transaction),
        (None, None) => Shown::Public,
    };
    match guard.lost().await {
        Some(sale) => sold_before(sale, shown, route.redelivery().is_some()),
        None => Problem::after(ProblemCode::RedemptionInProgress, ASK_AGAIN).into(),
    }
}
